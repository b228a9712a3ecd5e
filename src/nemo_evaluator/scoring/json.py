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
    """The last JSON value of a response: the whole text, a fenced block, else the widest object or list; or None."""
    values = _values(text)
    return values[-1] if values else None


def _values(text: str) -> list[Any]:
    """The JSON of a response; of several values the last one counts."""
    text = strip_reasoning(text).strip()
    for candidate in (text, *(block.strip() for block in reversed(_FENCE.findall(text)))):
        try:
            return [json.loads(candidate)]
        except (ValueError, RecursionError):
            continue
    return list(_embedded(text))


def _embedded(text: str) -> Iterator[Any]:
    position = 0
    # Bounded: a text of nothing but brackets would else be read anew from every one of them.
    for _ in range(_ATTEMPTS):
        match = _OPENING.search(text, position)
        if match is None:
            return
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except ValueError:
            position = match.start() + 1
        except RecursionError:
            return
        else:
            yield value


def validate_json_schema(response: str, schema: Mapping[str, Any]) -> JsonDict:
    """``{valid, extracted, errors, score}`` of the JSON in a response; raises ScorerError when the schema is wrong."""
    kind = validator_for(schema)
    try:
        kind.check_schema(dict(schema))
    except SchemaError as error:
        raise ScorerError(f"the JSON schema is not valid: {error.message}") from error
    values = _values(response)
    if not values:
        return {"valid": False, "extracted": None, "errors": [_NOTHING], "score": 0.0}
    errors = [
        f"{error.json_path}: {error.message}" for error in kind(schema).iter_errors(values[-1])
    ]
    return {
        "valid": not errors,
        "extracted": values[-1],
        "errors": errors,
        "score": 0.0 if errors else 1.0,
    }


@versioned("1")
def json_schema(sample: ScorerInput, schema: Mapping[str, Any] | None = None) -> Score:
    """Does the JSON of the response fit the schema (given, or in config, metadata or target)?"""
    wanted = schema or sample.config.get("schema") or sample.metadata.get("schema") or sample.target
    if isinstance(wanted, str):
        try:
            wanted = json.loads(wanted)
        except ValueError as error:
            raise ScorerError(f"the JSON schema is not JSON: {error}") from error
    if not isinstance(wanted, Mapping):
        raise ScorerError(
            "json_schema needs a schema",
            hint="put it into the config, the row or the target as `schema`",
        )
    checked = validate_json_schema(sample.response, wanted)
    nothing = checked["errors"] == [_NOTHING]
    if nothing:
        extracted: str | None = None
    else:
        extracted = json.dumps(checked["extracted"], ensure_ascii=False)
    return found(extracted, checked["valid"], errors=checked["errors"])
