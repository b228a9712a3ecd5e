"""The user's own defaults, written by ``nel config set`` and read by every run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from nemo_evaluator.config._document import Document, deep_merge
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config._yaml import read_document
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.registry import did_you_mean

if TYPE_CHECKING:
    from nemo_evaluator.config.user_settings_schema import UserSettings


def _schema() -> "type[UserSettings]":
    """Return the schema of the settings, which loads only if the user has some: its classes cost 2 % of a start."""
    from nemo_evaluator.config.user_settings_schema import UserSettings  # noqa: PLC0415

    return UserSettings


def config_home() -> Path:
    """Return the folder of the user's configuration files."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "nemo-evaluator"


def settings_path() -> Path:
    """Return the file of the user's defaults."""
    return config_home() / "config.yaml"


def setting_names() -> list[str]:
    """Return the dotted names of all settings."""
    names: list[str] = []
    for group, info in _schema().model_fields.items():
        for name in getattr(info.annotation, "model_fields", {}):
            names.append(f"{group}.{name}")
    return names


def load_settings(say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Read the user's settings as plain data; a missing file means no settings.

    Args:
        say: Receives a message for each key that is not a setting of nel: other programs may use the same file.

    Raises:
        ConfigError: If a value is wrong.
    """
    path = settings_path()
    if not path.is_file():
        return {}
    document = read_document(path)
    if document.value is None:
        return {}
    if not isinstance(document.value, dict):
        return check_settings(document)
    own_settings, foreign_settings = _apart(document.value)
    for name in _foreign_names(foreign_settings):
        message = f"{path}: {name} is not a setting of nel"
        hint = did_you_mean(name, setting_names(), "", form="{}")
        if hint:
            message += f"; {hint}"
        say(message)
    return check_settings(Document(own_settings, document.marks))


def _foreign_names(foreign_settings: dict[str, Any]) -> list[str]:
    """Return the names of settings that are not those of nel: ``group.name``, or the name of a whole group."""
    names: list[str] = []
    for group, values in foreign_settings.items():
        if group in _schema().model_fields:
            names += [f"{group}.{name}" for name in values]
        else:
            names.append(str(group))
    return names


def _apart(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split values into settings of nel and the rest."""
    own_settings: dict[str, Any] = {}
    foreign_settings: dict[str, Any] = {}
    own_names = setting_names()
    for group, settings in values.items():
        if group not in _schema().model_fields:
            foreign_settings[group] = settings
        elif not isinstance(settings, dict):
            own_settings[group] = settings
        else:
            for name, value in settings.items():
                is_ours = f"{group}.{name}" in own_names
                target = own_settings if is_ours else foreign_settings
                target.setdefault(group, {})[name] = value
    return own_settings, foreign_settings


def check_settings(document: Document) -> dict[str, Any]:
    """Validate the values of a settings document.

    Raises:
        ConfigError: If a value is wrong.
    """
    try:
        settings = _schema().model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(
            explain(error, document, _schema()), source=str(settings_path())
        ) from None
    return settings.model_dump(exclude_none=True, exclude_defaults=True)


def save_settings(values: dict[str, Any]) -> None:
    """Write the settings; keys of other programs in the file are preserved."""
    path = settings_path()
    merged = values
    if path.is_file():
        present_values = read_document(path).value
        if isinstance(present_values, dict):
            _, foreign_settings = _apart(present_values)
            merged = deep_merge(values, foreign_settings)
    write_atomic(path, yaml.safe_dump(merged, sort_keys=False, allow_unicode=True))


def under_config(raw: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the raw config, with the user's defaults for the settings that it leaves out."""
    merged = dict(raw)
    for group in ("output", "datasets"):
        group_defaults = dict(settings.get(group, {}))
        if group == "datasets" and os.environ.get("NEL_DATA_MIRROR"):
            group_defaults.pop("mirror", None)
        own_values = merged.get(group)
        if group_defaults and (own_values is None or isinstance(own_values, dict)):
            merged[group] = {**group_defaults, **(own_values or {})}
    defaults = settings.get("defaults")
    if defaults and isinstance(merged.get("benchmarks"), list):
        entries: list[Any] = []
        for entry in merged["benchmarks"]:
            if isinstance(entry, dict):
                entries.append({**defaults, **entry})
            else:
                entries.append(entry)
        merged["benchmarks"] = entries
    return merged
