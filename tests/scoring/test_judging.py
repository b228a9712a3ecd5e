"""What a judge in the sandbox understands: values, objects of the program, functions of the tests, and nonsense."""

from __future__ import annotations

import time
from collections import Counter, deque
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_sandbox import PlainSandbox

from nemo_evaluator.core.errors import ScorerError, TamperError
from nemo_evaluator.core.failures import POLICY, Cause, Redo, RowOutcome
from nemo_evaluator.scoring import ScorerInput, code_sandbox_async, extract_code
from nemo_evaluator.scoring.code import Measure, judge_program
from nemo_evaluator.scoring.judging import values

_KEYS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
)
_VALUES = st.recursive(
    _KEYS
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(_KEYS, inner)
        | st.sets(_KEYS)
        | st.frozensets(_KEYS)
    ),
    max_leaves=20,
)


def _refuse(value: object) -> values.Reference:
    raise AssertionError(value)


@given(_VALUES)
def test_plain_values_come_back_as_they_are(value: Any) -> None:
    again = values.decode(values.encode(value, _refuse), _refuse)
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value) or isinstance(value, (set, frozenset, dict, list, tuple))


@settings(max_examples=400)
@given(
    st.binary(max_size=60) | st.text("NTFilstdSZqrxbyco0123456789:;-", max_size=60).map(str.encode)
)
def test_bytes_that_are_no_value_are_refused_and_nothing_else_happens(data: bytes) -> None:
    try:
        values.decode(data, lambda reference: reference)
    except values.Malformed:
        return
    except MemoryError:  # pragma: no cover
        pytest.fail("a length was believed")


def test_odd_values() -> None:
    class Text(str):
        pass

    for given_value, expected in [
        (Text("x"), "x"),
        (Counter("aab"), Counter("aab")),
        (deque([1, 2]), deque([1, 2])),
        (range(1, 9, 2), range(1, 9, 2)),
        (bytearray(b"x"), bytearray(b"x")),
        (datetime(2020, 1, 2, 3, 4, 5, 6), datetime(2020, 1, 2, 3, 4, 5, 6)),
        ([date(2020, 1, 2), timedelta(1), Decimal("1.50"), Fraction(1, 3)],) * 2,
        (10**6000, 10**6000),
        ("\ud800", "\ud800"),
    ]:
        again = values.decode(values.encode(given_value, _refuse), _refuse)
        assert (again, type(again)) == (expected, type(expected))


NODE = """
class Node:
    def __init__(self, v): self.v, self.left = v, None
def depth(n): return 1 + (depth(n.left) if n.left else 0)
"""
PASSING = {
    "an exception class of its own": (
        "class Missing(KeyError): pass\nclass NotEnough(ValueError):\n    def __init__(self, n):\n"
        "        super().__init__(f'missing {n}')\n        self.n = n\ndef f(n):\n    raise NotEnough(n)",
        "import pytest\nwith pytest.raises(NotEnough, match='missing 2') as e:\n    f(2)\nassert e.value.n == 2\n"
        "try:\n    f(3)\nexcept Missing:\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'missing 3'",
    ),
    "a named tuple, and a time with a zone": (
        "import collections, datetime\nP = collections.namedtuple('P', 'x y')\ndef f(p=None):\n"
        "    if p: return p.x + p.y\n    zone = datetime.timezone.utc\n"
        "    return P(1, datetime.datetime(2020, 1, 2, tzinfo=zone))",
        "import datetime\np = f()\nassert p.x == 1 and p == (1, p.y)\nassert p.y.utcoffset() == datetime.timedelta()\n"
        "P = type(p)\nassert f(P((1, 2))) == 3",
    ),
    "methods of Python's own as functions": (
        "def f(call, items):\n    for item in items: call(item)\n    return len(items)",
        "seen = []\nassert f(seen.append, [1, 2]) == 2\nassert seen == [1, 2]\nassert f('-'.join, ['ab']) == 1",
    ),
    "threads that call functions of the tests": (
        "from concurrent.futures import ThreadPoolExecutor\ndef f(g, items):\n"
        "    with ThreadPoolExecutor(4) as pool: return list(pool.map(g, items))",
        "assert f(lambda x: x * x, [1, 2, 3]) == [1, 4, 9]",
    ),
    "a mock with methods": (
        "def f(shop):\n    shop.buy('x', amount=2)\n    return shop.total()",
        "from unittest.mock import Mock\nshop = Mock()\nshop.total.return_value = 7\nassert f(shop) == 7\n"
        "shop.buy.assert_called_once_with('x', amount=2)",
    ),
    "objects of the tests' own class": (
        "def f(node):\n    return node.value + (f(node.next) if node.next else 0)",
        "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"
        "assert f(Node(1, Node(2))) == 3",
    ),
    "a context": (
        "class f:\n    def __enter__(self):\n        self.open = True\n        return self\n"
        "    def __exit__(self, *error):\n        self.open = False\ndef g(): pass",
        "with f() as x:\n    assert x.open is True\nassert x.open is False\nassert isinstance(x, f)\n"
        "assert not hasattr(x, 'closed')",
    ),
    "coroutines": (
        "async def f(x):\n    return x * x",
        "import asyncio\nassert asyncio.run(f(3)) == 9\nasync def both():\n"
        "    return await asyncio.gather(f(1), f(2))\nassert asyncio.run(both()) == [1, 4]",
    ),
    "objects of the program's own class": (
        NODE,
        "root = Node(1)\nroot.left = Node(2)\nassert depth(root) == 2\nassert root.left.v == 2",
    ),
    "a function of the tests": (
        "def twice(f, x):\n    return f(f(x))",
        "assert twice(lambda x: x + 3, 1) == 7\nassert twice(abs, -1) == 1",
    ),
    "a returned function": ("def adder(n):\n    return lambda x: x + n", "assert adder(2)(3) == 5"),
    "a generator": (
        "def up(n):\n    yield from range(n)",
        "assert list(up(3)) == [0, 1, 2]\nassert 2 in up(3)\nassert up(3) != [0, 1, 2]",
    ),
    "arguments changed in place": (
        "def fill(a, d):\n    a.sort()\n    d['k'] = 1",
        "a, d = [3, 1], {}\nfill(a, d)\nassert a == [1, 3] and d == {'k': 1}",
    ),
    "an exception that is expected": (
        "def f(x):\n    raise ValueError('no')",
        "try:\n    f(1)\nexcept ValueError as e:\n    assert 'no' in str(e)\nelse:\n    assert False",
    ),
    "a name of Python's own": ("def sum(a, b):\n    return a + b", "assert sum(1, 2) == 3"),
    "a returned type": ("def kind(x):\n    return type(x)", "assert kind(1) is int"),
    "several functions and a value": (
        "LIMIT = 3\ndef f(): return LIMIT\ndef g(x): return f() + x",
        "assert g(1) == 4 and f() == 3 and g(LIMIT) == 6",
    ),
    "keywords and types": (
        "def f(*a, **k):\n    return a, k",
        "assert f(1, [2], x=(3,)) == ((1, [2]), {'x': (3,)})",
    ),
    "a library of the site": (
        "import os, json, dataclasses\ndef f(): return json.loads('[1]')",
        "import json\nassert f() == [1]",
    ),
}


def _entry(program: str) -> str:
    return program.rpartition("def ")[2].partition("(")[0]


@pytest.mark.parametrize("name", PASSING)
async def test_tests_reach_what_a_program_offers(name: str) -> None:
    program, tests = PASSING[name]
    score = await judge_program(program, Measure(tests, _entry(program)), PlainSandbox())
    assert score["verdict"] == "passed", score
    broken = await judge_program("", Measure(tests, _entry(program)), PlainSandbox())
    assert broken["verdict"] in ("crash", "wrong")


async def test_a_helper_of_the_problem_is_not_the_answers_to_replace() -> None:
    """humaneval's 32, 38 and 50 measure an answer with a function that stands in the prompt."""
    stub = "def poly(x):\n    return x - 7\n\ndef zero():\n    '''The zero of poly.'''\n"
    tests = Measure("assert poly(zero()) == 0", "zero", stub)
    forged = f"{stub}\ndef poly(x): return 0\ndef zero(): return 5"
    assert (await judge_program(forged, tests, PlainSandbox()))["verdict"] == "wrong"
    assert (await judge_program(f"{stub}    return 7", tests, PlainSandbox()))[
        "verdict"
    ] == "passed"


async def test_what_cannot_be_judged_is_not_scored() -> None:
    own = "class P:\n    def __eq__(self, other): return True\ndef f(): return P()"
    with pytest.raises(TamperError, match="own type P"):
        await judge_program(own, Measure("assert f() == f()", "f"), PlainSandbox())
    with pytest.raises(ScorerError, match="not valid Python"):
        await judge_program(own, Measure("assert (", "f"), PlainSandbox())
    with pytest.raises(ScorerError, match="no assertion"):
        await judge_program(own, Measure("f()", "f"), PlainSandbox())
    assert POLICY[Cause.TAMPER].row is RowOutcome.FAILED
    assert POLICY[Cause.TAMPER].redo is Redo.VERIFY


@pytest.mark.parametrize(
    "answer",
    ["", " ", "\n \t\n", "```python\n```", "```python\n \n```", "\x0b\x0c", "<think>x</think> "],
)
async def test_an_empty_answer_is_a_scored_zero(answer: str) -> None:
    metadata = {
        "_prompt": "def f():\n    '''x'''\n",
        "_test": "assert f() == 1",
        "_entry_point": "f",
    }
    score = await code_sandbox_async(ScorerInput(answer, "f", metadata), PlainSandbox())
    assert (score["correct"], score["unparsed"]) == (False, True)


@pytest.mark.parametrize(
    "answer",
    [
        "\x00",
        "\ud800",
        "def f(:",
        "x" * 10**5,
        "(" * 5000,
        "return 1 if",
        "\ufeffdef f(): return 2",
    ],
)
async def test_an_unusable_answer_is_a_scored_zero(answer: str) -> None:
    metadata = {
        "_prompt": "def f():\n    '''x'''\n",
        "_test": "assert f() == 1",
        "_entry_point": "f",
    }
    assert (await code_sandbox_async(ScorerInput(answer, "f", metadata), PlainSandbox()))[
        "correct"
    ] is False


@pytest.mark.serial
@pytest.mark.parametrize(
    ("head", "part", "tail"),
    [
        ("```python\n", "\n", ""),
        ("", "`", ""),
        ("", "```\n", ""),
        ("", "a```b", ""),
        ("", "\n", "x"),
        ("", "def ", ""),
    ],
)
def test_extracting_code_takes_linear_time(head: str, part: str, tail: str) -> None:
    def seconds(count: int) -> float:
        text = f"{head}{part * count}{tail}"
        began = time.process_time()
        extract_code(text, "f")
        return time.process_time() - began

    count = 10**6 // len(part)
    # Eight times the text, and no more than three times the time that this takes in proportion.
    assert seconds(count) < 24 * min(seconds(count // 8) for _ in range(3)) + 0.2
