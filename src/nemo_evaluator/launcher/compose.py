"""A config of the launcher, composed by Hydra: packaged groups, ``-o`` overrides, variables, missing values."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nemo_evaluator.core.errors import ConfigError, Problem, UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.secrets import looks_secret
from nemo_evaluator.core.types import JsonDict

GROUPS: Final = Path(__file__).parent / "data" / "groups"
MISSING: Final = "???"
_TASK_OVERRIDE: Final = re.compile(
    r"(\+\+|\+|~)?evaluation\.tasks\.(?P<path>[^=]+)(?:=(?P<value>.*))?", re.DOTALL
)
# The variables whose values the config that was composed last took over.
variables_read: ContextVar[dict[str, str]] = ContextVar("variables_read")
# What stands in a value until the whole is resolved: OmegaConf would take `${NAME}` for a key of its own.
_VARIABLE: Final = re.compile("\x01(\\w+)\x02")


def compose_launcher(file: Path, overrides: Sequence[str] = (), *, raw: bool = False) -> JsonDict:
    """The composed config. Raises ConfigError with every value that is missing, or what Hydra refuses."""
    if not file.is_file():
        raise UsageError(
            f"there is no file {file}", hint="give the launcher's YAML: nel run --config FILE"
        )
    if raw and overrides:
        raise UsageError(
            "--config-mode raw takes the file as it is; -o cannot change it",
            hint="leave one of them out",
        )
    of_tasks = [one for one in overrides if _TASK_OVERRIDE.fullmatch(one)]
    with _variables():
        try:
            if raw:
                config = OmegaConf.create(_raw(file))
            else:
                others = [one for one in overrides if one not in of_tasks]
                with initialize_config_dir(
                    version_base="1.3", config_dir=str(file.resolve().parent)
                ):
                    config = compose(
                        file.stem, overrides=[f"hydra.searchpath=['file://{GROUPS}']", *others]
                    )
            for override in of_tasks:
                _override_task(config, override)
            _refuse_missing(as_dict(OmegaConf.to_container(config, resolve=False)), file)
            resolved = OmegaConf.to_container(config, resolve=True)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise ConfigError([_problem(error)], source=str(file)) from error
    return as_dict(_with_references(resolved))


def _raw(file: Path) -> JsonDict:
    return as_dict(yaml.safe_load(file.read_text(encoding="utf-8")))


def group_defaults(group: str, option: str) -> JsonDict:
    """The values of a packaged group, such as ``execution`` and ``slurm/default``; empty when there is none."""
    path = GROUPS / group / f"{option}.yaml"
    if path.is_file():
        return _raw(path)
    return {}


@contextmanager
def _variables() -> Iterator[None]:
    """Secrets that the config takes from the environment stay references; other variables become their values."""

    def variable(name: str, *default: Any) -> Any:
        if looks_secret(name):
            return f"\x01{name}\x02"
        if name not in os.environ and not default:
            raise KeyError(f"the environment variable {name} is not set")
        value = os.environ.get(name, *default)
        if name in os.environ:
            variables_read.get()[name] = os.environ[name]
        return value

    def select_not_null(key: str, default: Any = None, *, _root_: DictConfig) -> Any:
        found = OmegaConf.select(_root_, key)
        return default if found is None else found

    variables_read.set({})
    OmegaConf.register_new_resolver("oc.env", variable, replace=True)
    OmegaConf.register_new_resolver("select_not_null", select_not_null, replace=True)
    try:
        yield
    finally:
        OmegaConf.clear_resolvers()


def _with_references(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_references(item) for item in value]
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", value)
    return value


def _override_task(config: DictConfig, override: str) -> None:
    """``evaluation.tasks.NAME.path=value``: Hydra knows only the number of a task, people know its name."""
    found = _TASK_OVERRIDE.fullmatch(override)
    assert found is not None
    plain = as_dict(OmegaConf.to_container(config, resolve=False))
    tasks = as_list(as_dict(plain.get("evaluation")).get("tasks"))
    names = [str(as_dict(task).get("name", "")) for task in tasks]
    number, rest = _task_of(found["path"], names, override)
    path = f"evaluation.tasks.{number}.{rest}"
    OmegaConf.set_struct(config, False)
    if override.startswith("~"):
        parent, _, key = path.rpartition(".")
        OmegaConf.select(config, parent).pop(key)
    else:
        OmegaConf.update(config, path, yaml.safe_load(found["value"] or '""'), force_add=True)


def _task_of(path: str, names: Sequence[str], override: str) -> tuple[int, str]:
    first, _, rest = path.partition(".")
    if first.isdecimal() and int(first) < len(names):
        return int(first), rest
    for parts in (1, 2):
        words = path.split(".")
        name = ".".join(words[:parts])
        rest = ".".join(words[parts:])
        fits: list[int] = []
        for number, one in enumerate(names):
            if one == name or one.rpartition(".")[2] == name:
                fits.append(number)
        if len(fits) == 1 and rest:
            return fits[0], rest
        if len(fits) > 1:
            numbers = " or ".join(f"evaluation.tasks.{number}" for number in fits)
            raise UsageError(
                f"-o {override}: {len(fits)} tasks are called {name}", hint=f"write {numbers}"
            )
    raise UsageError(
        f"-o {override.partition('=')[0]}: no such task", hint=did_you_mean(first, names)
    )


def _refuse_missing(config: JsonDict, file: Path) -> None:
    """All values that are still ``???``, each with the comment beside it and the override that sets it."""
    comments = dict(
        re.findall(
            r"^[\s-]*(\w+):\s*\?\?\?\s*#\s*(.+)$", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    problems: list[Problem] = []
    for path in _missing(config, ""):
        key = path.rpartition(".")[2]
        if key and not (
            path == "deployment.checkpoint_path"
            and as_dict(config.get("deployment")).get("hf_model_handle")
        ):
            problems.append(
                Problem(
                    path,
                    "is missing (???)",
                    f"{comments.get(key, '')}{'; ' if key in comments else ''}-o ++{path}=VALUE",
                )
            )
    if problems:
        raise ConfigError(problems, source=str(file))


def _missing(value: Any, path: str) -> Iterator[str]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        if path:
            below = f"{path}.{key}"
        else:
            below = str(key)
        if item == MISSING:
            yield below
        yield from _missing(item, below)


def _problem(error: Exception) -> Problem:
    lines: list[str] = []
    for line in str(error).splitlines():
        if line.strip() and "object_type" not in line:
            lines.append(line.strip())
    place = next(
        (line.removeprefix("full_key: ") for line in lines if line.startswith("full_key: ")),
        "config",
    )
    told = [line for line in lines if not line.startswith("full_key")]
    return Problem(place, told[0] if told else type(error).__name__, " ".join(told[1:]) or None)
