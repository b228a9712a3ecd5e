"""Checks the settings of kinds that are named elsewhere in a config: interceptors, exporters and schemes."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from nemo_evaluator.config._document import Path
from nemo_evaluator.config._error_path import error_path
from nemo_evaluator.core.kinds import Kinds
from nemo_evaluator.core.registry import did_you_mean


def check_settings(kinds: Kinds, name: str, settings: Mapping[str, Any], *place: str | int) -> None:
    """Check the settings that a config gives to a kind.

    Args:
        kinds: The group of kinds.
        name: The kind.
        settings: The settings in the config.
        place: Where they are, relative to the field or model that is being validated.

    Raises:
        ValidationError: With one error per wrong setting, located under ``place``.
    """
    schema = kinds.schema(name)
    data = dict(settings)
    try:
        schema.model_validate(data)
    except ValidationError as error:
        details: list[InitErrorDetails] = []
        for item in error.errors(include_url=False, include_input=False):
            path = error_path(item["type"], item["loc"], schema, data)
            problem = _setting_error(item, schema, name, path=path)
            details.append(InitErrorDetails(type=problem, loc=(*place, *path), input=None))
        raise ValidationError.from_exception_data(error.title, details, hide_input=True) from None


def _setting_error(
    item: ErrorDetails, schema: type[BaseModel], name: str, path: Path
) -> PydanticCustomError:
    """Convert a schema error to an error about the setting at ``path`` of the kind ``name``."""
    key = str(path[-1]) if path else ""
    known_settings = list(schema.model_fields)
    known_hint = f"it takes: {', '.join(known_settings) or 'nothing'}"
    context: dict[str, Any] = {"name": repr(name), "key": repr(key), "hint": known_hint}
    if item["type"] == "missing":
        return PydanticCustomError("setting_missing", "{name} needs the setting {key}", context)
    if item["type"] == "extra_forbidden":
        context["hint"] = did_you_mean(key, known_settings, known_hint)
        return PydanticCustomError("setting", "{name} has no setting {key}", context)
    context["text"] = item["msg"][:1].lower() + item["msg"][1:]
    return PydanticCustomError("setting", "setting {key} of {name}: {text}", context)
