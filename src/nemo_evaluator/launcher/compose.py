"""Compose a config of the launcher with Hydra: packaged groups, ``-o`` overrides, variables, missing values."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
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
_UNKNOWN_OPTION: Final = re.compile(r"Could not find '(execution|deployment)/([\w./-]+)'")
# The environment variables that the last composed config read, with their values.
variables_read: ContextVar[dict[str, str]] = ContextVar("variables_read")
# Marks a secret until the config is resolved: OmegaConf would take `${NAME}` for one of its own keys.
_VARIABLE: Final = re.compile("\x01(\\w+)\x02")


def compose_launcher(file: Path, overrides: Sequence[str] = (), *, raw: bool = False) -> JsonDict:
    """Compose a config of the launcher with Hydra.

    Args:
        file: The launcher's config.
        overrides: Overrides in Hydra's form; ``evaluation.tasks.NAME`` may name a task.
        raw: Read the file as it is, without Hydra.

    Raises:
        ConfigError: If values are missing, or Hydra refuses the config.
        UsageError: If there is no such file, or an override does not fit.
    """
    if not file.is_file():
        raise UsageError(
            f"there is no file {file}", hint="give the launcher's YAML: nel run --config FILE"
        )
    if raw and overrides:
        raise UsageError(
            "--config-mode raw takes the file as it is; -o cannot change it",
            hint="leave one of them out",
        )
    task_overrides: list[str] = []
    hydra_overrides = [f"hydra.searchpath=['file://{GROUPS}']"]
    for override in overrides:
        if _TASK_OVERRIDE.fullmatch(override):
            task_overrides.append(override)
        else:
            hydra_overrides.append(override)
    with _variables():
        try:
            if raw:
                config = OmegaConf.create(_raw(file))
            else:
                config_dir = str(file.resolve().parent)
                with initialize_config_dir(version_base="1.3", config_dir=config_dir):
                    config = compose(file.stem, overrides=hydra_overrides)
            for override in task_overrides:
                _override_task(config, override)
            _refuse_missing(as_dict(OmegaConf.to_container(config, resolve=False)), file)
            resolved = OmegaConf.to_container(config, resolve=True)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            raise ConfigError([_problem(error)], source=str(file)) from error
    return as_dict(_with_references(resolved))


def _raw(file: Path) -> JsonDict:
    return as_dict(yaml.safe_load(file.read_text(encoding="utf-8")))


def group_defaults(group: str, option: str) -> JsonDict:
    """Return the values of a packaged group; empty if there is no such group.

    Args:
        group: The group, such as ``execution``.
        option: The option of the group, such as ``slurm/default``.
    """
    path = GROUPS / group / f"{option}.yaml"
    if path.is_file():
        return _raw(path)
    return {}


@contextmanager
def _variables() -> Iterator[None]:
    """Resolve variables while a config is composed; secrets from the environment stay references."""

    def variable(name: str, *default: Any) -> Any:
        """Resolve ``oc.env``: secrets stay references, other variables are read and recorded."""
        if looks_secret(name):
            return f"\x01{name}\x02"
        if name not in os.environ and not default:
            raise KeyError(f"the environment variable {name} is not set")
        value = os.environ.get(name, *default)
        if name in os.environ:
            variables_read.get()[name] = os.environ[name]
        return value

    def select_not_null(key: str, default: Any = None, *, _root_: DictConfig) -> Any:
        """Return the value of a key of the config, or the default if it is null."""
        selected = OmegaConf.select(_root_, key)
        return default if selected is None else selected

    variables_read.set({})
    OmegaConf.register_new_resolver("oc.env", variable, replace=True)
    OmegaConf.register_new_resolver("select_not_null", select_not_null, replace=True)
    try:
        yield
    finally:
        OmegaConf.clear_resolvers()


def _with_references(value: Any) -> Any:
    """Turn the marks of secrets back into ``${NAME}`` references."""
    if isinstance(value, dict):
        return {str(key): _with_references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_references(item) for item in value]
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", value)
    return value


def _override_task(config: DictConfig, override: str) -> None:
    """Apply ``evaluation.tasks.NAME.path=value``; Hydra itself knows tasks by number only."""
    override_match = _TASK_OVERRIDE.fullmatch(override)
    assert override_match is not None
    plain_config = as_dict(OmegaConf.to_container(config, resolve=False))
    tasks = as_list(as_dict(plain_config.get("evaluation")).get("tasks"))
    names = [str(as_dict(task).get("name", "")) for task in tasks]
    number, setting_path = _task_of(override_match["path"], names, override)
    path = f"evaluation.tasks.{number}.{setting_path}"
    OmegaConf.set_struct(config, False)
    if override.startswith("~"):
        parent_path, _, key = path.rpartition(".")
        parent = OmegaConf.select(config, parent_path)
        if not isinstance(parent, DictConfig) or key not in parent:
            hint = "`~` removes a value that the config has"
            raise UsageError(f"-o {override}: the task has no {setting_path}", hint=hint)
        parent.pop(key)
    else:
        OmegaConf.update(
            config, path, yaml.safe_load(override_match["value"] or '""'), force_add=True
        )


def _task_of(path: str, names: Sequence[str], override: str) -> tuple[int, str]:
    """Split the path of a task override into the number of the task and the rest of the path.

    Args:
        path: The path after ``evaluation.tasks.``; it begins with the number or the name of the task.
        names: The names of all tasks.
        override: The override, for errors.
    """
    segments = path.split(".")
    first_segment = segments[0]
    if first_segment.isdecimal() and int(first_segment) < len(names):
        return int(first_segment), ".".join(segments[1:])
    # The name of a task may be given with its harness, and then contains a dot.
    for name_length in (1, 2):
        name = ".".join(segments[:name_length])
        setting_path = ".".join(segments[name_length:])
        matching_numbers: list[int] = []
        for number, task_name in enumerate(names):
            if name in (task_name, task_name.rpartition(".")[2]):
                matching_numbers.append(number)
        if len(matching_numbers) == 1 and setting_path:
            return matching_numbers[0], setting_path
        if len(matching_numbers) > 1:
            numbers = " or ".join(f"evaluation.tasks.{number}" for number in matching_numbers)
            raise UsageError(
                f"-o {override}: {len(matching_numbers)} tasks are called {name}",
                hint=f"write {numbers}",
            )
    raise UsageError(
        f"-o {override.partition('=')[0]}: no such task", hint=did_you_mean(first_segment, names)
    )


def _refuse_missing(config: JsonDict, file: Path) -> None:
    """Raise ConfigError if values are still ``???``; hints show each value's comment and its override."""
    comments = _comments(file.read_text(encoding="utf-8"))
    has_model_handle = bool(as_dict(config.get("deployment")).get("hf_model_handle"))
    problems: list[Problem] = []
    for path in _missing(config, ""):
        if path == "deployment.checkpoint_path" and has_model_handle:
            continue
        key = path.rpartition(".")[2]
        if not key:
            continue
        hint = f"-o ++{path}=VALUE"
        if comments.get(path):
            hint = f"{comments[path]}; {hint}"
        problems.append(Problem(path, "is missing (???)", hint))
    if problems:
        raise ConfigError(problems, source=str(file))


def _comments(text: str) -> dict[str, str]:
    """Return the comment beside each ``???`` of a config, by its path."""
    lines = text.splitlines()
    comments: dict[str, str] = {}
    for path, node in _scalars(yaml.compose(text), ""):
        if node.value == MISSING:
            _, _, comment = lines[node.end_mark.line][node.end_mark.column :].partition("#")
            comments[path] = comment.strip()
    return comments


def _scalars(node: yaml.Node | None, path: str) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yield every plain value of a YAML document, with its dotted path."""
    children: list[tuple[Any, yaml.Node]] = []
    if isinstance(node, yaml.ScalarNode):
        yield path, node
    elif isinstance(node, yaml.MappingNode):
        children = [(key.value, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = list(enumerate(node.value))
    for key, child in children:
        yield from _scalars(child, f"{path}.{key}" if path else str(key))


def _missing(value: Any, path: str) -> Iterator[str]:
    """Yield the path of every value that is still ``???``."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        child_path = f"{path}.{key}" if path else str(key)
        if item == MISSING:
            yield child_path
        yield from _missing(item, child_path)


def _unknown_option(group: str, option: str) -> Problem:
    """Describe an option of ``defaults`` that nel does not have."""
    options: list[str] = []
    for path in (GROUPS / group).rglob("*.yaml"):
        options.append(path.relative_to(GROUPS / group).with_suffix("").as_posix())
    hint = f"nel supports {', '.join(sorted(options))}"
    return Problem(f"defaults.{group}", f"{option} is not supported", hint)


def _problem(error: Exception) -> Problem:
    """Describe an error of Hydra or OmegaConf: the field, the message, and the rest as a hint."""
    unknown_option = _UNKNOWN_OPTION.search(str(error))
    if unknown_option is not None:
        return _unknown_option(unknown_option[1], unknown_option[2])
    fields: list[str] = []
    messages: list[str] = []
    for line in str(error).splitlines():
        text = line.strip()
        if not text or "object_type" in text:
            continue
        if text.startswith("full_key: "):
            fields.append(text.removeprefix("full_key: "))
        elif not text.startswith("full_key"):
            messages.append(text)
    field = fields[0] if fields else "config"
    if not messages:
        return Problem(field, type(error).__name__)
    return Problem(field, messages[0], " ".join(messages[1:]) or None)
