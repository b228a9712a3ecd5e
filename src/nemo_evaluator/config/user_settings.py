"""The user's own defaults, written by ``nel config set`` and read by every run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from nemo_evaluator.config._document import Document, deep_merge
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config._yaml import read_document
from nemo_evaluator.config.fields import Above0, LineName, Model, Positive
from nemo_evaluator.config.output import ReportFormat
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.registry import did_you_mean


class OutputSettings(Model):
    """Defaults of ``output``."""

    dir: LineName | None = Field(None, description="Folder of runs whose config names none.")
    report: list[ReportFormat] | None = Field(None, description="Report formats.")
    progress_interval: Above0 | None = Field(None, description="Seconds between progress lines.")


class DatasetSettings(Model):
    """Defaults of ``datasets``."""

    mirror: str | None = Field(None, description="Folder of a dataset mirror.")
    offline: bool | None = Field(None, description="Use no network.")


class BenchmarkSettings(Model):
    """Defaults of every benchmark."""

    max_concurrent: Positive | None = Field(None, description="Maximum concurrent steps.")
    timeout: Above0 | None = Field(None, description="Timeout of one step, in seconds.")


class UserSettings(Model):
    """Everything that can be kept."""

    output: OutputSettings = Field(
        default_factory=OutputSettings, description="Defaults of `output`."
    )
    datasets: DatasetSettings = Field(
        default_factory=DatasetSettings, description="Defaults of `datasets`."
    )
    defaults: BenchmarkSettings = Field(
        default_factory=BenchmarkSettings, description="Defaults of benchmarks."
    )


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
    for group, info in UserSettings.model_fields.items():
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
    if not isinstance(document.value, dict):
        if document.value is not None:
            return check_settings(document)
        return {}
    own_settings, foreign_settings = _apart(document.value)
    for group, values in foreign_settings.items():
        for name in (
            [f"{group}.{key}" for key in values]
            if group in UserSettings.model_fields
            else [str(group)]
        ):
            hint = did_you_mean(name, setting_names(), "", form="{}")
            say("; ".join(filter(None, (f"{path}: {name} is not a setting of nel", hint))))
    return check_settings(Document(own_settings, document.marks))


def _apart(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split values into settings of nel and the rest."""
    own_settings: dict[str, Any] = {}
    foreign_settings: dict[str, Any] = {}
    for group, settings in values.items():
        group_field = UserSettings.model_fields.get(group)
        if group_field is None or not isinstance(settings, dict):
            (foreign_settings if group_field is None else own_settings)[group] = settings
            continue
        for name, value in settings.items():
            if f"{group}.{name}" in setting_names():
                target = own_settings
            else:
                target = foreign_settings
            target.setdefault(group, {})[name] = value
    return own_settings, foreign_settings


def check_settings(document: Document) -> dict[str, Any]:
    """Validate the values of a settings document.

    Raises:
        ConfigError: If a value is wrong.
    """
    try:
        settings = UserSettings.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(
            explain(error, document, UserSettings), source=str(settings_path())
        ) from None
    return settings.model_dump(exclude_none=True, exclude_defaults=True)


def save_settings(values: dict[str, Any]) -> None:
    """Write the settings; keys of other programs in the file are preserved."""
    path = settings_path()
    if path.is_file():
        present_values: Any | None = read_document(path).value
    else:
        present_values = None
    if isinstance(present_values, dict):
        foreign_settings = _apart(present_values)[1]
    else:
        foreign_settings = {}
    write_atomic(
        path,
        yaml.safe_dump(deep_merge(values, foreign_settings), sort_keys=False, allow_unicode=True),
    )


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
        entries = merged["benchmarks"]
        merged["benchmarks"] = [
            {**defaults, **entry} if isinstance(entry, dict) else entry for entry in entries
        ]
    return merged
