"""Assertions that decide: an answer of the program itself, compared with a literal."""

from __future__ import annotations

import pytest

from nemo_evaluator.scoring.code_tests import Measure, prepare


def kinds(tests: str) -> bool:
    """Whether any assertion of the tests is marked as decisive."""
    prepared = prepare(Measure(tests, "f", ""))
    assert prepared["unjudged"] == ""
    return ", 3, " in "".join(
        line for line in prepared["tests"].splitlines() if "__nel_holds__" in line
    )


@pytest.mark.parametrize(
    "tests",
    [
        "assert f(3) == 9",
        "assert 9 == f(3)",
        "assert f('a', b=[1]) == {'a': [1, 2.5]}, 'message'",
        "def test_it():\n    assert f(3) == (1, -2)",
        "def check(candidate):\n    assert candidate(3) == 9",
        "def check(g):\n    for n in (3,):\n        assert g(n) == 9\ncheck(f)",
    ],
)
def test_an_answer_compared_with_a_literal_decides(tests: str) -> None:
    assert kinds(tests)


@pytest.mark.parametrize(
    "tests",
    [
        "assert f(3) == f(3)",
        "assert f(3) == None",
        "assert f(3) != 9",
        "assert f(3) > 9",
        "assert (f(3) or 9) == 9",
        "assert len(f(3)) == 0",
        "assert next(iter(f(3)), 9) == 9",
        "x = 9\nassert f(3) == x",
        "assert f(3) == 9 or f(3) == 8",
        "def g(n):\n    try:\n        return f(n)\n    except Exception:\n        return 9\nassert g(3) == 9",
        "def check(candidate):\n    assert candidate(3) == 9\ncheck(lambda n: f(n) or 9)",
        "def check(candidate):\n    assert candidate(3) == 9\ng = check\ng(f)",
        "def check(candidate):\n    candidate = abs\n    assert candidate(-9) == 9 and f(1)",
        "def check(candidate):\n    def candidate(n):\n        return f(n) or 9\n    assert candidate(3) == 9",
        "def check(candidate, more=0):\n    assert candidate(3) == 9\ncheck(f, 1)",
        "def g(check):\n    return check\n@g\ndef check(candidate):\n    assert candidate(3) == 9",
    ],
)
def test_anything_else_is_left_to_the_controls(tests: str) -> None:
    assert not kinds(tests)
