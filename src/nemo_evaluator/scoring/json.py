"""JSON in answers: finding it and checking it against a schema."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import SchemaError
from jsonschema.validators import validator_for

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_FENCE: Final = lazy_pattern(
    r"```[ \t]*(?:json[c5]?)?[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE
)
_OPENING: Final = lazy_pattern(r"[{\[]")
_ATTEMPTS: Final = 500
_NOTHING: Final = "no JSON found"
_DECODER: Final = json.JSONDecoder()


def extract_json(text: str) -> Any:
    """Return the JSON value that a response gives; None if it has none.

    It is the whole text, else the last fenced block that is JSON, else the last object or list inside the text. The
    last one counts even if an earlier one is wider, because a response corrects itself in what follows.
    """
    values = _values(text)
    return values[-1] if values else None


def _values(text: str) -> list[Any]:
    """Return the JSON values of a response; of several the last one counts."""
    text = strip_reasoning(text).strip()
    for candidate in (text, *reversed(_FENCE.findall(text))):
        try:
            return [json.loads(candidate.strip())]
        except (ValueError, RecursionError):
            continue
    return list(_embedded(text))


def _embedded(text: str) -> Iterator[Any]:
    """Yield the objects and lists inside a text, one after the other."""
    position = 0
    # Bounded: a text of nothing but brackets would else be read anew from every one of them.
    for _ in range(_ATTEMPTS):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        try:
            value, position = _DECODER.raw_decode(text, opening.start())
        except ValueError:
            position = opening.start() + 1
        except RecursionError:
            return
        else:
            yield value


def validate_json_schema(response: str, schema: Mapping[str, Any]) -> JsonDict:
    """Check the JSON of a response against a schema.

    Returns:
        ``valid``, ``extracted`` (the value, or None), ``errors`` and ``score`` (1 or 0).

    Raises:
        ScorerError: The schema is not valid.
    """
    validator = validator_for(schema)
    try:
        validator.check_schema(dict(schema))
    except SchemaError as error:
        raise ScorerError(f"the JSON schema is not valid: {error.message}") from error
    values = _values(response)
    if not values:
        return {"valid": False, "extracted": None, "errors": [_NOTHING], "score": 0.0}
    errors = [
        f"{error.json_path}: {error.message}" for error in validator(schema).iter_errors(values[-1])
    ]
    return {
        "valid": not errors,
        "extracted": values[-1],
        "errors": errors,
        "score": 0.0 if errors else 1.0,
    }


@versioned("1")
def json_schema(sample: ScorerInput, schema: Mapping[str, Any] | None = None) -> Score:
    """Check whether the JSON of a response conforms to a schema.

    Args:
        sample: The answer.
        schema: The schema; by default ``schema`` in the config or the metadata, or the target.

    Returns:
        The score, with the validation errors.

    Raises:
        ScorerError: There is no schema, or it is not a valid one.
    """
    expected_schema = (
        schema or sample.config.get("schema") or sample.metadata.get("schema") or sample.target
    )
    if isinstance(expected_schema, str):
        try:
            expected_schema = json.loads(expected_schema)
        except ValueError as error:
            raise ScorerError(f"the JSON schema is not JSON: {error}") from error
    if not isinstance(expected_schema, Mapping):
        raise ScorerError(
            "json_schema needs a schema",
            hint="put it into the config, the row or the target as `schema`",
        )
    validation = validate_json_schema(sample.response, expected_schema)
    extracted: str | None = None
    if validation["errors"] != [_NOTHING]:
        extracted = json.dumps(validation["extracted"], ensure_ascii=False)
    return found(extracted, validation["valid"], errors=validation["errors"])
