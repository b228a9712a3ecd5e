"""From a file to an ``EvalConfig``: compose, override, resolve, expand, validate. All problems come at once."""

import copy
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from nemo_evaluator.config import user_settings
from nemo_evaluator.config._document import Document, prune_nulls
from nemo_evaluator.config._document import Path as ConfigPath
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config._references import expand_environment, resolve_self_references
from nemo_evaluator.config._schema_walk import value_at
from nemo_evaluator.config.compose import (
    as_mapping,
    compose_document,
    drop_variables,
    expand_playbooks,
)
from nemo_evaluator.config.cross_check import cross_check
from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.config.overrides import apply_overrides
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import config_folder
from nemo_evaluator.core.secret_places import holds_mask, remember_config
from nemo_evaluator.core.secrets import remember_environment
from nemo_evaluator.core.values import dataclass, field

# In place of a service whose settings are wrong: benchmarks that name it can be opened all the same.
_SERVICE: Final = {"type": "api", "url": "http://127.0.0.1:9/v1/chat/completions", "model": "none"}
# What decides how benchmarks are opened: without it nothing is known.
_NEEDED: Final = ("cluster", "datasets", "benchmarks")
_ROUNDS: Final = 4
_MASKED: Final = "contains *** in place of a secret, which was masked when this file was written"
_UNMASK: Final = "write ${VARIABLE} and set that variable, or give the value with -O"
_KEY: Final = re.compile(r'"([^"]*)"|\[(\d+)\]|([^.\[\]"]+)')


@dataclass(slots=True)
class LoadedConfig:
    """A config and where it came from: ``document`` is the composed data, environment references unexpanded."""

    config: EvalConfig
    document: Document = field(default_factory=lambda: Document({}))
    source: Path | None = None
    overrides: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def raw(self) -> dict[str, Any]:
        """What the snapshot keeps."""
        data: dict[str, Any] = self.document.value
        return data

    def refuse(self, problems: list[Problem]) -> None:
        """Raise ConfigError with what was found wrong with this config, if anything was."""
        if problems:
            raise ConfigError(problems, source=str(self.source) if self.source else None)


class BrokenConfigError(ConfigError):
    """A config whose schema is broken; what is left without the wrong parts can be checked as well."""

    def __init__(self, problems: list[Problem], document: Document, data: Any) -> None:
        super().__init__(problems)
        self._document = document
        self._data = data

    def with_rest(self, look: Callable[[LoadedConfig], Iterable[Problem]]) -> ConfigError:
        """The error with what ``look`` finds wrong with the rest; not where something is wrong, or missing, anyway."""
        found = salvage(self._data, self.problems)
        if found is None:
            return self
        config, numbers = found
        known = [path_of(one.path) for one in self.problems]
        more = []
        for one in look(LoadedConfig(config)):
            path = path_of(one.path)
            if path[0] == "benchmarks" and path[1:]:
                path = ("benchmarks", numbers[int(path[1])], *path[2:])
            if not any(path[: len(other)] == other[: len(path)] for other in known):
                more.append(self._document.problem(path, one.message, one.hint))
        return ConfigError(_in_order([*self.problems, *more]), source=self.source)


def load_config(
    path: str | Path,
    overrides: Iterable[str] = (),
    output_dir: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> LoadedConfig:
    """The config of a file. ``output_dir`` wins over ``output.dir``, as ``-o`` does.

    Files that it names are looked for in its folder (for a snapshot: in ``folder``, where its config was), then in the
    current one. Raises ConfigError with every problem found: path, line, what is wrong, how to mend it.
    """
    source = Path(path)
    config_folder.set(folder or source.parent)
    try:
        return _load(
            compose_document(source),
            tuple(overrides),
            output_dir,
            source=source,
            environment=environment,
        )
    except ConfigError as error:
        error.source = str(source)
        raise


def load_mapping(
    data: dict[str, Any],
    overrides: Iterable[str] = (),
    output_dir: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """The config of plain data, on the same way as one from a file."""
    config_folder.set(None)
    return _load(
        as_mapping(Document(data), None),
        tuple(overrides),
        output_dir,
        source=None,
        environment=environment,
    )


def _load(
    composed: Document,
    overrides: tuple[str, ...],
    output_dir: str | Path | None,
    source: Path | None,
    environment: Mapping[str, str] | None,
) -> LoadedConfig:
    resolved = resolve_self_references(apply_overrides(composed, overrides))
    plain = Document(prune_nulls(drop_variables(resolved.value)), resolved.marks)
    said: list[str] = []
    plain.value = user_settings.under_config(plain.value, user_settings.load_settings(said.append))
    if output_dir is not None and isinstance(plain.value.get("output", {}), dict):
        plain.value["output"] = {**plain.value.get("output", {}), "dir": str(output_dir)}
    document = expand_playbooks(plain, source.parent if source else Path())
    config, more = _validate(document, os.environ if environment is None else environment)
    return LoadedConfig(config, document, source, overrides=overrides, warnings=said + more)


def parse_eval_config(data: dict[str, Any]) -> EvalConfig:
    """The config of plain data: playbooks and environment references are expanded, then everything is checked."""
    document = expand_playbooks(as_mapping(Document(data), None), Path())
    config, said = _validate(document, os.environ)
    for text in said:
        warnings.warn(text, UserWarning, stacklevel=2)
    return config


def _validate(document: Document, environment: Mapping[str, str]) -> tuple[EvalConfig, list[str]]:
    remember_environment(environment)
    data, problems = expand_environment(document, environment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            remember_config(data, document.value, environment)
            problems += [document.problem(path, _MASKED, _UNMASK) for path in holds_mask(data)]
            config = EvalConfig.model_validate(data)
        except ValidationError as error:
            raise BrokenConfigError(
                _all_problems(problems, error, document, data=data), document, data
            ) from None
        except RecursionError:
            raise document.error((), "is nested too deeply", "flatten it") from None
    if problems:
        raise BrokenConfigError(problems, document, data)
    said = [str(item.message) for item in caught if issubclass(item.category, UserWarning)]
    return config, [*said, *config.cluster.cautions(config.services, config.benchmarks)]


def _all_problems(
    problems: list[Problem], error: ValidationError, document: Document, data: Any
) -> list[Problem]:
    """Unset variables, schema errors and wrong references together; one word per place."""
    schema = explain(error, document, EvalConfig)
    references = [document.problem(*finding) for finding in cross_check(data)]
    together: dict[str, Problem] = {}
    for problem in (*problems, *schema, *references):
        together.setdefault(problem.path, problem)
    return _in_order(together.values())


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


def salvage(data: Any, problems: Iterable[Problem]) -> tuple[EvalConfig, list[int]] | None:
    """The rest of a config as a valid one, with the numbers that its benchmarks had; None when too little is left.

    First the values that are wrong are left out. Where that is not enough, what is around them is.
    """
    data = copy.deepcopy(data)
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        return None
    numbers = list(range(len(data["benchmarks"])))
    for path in [path_of(problem.path) for problem in problems]:
        around = value_at(data, path[:-1])
        if isinstance(around, dict) and path not in {(key,) for key in _NEEDED}:
            around.pop(path[-1], None)
    for _ in range(_ROUNDS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return EvalConfig.model_validate(data), numbers
        except ValidationError as error:
            wrong = [path_of(one.path) for one in explain(error, Document(data), EvalConfig)]
        wrong += [one.path for one in cross_check(data)]
        dropped = {path[1] for path in wrong if not _replaced(data, path) and path[1:]}
        numbers = [number for place, number in enumerate(numbers) if place not in dropped]
        data["benchmarks"] = [
            one for place, one in enumerate(data["benchmarks"]) if place not in dropped
        ]
    return None


def path_of(shown: str) -> ConfigPath:
    """The path that ``show_path`` has written."""
    found = _KEY.finditer(shown)
    return tuple(
        int(match[2]) if match[2] else match[1] if match[1] is not None else match[3]
        for match in found
    )


def _replaced(data: dict[str, Any], path: ConfigPath) -> bool:
    """Take away the part around ``path``, or put something valid in its place; False for a benchmark: it has to go."""
    services = as_dict(data.get("services"))
    match path:
        case ("services", str(name), *_) if services:
            services[name] = dict(_SERVICE)
        case ("services", *_):
            data["services"] = {"model": dict(_SERVICE)}
        case ("benchmarks", int(place), "solver", *_) if services and isinstance(
            data["benchmarks"][place], dict
        ):
            solver = {"type": "simple", "service": next(iter(services))}
            again = data["benchmarks"][place].get("solver") == solver
            data["benchmarks"][place]["solver"] = solver
            return not again
        case (str(key), *_) if key not in _NEEDED:
            data.pop(key, None)
        case _:
            return False
    return True
