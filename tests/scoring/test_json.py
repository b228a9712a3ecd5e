from __future__ import annotations

import pytest

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring import ScorerInput, extract_json, json_schema, validate_json_schema

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 1}},
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure:\n```json\n{"a": 1}\n```\nDone.', {"a": 1}),
        ('```\n{"a": 0}\n```\nBetter:\n```json\n{"a": 1}\n```', {"a": 1}),
        ('I say {"a": {"b": [1, 2]}} and no more', {"a": {"b": [1, 2]}}),
        ('{"a": 0} or rather {"a": 1}', {"a": 1}),
        ('<think>{"a": 0}</think>[1, 2]', [1, 2]),
        # The last value counts, even if an earlier one is wider; values inside another one do not count.
        ('{"a": 0, "b": [1, 2, 3]} or shorter {"a": 1}', {"a": 1}),
        ('[{"a": 0}, {"a": 1}] is all', [{"a": 0}, {"a": 1}]),
        ("no json {here", None),
    ],
)
def test_extract_json(text: str, value: object) -> None:
    assert extract_json(text) == value


def test_schema_is_the_whole_of_json_schema() -> None:
    assert validate_json_schema('{"a": 1}', SCHEMA)["score"] == 1.0
    for bad in ('{"a": true}', '{"a": 0}', "{}", "[]", "none"):
        assert validate_json_schema(bad, SCHEMA)["valid"] is False
    assert "minimum" in validate_json_schema('{"a": 0}', SCHEMA)["errors"][0]


def test_json_schema_takes_its_schema_from_where_it_is() -> None:
    for sample in (
        ScorerInput('{"a": 1}', SCHEMA),
        ScorerInput('{"a": 1}', "", {"schema": SCHEMA}),
        ScorerInput('{"a": 1}', "", {}, {"schema": '{"type": "object"}'}),
    ):
        assert json_schema(sample)["correct"] is True
    assert json_schema(ScorerInput("nothing", SCHEMA))["unparsed"] is True
    with pytest.raises(ScorerError, match="needs a schema"):
        json_schema(ScorerInput("{}", 5))
    with pytest.raises(ScorerError, match="not valid"):
        json_schema(ScorerInput("{}", {"type": "nonsense"}))
