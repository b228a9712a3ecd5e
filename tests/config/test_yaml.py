"""YAML as we read it: values, lines, anchors, and bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nemo_evaluator.config._yaml import parse_document
from nemo_evaluator.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), ("-5", -5), ("1_000", 1000), ("0x1f", 31), ("0b11", 3), ("0o17", 15), ("017", 15), ("08", "08"),
        ("1.5", 1.5), ("1e5", 100000.0), ("1E-3", 0.001), (".5", 0.5), ("1.", 1.0), ("1_0.5", 10.5),
        ("-.inf", -math.inf),
        ("true", True), ("Yes", True), ("off", False), ("null", None), ("~", None), ("", None),
        ("12:00:00", "12:00:00"), ("2024-01-01", "2024-01-01"), ("1.2.3", "1.2.3"), ("=", "="),
        ("'5'", "5"), ('"on"', "on"), ("!!str 5", "5"), ("|\n  a\n  b\n", "a\nb\n"),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    found = parse_document(f"x: {text}\n", "f").value["x"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_always_text() -> None:
    assert parse_document("{1: a, on: b, null: c, 1.5: d}", "f").value == {
        "1": "a",
        "on": "b",
        "null": "c",
        "1.5": "d",
    }


def test_anchors_and_merge_keys() -> None:
    document = parse_document(
        "a: &a {x: 1, y: [2]}\nb:\n  <<: *a\n  x: 3\nc: *a\nd: {<<: [*a, {x: 9, z: 4}]}\n", "f"
    )
    assert document.value["b"] == {"x": 3, "y": [2]}
    assert document.value["c"] == {"x": 1, "y": [2]}
    assert document.value["d"] == {"x": 1, "y": [2], "z": 4}
    document.value["c"]["y"].append(5)
    assert document.value["a"]["y"] == [2]


def test_lines() -> None:
    document = parse_document("a:\n  b: 1\n  c:\n    - x\n    -\n      y: 2\n", "f")
    lines = {path: mark.line for path, mark in document.marks.items()}
    assert lines[("a", "b")] == 2
    assert lines[("a", "c", 0)] == 4
    assert lines[("a", "c", 1, "y")] == 6
    mark = document.mark(("a", "b", "nothing", "here"))
    assert mark is not None
    assert mark.line == 2


@pytest.mark.parametrize("text", ["[" * 66 + "]" * 66, "[" * 50_000, "{a: " * 70 + "1" + "}" * 70])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_document(text, "f")


def test_depth_that_is_fine() -> None:
    assert parse_document("[" * 60 + "]" * 60, "f").value is not None


def test_size_is_bounded() -> None:
    with pytest.raises(ConfigError, match="too large"):
        parse_document("a: &a [" + "x, " * 90_000 + "]\nb: [*a, *a, *a]\n", "f")
