"""Loads a file as an ``EvalConfig``: compose, override, resolve, expand, validate. Problems are reported together."""

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
from nemo_evaluator.core.secret_masks import holds_mask
from nemo_evaluator.core.secret_places import remember_config
from nemo_evaluator.core.secrets import remember_environment
from nemo_evaluator.core.values import dataclass, field

# Replaces a service whose settings are wrong, so that benchmarks that name it can still be opened.
_SERVICE: Final = {"type": "api", "url": "http://127.0.0.1:9/v1/chat/completions", "model": "none"}
# Without these sections, benchmarks cannot be opened.
_NEEDED: Final = ("cluster", "datasets", "benchmarks")
_ROUNDS: Final = 4
_MASKED: Final = "contains *** in place of a secret, which was masked when this file was written"
_UNMASK: Final = "write ${VARIABLE} and set that variable, or give the value with -O"
_KEY: Final = re.compile(r'"([^"]*)"|\[(\d+)\]|([^.\[\]"]+)')


@dataclass(slots=True)
class LoadedConfig:
    """A config and its origin.

    Attributes:
        config: The validated config.
        document: The composed data, with environment references unexpanded.
        source: Its file.
        overrides: The overrides that were applied.
        warnings: Messages about settings that are valid but questionable.
    """

    config: EvalConfig
    document: Document = field(default_factory=lambda: Document({}))
    source: Path | None = None
    overrides: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def raw(self) -> dict[str, Any]:
        """The composed data, as stored in the snapshot."""
        data: dict[str, Any] = self.document.value
        return data

    def refuse(self, problems: list[Problem]) -> None:
        """Raise a ConfigError with these problems, if there are any."""
        if problems:
            raise ConfigError(problems, source=str(self.source) if self.source else None)


class BrokenConfigError(ConfigError):
    """A config that the schema refuses. ``with_rest`` checks its correct parts as well."""

    def __init__(self, problems: list[Problem], document: Document, data: Any) -> None:
        super().__init__(problems)
        self._document = document
        self._data = data

    def with_rest(self, check: Callable[[LoadedConfig], Iterable[Problem]]) -> ConfigError:
        """Check the correct parts of the config as well.

        Args:
            check: Finds the problems of a config; called with the config without its wrong parts.

        Returns:
            The error with the additional problems, except those at a path that is already reported.
        """
        salvaged = salvage(self._data, self.problems)
        if salvaged is None:
            return self
        config, indices = salvaged
        wrong_paths = [path_of(problem.path) for problem in self.problems]
        all_problems = list(self.problems)
        for problem in check(LoadedConfig(config)):
            path = _in_broken_config(path_of(problem.path), indices)
            is_reported = any(_is_around(path, wrong_path) for wrong_path in wrong_paths)
            if not is_reported:
                all_problems.append(self._document.problem(path, problem.message, problem.hint))
        return ConfigError(_in_order(all_problems), source=self.source)


def _in_broken_config(path: ConfigPath, indices: list[int]) -> ConfigPath:
    """Return the path in the broken config for one in the config that was salvaged from it."""
    if path[0] == "benchmarks" and len(path) > 1:
        return ("benchmarks", indices[int(path[1])], *path[2:])
    return path


def _is_around(path: ConfigPath, other: ConfigPath) -> bool:
    """Whether one of two paths is a prefix of the other."""
    return path[: len(other)] == other[: len(path)]


def load_config(
    path: str | Path,
    overrides: Iterable[str] = (),
    output_dir: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> LoadedConfig:
    """Load a config file.

    Args:
        path: The file.
        overrides: Values to change, as given with ``-O``.
        output_dir: Replaces ``output.dir``, as ``-o`` does.
        environment: The environment variables; None for those of this process.
        folder: Where files that the config names are searched first; None for the folder of the config. A snapshot
            needs the folder of its original config.

    Raises:
        ConfigError: With every problem found: path, line, message and fix.
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
    """Load a config from plain data, in the same way as one from a file."""
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
    """Apply overrides, references, user settings and playbooks to a composed config, and validate it."""
    resolved_document = resolve_self_references(apply_overrides(composed, overrides))
    setting_warnings: list[str] = []
    settings = user_settings.load_settings(setting_warnings.append)
    own_values = prune_nulls(drop_variables(resolved_document.value))
    values = user_settings.under_config(own_values, settings)
    output = values.get("output", {})
    if output_dir is not None and isinstance(output, dict):
        values["output"] = {**output, "dir": str(output_dir)}
    folder = source.parent if source else Path()
    document = expand_playbooks(Document(values, resolved_document.marks), folder)
    if environment is None:
        environment = os.environ
    config, config_warnings = _validate(document, environment)
    return LoadedConfig(
        config, document, source, overrides=overrides, warnings=setting_warnings + config_warnings
    )


def parse_eval_config(data: dict[str, Any]) -> EvalConfig:
    """Validate a config given as plain data, after expanding playbooks and environment references.

    Raises:
        ConfigError: With every problem found.
    """
    document = expand_playbooks(as_mapping(Document(data), None), Path())
    config, messages = _validate(document, os.environ)
    for text in messages:
        warnings.warn(text, UserWarning, stacklevel=2)
    return config


def _validate(document: Document, environment: Mapping[str, str]) -> tuple[EvalConfig, list[str]]:
    """Expand environment references and validate.

    Returns:
        The config, and the warnings of its validation.

    Raises:
        BrokenConfigError: With every problem found.
    """
    remember_environment(environment)
    data, problems = expand_environment(document, environment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            remember_config(data, document.value, environment)
            for path in holds_mask(data):
                problems.append(document.problem(path, _MASKED, _UNMASK))
            config = EvalConfig.model_validate(data)
        except ValidationError as error:
            all_problems = _all_problems(problems, error, document, data=data)
            raise BrokenConfigError(all_problems, document, data) from None
        except RecursionError:
            raise document.error((), "is nested too deeply", "flatten it") from None
    if problems:
        raise BrokenConfigError(problems, document, data)
    messages: list[str] = []
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            messages.append(str(warning.message))
    messages += config.cluster.cautions(config.services, config.benchmarks)
    return config, messages


def _all_problems(
    problems: list[Problem], error: ValidationError, document: Document, data: Any
) -> list[Problem]:
    """Combine unset variables, schema errors and wrong references; one problem per path."""
    schema_problems = explain(error, document, EvalConfig)
    reference_problems = [document.problem(*finding) for finding in cross_check(data)]
    by_path: dict[str, Problem] = {}
    for problem in (*problems, *schema_problems, *reference_problems):
        by_path.setdefault(problem.path, problem)
    return _in_order(by_path.values())


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


def salvage(data: Any, problems: Iterable[Problem]) -> tuple[EvalConfig, list[int]] | None:
    """Make a valid config from the correct parts of a broken one.

    The wrong values are removed first; if that is not enough, the parts around them are removed or replaced.

    Args:
        data: The broken config.
        problems: What is wrong with it.

    Returns:
        The valid config and, for each of its benchmarks, the index in the broken one. None if too little is left.
    """
    data = copy.deepcopy(data)
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        return None
    _remove_values(data, [path_of(problem.path) for problem in problems])
    indices = list(range(len(data["benchmarks"])))
    for _ in range(_ROUNDS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return EvalConfig.model_validate(data), indices
        except ValidationError as error:
            schema_problems = explain(error, Document(data), EvalConfig)
        wrong_paths = [path_of(problem.path) for problem in schema_problems]
        wrong_paths += [reference.path for reference in cross_check(data)]
        dropped = _replace_around(data, wrong_paths)
        benchmarks = data["benchmarks"]
        remaining = [position for position in range(len(indices)) if position not in dropped]
        data["benchmarks"] = [benchmarks[position] for position in remaining]
        indices = [indices[position] for position in remaining]
    return None


def _remove_values(data: dict[str, Any], paths: Iterable[ConfigPath]) -> None:
    """Remove the values of mappings at these paths, except the sections that every config needs."""
    for path in paths:
        if len(path) == 1 and path[0] in _NEEDED:
            continue
        owner = value_at(data, path[:-1])
        if isinstance(owner, dict):
            owner.pop(path[-1], None)


def _replace_around(data: dict[str, Any], wrong_paths: Iterable[ConfigPath]) -> set[int | str]:
    """Remove or replace the parts around wrong values.

    Returns:
        The positions of the benchmarks that must be dropped as a whole.
    """
    dropped: set[int | str] = set()
    for path in wrong_paths:
        if not _replaced(data, path) and len(path) > 1:
            dropped.add(path[1])
    return dropped


def path_of(shown: str) -> ConfigPath:
    """Parse a path written by ``show_path``."""
    keys: list[str | int] = []
    for match in _KEY.finditer(shown):
        quoted_key, index, plain_key = match.groups()
        if index:
            keys.append(int(index))
        else:
            keys.append(plain_key if quoted_key is None else quoted_key)
    return tuple(keys)


def _replaced(data: dict[str, Any], path: ConfigPath) -> bool:
    """Remove or replace the part of the config around a wrong value.

    Returns:
        False if the value is in a benchmark that must be dropped as a whole.
    """
    services = as_dict(data.get("services"))
    match path:
        case ("services", str(name), *_) if services:
            services[name] = dict(_SERVICE)
        case ("services", *_):
            data["services"] = {"model": dict(_SERVICE)}
        case ("benchmarks", int(place), "solver", *_) if services:
            benchmark = data["benchmarks"][place]
            solver = {"type": "simple", "service": next(iter(services))}
            if not isinstance(benchmark, dict) or benchmark.get("solver") == solver:
                return False
            benchmark["solver"] = solver
        case (str(key), *_) if key not in _NEEDED:
            data.pop(key, None)
        case _:
            return False
    return True
