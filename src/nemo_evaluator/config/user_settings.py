"""The user's own defaults, kept by ``nel config set`` and read by every run."""

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
    """The folder of the user's files."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "nemo-evaluator"


def settings_path() -> Path:
    """The file of the user's defaults."""
    return config_home() / "config.yaml"


def setting_names() -> list[str]:
    """All keys that can be kept, dotted."""
    results: list[str] = []
    for group, info in UserSettings.model_fields.items():
        for name in getattr(info.annotation, "model_fields", {}):
            results.append(f"{group}.{name}")
    return results


def load_settings(say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """The kept values as plain data; an absent file is empty, a wrong value is an error with its fix.

    Other programs keep theirs in the same file: keys that are not ours are named to ``say`` and left alone.
    """
    path = settings_path()
    if not path.is_file():
        return {}
    document = read_document(path)
    if not isinstance(document.value, dict):
        if document.value is not None:
            return check_settings(document)
        return {}
    ours, foreign = _apart(document.value)
    for group, kept in foreign.items():
        for name in (
            [f"{group}.{key}" for key in kept]
            if group in UserSettings.model_fields
            else [str(group)]
        ):
            hint = did_you_mean(name, setting_names(), "", form="{}")
            say("; ".join(filter(None, (f"{path}: {name} is not a setting of nel", hint))))
    return check_settings(Document(ours, document.marks))


def _apart(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that are ours, and the rest."""
    ours: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    for group, kept in values.items():
        known = UserSettings.model_fields.get(group)
        if known is None or not isinstance(kept, dict):
            (foreign if known is None else ours)[group] = kept
            continue
        for name, value in kept.items():
            if f"{group}.{name}" in setting_names():
                side = ours
            else:
                side = foreign
            side.setdefault(group, {})[name] = value
    return ours, foreign


def check_settings(document: Document) -> dict[str, Any]:
    """The values of a settings document, validated."""
    try:
        settings = UserSettings.model_validate(document.value)
    except ValidationError as error:
        raise ConfigError(
            explain(error, document, UserSettings), source=str(settings_path())
        ) from None
    return settings.model_dump(exclude_none=True, exclude_defaults=True)


def save_settings(values: dict[str, Any]) -> None:
    """Keep these values, beside what others keep in the file."""
    path = settings_path()
    if path.is_file():
        held: Any | None = read_document(path).value
    else:
        held = None
    if isinstance(held, dict):
        foreign = _apart(held)[1]
    else:
        foreign = {}
    write_atomic(
        path, yaml.safe_dump(deep_merge(values, foreign), sort_keys=False, allow_unicode=True)
    )


def under_config(raw: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The raw config with the user's defaults wherever it says nothing itself."""
    merged = dict(raw)
    for group in ("output", "datasets"):
        kept = dict(settings.get(group, {}))
        if group == "datasets" and os.environ.get("NEL_DATA_MIRROR"):
            kept.pop("mirror", None)
        own = merged.get(group)
        if kept and (own is None or isinstance(own, dict)):
            merged[group] = {**kept, **(own or {})}
    defaults = settings.get("defaults")
    if defaults and isinstance(merged.get("benchmarks"), list):
        entries = merged["benchmarks"]
        merged["benchmarks"] = [
            {**defaults, **one} if isinstance(one, dict) else one for one in entries
        ]
    return merged
