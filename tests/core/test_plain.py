"""Serialisation is total: whatever is handed over, valid JSON comes out."""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import dataclass

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.hashing import digest, digest_parts


class Silent:
    def __str__(self):
        raise ValueError("no")


@dataclass
class Holder:
    value: object


CIRCLE: list = []
CIRCLE.append(CIRCLE)
DEEP = orjson.loads(b"[" * 1000 + b"]" * 1000)
ODD = [
    2**70,
    -(2**70),
    10**9000,
    "\ud800",
    DEEP,
    CIRCLE,
    Silent(),
    Holder("\udfff"),
    datetime.date.min,
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.integers(0, 8).map(lambda at: ODD[at]),
    st.complex_numbers(),
    st.sets(st.integers()),
)
KEYS = st.one_of(
    st.text(st.characters()), st.integers(), st.none(), st.tuples(st.integers()), st.booleans()
)
VALUES = st.recursive(
    LEAVES, lambda item: st.lists(item) | st.dictionaries(KEYS, item), max_leaves=8
)


@given(VALUES)
def test_every_value_becomes_json(value):
    for indent in (False, True):
        data = dumps({"kept": value}, indent=indent)
        assert set(orjson.loads(data)) == {"kept"}
        json.loads(data)
    assert len(digest(value)) == 32


def test_what_cannot_be_kept_says_so():
    kept = orjson.loads(
        dumps(
            {"a": "x\ud800y", "b": 2**70, "c": CIRCLE, "d": Silent(), "e": math.inf, "f": 10**9000}
        )
    )
    assert kept == {
        "a": "x\ufffdy",
        "b": str(2**70),
        "c": ["[circular]"],
        "d": "<Silent>",
        "e": None,
        "f": "[a whole number of 29898 bits]",
    }
    assert b"nested deeper than 200 levels" in dumps(DEEP)
    assert dumps(["\ud83d\ude00", "\ud800"]).decode() == '["😀","\ufffd"]'


def test_digests_of_broken_text():
    assert digest_parts("\ud800") != digest_parts("\ud801")
    assert digest({"a": "\ud800"}) == digest({"a": "\ud800"})
