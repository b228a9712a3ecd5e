"""What the program may define: what the tests are about, and never what they measure with."""

from __future__ import annotations

from textwrap import dedent

import pytest
from plain_sandbox import PlainSandbox

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring.code import Measure, judge_program
from nemo_evaluator.scoring.code_tests import prepare

# Tests of an entry point ``f`` whose measure nobody defines; the program would bring its own.
MEASURES = {
    "approx": "assert approx(f(3), 9)",
    "a helper": "assert same(f(3), 9)",
    "a helper with a name between": "result = f(3)\nassert same(result, 9)",
    "a helper, and its result": "ok = same(f(3), 9)\nassert ok",
    "a helper that is negated": "assert not differ(f(3), 9)",
    "a helper compared with True": "assert same(f(3), 9) is True",
    "a helper compared with 0": "assert distance(f(3), 9) == 0",
    "a helper that is small": "assert distance(f(3), 9) < 1e-6",
    "a helper of one argument": "assert is_nine(f(3))",
    "a comparison that is passed": "assert holds(f(3) == 9)",
    "a pair": "assert same((f(3), 9))",
    "keywords": "assert close(actual=f(3), expected=9)",
    "stars": "pair = (f(3), 9)\nassert same(*pair)",
    "numpy": "assert np.allclose(f(3), 9)",
    "numpy's testing": "np.testing.assert_allclose(f(3), 9)\nassert f(0) == 0",
    "assert_equal": "assert_equal(f(3), 9)",
    "a statement": "same(f(3), 9)\nassert f(0) in (0, 7)",
    "what approx returns": "assert f(3) == approx(9)",
    "what approx returns, first": "assert approx(9) == f(3)",
    "an expected value": "assert f(3) == EXPECTED",
    "an expected value of a table": "assert f(3) == table['nine']",
    "values to choose from": "assert f(3) in allowed",
    "a tolerance": "assert abs(f(3) - 9) < eps",
    "raises": "with raises(ValueError):\n    f(-1)\nassert f(0) in (0, 7)",
    "an f-string": "assert f'{same(f(3), 9)}' == 'True'",
    "str": "assert str(same(f(3), 9)) == 'True'",
    "all": "assert all(same(f(x), y) for x, y in [(3, 9)])",
    "all and map": "assert all(map(same, map(f, [3]), [9]))",
    "a decorator": "@expect(9)\ndef run():\n    return f(3)\nassert run()",
    "a default": "def eq(a, b, compare=same):\n    return compare(a, b)\nassert eq(f(3), 9)",
    "a lambda": "eq = lambda a, b: same(a, b)\nassert eq(f(3), 9)",
    "a lambda's default": "eq = lambda a, b, compare=same: compare(a, b)\nassert eq(f(3), 9)",
    "a function of the tests": "def eq(a, b):\n    return same(a, b)\nassert eq(f(3), 9)",
    "another name": "eq = same\nassert eq(f(3), 9)",
    "one of a list": "for eq in [same]:\n    assert eq(f(3), 9)",
    "a chain": "assert expect(f(3)).equals(9)",
    "a chain as a statement": "expect(f(3)).to_equal(9)\nassert f(0) in (0, 7)",
    "an object": "checker = Checker()\nassert checker.same(f(3), 9)",
    "a curried one": "assert same(f(3))(9)",
    "what is passed comes back": "assert pick(f(3), 9) == 9",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
    "        self.assertTrue(same(f(3), 9))",
    "unittest's equality": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
    "        self.assertEqual(f(3), approx(9))",
    "a condition": "if not same(f(3), 9):\n    raise AssertionError\nassert f(0) in (0, 7)",
    "check": "def check(candidate):\n    assert candidate(3) == approx(9)",
    "check with a helper": "def check(candidate):\n    assert same(candidate(3), 9)",
    "partial": "from functools import partial\nassert partial(same, f(3))(9)",
}

SUBJECTS = {
    "a round trip": ("decode", "assert decode(encode('hello')) == 'hello'"),
    "an account": ("balance", "assert balance(make_account(10)) == 10"),
    "an account, by its maker": ("make_account", "assert balance(make_account(10)) == 10"),
    "a tree": ("height", "assert height(Node(1)) == 1"),
    "a tree that is built": (
        "height",
        "root = Node(1)\nroot.left = Node(2)\nassert height(root) == 2",
    ),
    "parts": ("total", "cart = make_cart()\nadd(cart, 'x', 5)\nassert total(cart) == 5"),
    "an argument": ("longest", "assert longest([Pair(1, 2), Pair(3, 4)], 2) == 2"),
    "several functions": (
        "square",
        "assert square(3) == 9\nassert cube(2) == 8\nassert cube(square(2)) == 64",
    ),
    "a helper of the tests": (
        "f",
        "def build(v):\n    return Node(v, None)\nassert f(build(3)) == 3",
    ),
    "an enum's value": ("name_of", "assert name_of(Color.RED) == 'red'"),
    "a class and its errors": (
        "Stack",
        "s = Stack()\ns.push(3)\nassert s.pop() == 3\nassert s.is_empty()",
    ),
    "the standard library": (
        "f",
        "assert math.isclose(f(3), 9)\nassert Counter(f('aab')) == Counter('aab')",
    ),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_that_only_the_program_defines_is_unjudged(name: str) -> None:
    assert "only the program could define" in prepare(Measure(MEASURES[name], "f"))["unjudged"]


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_the_tests_are_about_may_have_several_names(name: str) -> None:
    entry, tests = SUBJECTS[name]
    assert prepare(Measure(tests, entry))["unjudged"] == ""


async def test_a_measure_of_the_program_decides_nothing() -> None:
    program = "def f(x):\n    return 7\ndef same(a, b):\n    return True\n"
    with pytest.raises(ScorerError, match="'same'"):
        await judge_program(program, Measure("assert same(f(3), 9)", "f"), PlainSandbox())
    tests = dedent("""
        def same(a, b):
            return a == b
        assert same(f(3), 9)
    """)
    assert (await judge_program(program, Measure(tests, "f"), PlainSandbox()))["verdict"] == "wrong"
