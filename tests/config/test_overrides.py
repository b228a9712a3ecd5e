"""-O key=value: values, paths, and what is said when they are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.config import load_config
from nemo_evaluator.config._document import Document
from nemo_evaluator.config.overrides import apply_overrides
from nemo_evaluator.core.errors import ConfigError

TEXT = """
_size: 3
services:
  m: {type: api, url: "http://x/v1", protocol: chat_completions, model: name}
  other.model: {type: api, url: "http://x/v1", protocol: chat_completions}
benchmarks:
  - {name: a, solver: {type: simple, service: m}, max_problems: "${._size}"}
  - {name: b, solver: {type: simple, service: m}}
"""


def after(*overrides: str, value: Any = None) -> Any:
    return apply_overrides(Document(value if value is not None else {}), overrides).value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None), ("Null", None), ("NULL", None), ("~", None), (" null", None), ("none", "none"), ("", ""),
        ("true", True), ("False", False), ("TRUE", True), ("yes", "yes"),
        ("5", 5), (" 5", 5), ("-5", -5), ("1_000", 1000), ("0123", 123), ("1e5", 100000.0), ("0.5", 0.5), (".5", 0.5),
        ("nan", "nan"), ("inf", "inf"), ("-Infinity", "-Infinity"), ("1e999", "1e999"),
        ("[1, 2]", [1, 2]), ("{a: 1, b: [x]}", {"a": 1, "b": ["x"]}), ('"5"', "5"), ("'a b'", "a b"), ("[]", []),
        ("a=b", "a=b"), ("http://x/v1", "http://x/v1"), ("${KEY}", "${KEY}"), ("plain text ", "plain text "),
        ("1.2.3", "1.2.3"), ("0x10", "0x10"),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    found = after(f"a.b={text}")["a"]["b"]
    assert found == value
    assert type(found) is type(value)


def test_paths() -> None:
    assert after("a.b.c=1") == {"a": {"b": {"c": 1}}}
    assert after(r"a\.b.c=1") == {"a.b": {"c": 1}}
    assert after("l.1.x=1", value={"l": [{}, {"x": 0}]}) == {"l": [{}, {"x": 1}]}
    assert after("l[0].x=1", "l.-1=2", value={"l": [{}, 0]}) == {"l": [{"x": 1}, 2]}
    assert after("a=1", "a=2") == {"a": 2}
    assert after("a.b=1", value={"a": None}) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("benchmarks", "has no =", "path.to.key=value"),
        ("=1", "no key", "path.to.key=value"),
        (".=1", "no key", "path.to.key=value"),
        ("benchmarks.a.repeats=1", "is a list", "'a' is benchmarks[0]"),
        ("benchmarks.x.repeats=1", "is a list", "benchmarks.0"),
        ("benchmarks.2.repeats=1", "has 2 entries", "benchmarks[1]"),
        ("benchmarks.-3=1", "has 2 entries", "benchmarks[1]"),
        ("services.m.model.x=1", "is a plain value", "set services.m.model itself"),
        ("a=[1", "cannot be parsed", "quote it"),
    ],
)
def test_wrong_ones_are_explained(write, override: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(a=TEXT), [override, "also wrong"])
    first, second = caught.value.problems
    assert message in first.message
    assert hint in (first.hint or "")
    assert second.message == "has no ="


def test_overrides_reach_the_config(write) -> None:
    loaded = load_config(
        write(a=TEXT),
        ["benchmarks.1.repeats=4", r"services.other\.model.model=x", "_size=7", "benchmarks.0.shuffle_seed=null",
         "benchmarks.1.scoring.metrics=[{type: scorer, name: exact_match}]", "services.m.model=null"],
    )  # fmt: skip
    first, second = loaded.config.benchmarks
    assert second.repeats == 4
    assert second.scoring.metrics[0].name == "exact_match"
    assert first.max_problems == 7
    assert first.shuffle_seed is None
    assert loaded.config.model_id("other.model") == "x"
    assert loaded.config.model_id("m") == "m"
    assert loaded.raw["benchmarks"][1]["repeats"] == 4


def test_an_override_is_not_repeated_in_its_error() -> None:
    with pytest.raises(ConfigError) as caught:
        after("api_key.x=[sk-secret", value={"api_key": "s"})
    assert "sk-secret" not in str(caught.value.problems)
