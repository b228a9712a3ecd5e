"""Tests of every shape that users write: each is run, and each tells a right program from a wrong one."""

from __future__ import annotations

import asyncio
from textwrap import dedent

from plain_sandbox import PlainSandbox

from nemo_evaluator.core.errors import ScorerError, TamperError
from nemo_evaluator.scoring.code import Measure, judge_program

RIGHT = "def f(x):\n    if x < 0:\n        raise ValueError('negative')\n    return x * x\n"
WRONG = "def f(x):\n    return 7\n"

# Each passes for RIGHT and fails for WRONG.
SHAPES = {
    "bare": "assert f(3) == 9",
    "a name between": "result = f(3)\nassert result == 9",
    "a helper": "def eq(a, b):\n    assert a == b\neq(f(3), 9)",
    "a loop": "for x, y in [(1, 1), (3, 9)]:\n    assert f(x) == y",
    "a flag": "caught = False\ntry:\n    f(-1)\nexcept ValueError:\n    caught = True\nassert caught",
    "a flag for any exception": "caught = False\ntry:\n    f(-1)\nexcept Exception:\n    caught = True\nassert caught",
    "a side": "assert f(3) > 8",
    "a truth": "assert f(3)\nassert not f(0)",
    "a demanded exception": "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass",
    "a demanded exception of any kind": "try:\n    f(-1)\nexcept Exception:\n    pass\nelse:\n    raise AssertionError",
    "check": "def check(candidate):\n    assert candidate(3) == 9",
    "check with a space": "def check (candidate):\n    assert candidate(3) == 9",
    "check that is called": "def check(candidate):\n    assert candidate(3) == 9\ncheck(f)",
    "a test function": "def test_x():\n    assert f(3) == 9",
    "a test with the same name": "def test_x():\n    assert f(3) == 9\ndef test_x():\n    assert f(0) in (0, 7)",
    "a coroutine": "async def test_x():\n    assert f(3) == 9",
    "raises": "import pytest\ndef test_x():\n    with pytest.raises(ValueError, match='^neg') as e:\n        f(-1)\n"
    "    assert str(e.value) == 'negative'",
    "approx": "import pytest\ndef test_x():\n    assert f(3) == pytest.approx(9.0)",
    "parametrize": "import pytest\n@pytest.mark.parametrize('x, y', [(1, 1), pytest.param(3, 9, id='a')])\n"
    "def test_x(x, y):\n    assert f(x) == y",
    "a fixture": "import pytest\n@pytest.fixture\ndef nine():\n    yield 9\ndef test_x(nine):\n    assert f(3) == nine",
    "a class": "class TestF:\n    def setup_method(self):\n        self.y = 9\n    def test_x(self):\n"
    "        assert f(3) == self.y",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def setUp(self):\n        self.y = 9\n"
    "    def test_x(self):\n        self.assertEqual(f(3), self.y)\n"
    "    def test_y(self):\n        with self.assertRaises(ValueError):\n            f(-1)\n",
    "unittest, called at the end": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
    "        self.assertAlmostEqual(f(3), 9.0)\n\nif __name__ == '__main__':\n    unittest.main()",
    "subtests": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n        for x in (1, 3):\n"
    "            with self.subTest(x=x):\n                self.assertEqual(f(x), x * x)",
    "a class of coroutines": "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n"
    "    async def test_x(self):\n        self.assertEqual(f(3), 9)",
    "below main": "def run():\n    assert f(3) == 9\n\nif __name__ == '__main__':\n    run()",
    "pytest.main": "import pytest, sys\ndef test_x():\n    assert f(3) == 9\nif __name__ == '__main__':\n"
    "    sys.exit(pytest.main([__file__]))",
    "a script that exits": "import sys\ndef main():\n    assert f(3) == 9\n    return 0\nsys.exit(main())",
    "a mock": "from unittest.mock import Mock\nm = Mock()\nm(f(3))\nm.assert_called_once_with(9)",
    "assert_ functions": "from unittest import TestCase\nt = TestCase()\nt.assertEqual(f(3), 9)",
}

# Each would pass for WRONG in an ordinary runner, and never gets 1.
EMPTY = {
    "nothing": "",
    "no question": "f(1)\ny = 4\nassert y == 4",
    "no question in a test": "def test_x():\n    f(1)\n    y = 4\n    assert y == 4",
    "true": "f(1)\nassert True",
    "a tuple": "assert (f(3) == 9, 'message')",
    "a return": "def test_x():\n    return f(3) == 9",
    "an alternative": "assert f(3) == 9 or True",
    "a test that is skipped": "import pytest\n@pytest.mark.skip\ndef test_x():\n    assert f(3) == 9",
    "a test expected to fail": "import pytest\n@pytest.mark.xfail\ndef test_x():\n    assert f(3) == 9",
    "a case that is skipped": "import unittest\n@unittest.skip('no')\nclass T(unittest.TestCase):\n"
    "    def test_x(self):\n        self.assertEqual(f(3), 9)",
    "an expected failure": "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n"
    "    def test_x(self):\n        self.assertEqual(f(3), 9)",
    "an assertTrue of a tuple": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
    "        self.assertTrue((f(3) == 9, 'no'))",
    "a function nobody calls": "def verify():\n    assert f(3) == 9",
    "an unknown fixture": "def test_x(database):\n    assert f(3) == 9",
}
SWALLOWED = {
    "a handler": "try:\n    assert f(3) == 9\nexcept Exception:\n    pass",
    "a bare handler": "try:\n    assert f(3) == 9\nexcept:\n    pass",
    "an AssertionError that is caught": "try:\n    assert f(3) == 9\nexcept AssertionError:\n    print('failed')",
    "a finally": "def test_x():\n    try:\n        assert f(3) == 9\n    finally:\n        return",
    "suppress": "from contextlib import suppress\nwith suppress(AssertionError):\n    assert f(3) == 9",
    "an exit": "import sys\nf(3)\nsys.exit(0)\nassert f(3) == 9",
    "an exit in a test": "import sys\ndef test_x():\n    if f(3) != 9:\n        sys.exit(0)\n    assert f(3) == 9",
    "a skip after an answer": "import pytest\ndef test_x():\n    if f(3) != 9:\n        pytest.skip()\n"
    "    assert f(3) == 9\ndef test_y():\n    assert f(0) in (0, 7)",
    "an assertion that is not reached": "def test_x():\n    if f(3) == 9:\n        assert f(2) == 4",
    "a callback": "def note(x):\n    assert x == 9\nnote(f(3)) if f else None",
}


async def _verdict(program: str, tests: str) -> str:
    try:
        score = await judge_program(dedent(program), Measure(dedent(tests), "f"), PlainSandbox())
    except TamperError:
        return "tamper"
    except ScorerError:
        return "unjudged"
    return str(score["verdict"])


async def _verdicts(program: str, tests: dict[str, str]) -> dict[str, str]:
    room = asyncio.Semaphore(2)

    async def verdict(text: str) -> str:
        async with room:
            return await _verdict(program, text)

    verdicts = await asyncio.gather(*map(verdict, tests.values()))
    return dict(zip(tests, verdicts, strict=True))


async def test_tests_of_every_shape_pass_a_right_program() -> None:
    assert await _verdicts(RIGHT, SHAPES) == dict.fromkeys(SHAPES, "passed")


async def test_tests_of_every_shape_fail_a_wrong_program() -> None:
    verdicts = await _verdicts(WRONG, SHAPES)
    assert {
        name: verdict for name, verdict in verdicts.items() if verdict not in ("wrong", "crash")
    } == {}


async def test_tests_that_ask_nothing_are_unjudged() -> None:
    assert await _verdicts(RIGHT, EMPTY) == dict.fromkeys(EMPTY, "unjudged")
    assert await _verdicts(WRONG, EMPTY) == dict.fromkeys(EMPTY, "unjudged")


# Each passes for some wrong program, whatever the right one answers.
INDIFFERENT = {
    "an answer compared with itself": "assert f(3) == f(3)",
    "two answers to one question": "a = f(3)\nb = f(3)\nassert a == b",
    "a difference of answers": "assert f(3) - f(3) == 0",
    "a type compared with itself": "assert type(f(3)) is type(f(3))",
    "a default for an exception": "try:\n    r = f(3)\nexcept Exception:\n    r = 9\nassert r == 9",
    "a default before an exception": "r = 9\ntry:\n    r = f(3)\nexcept Exception:\n    pass\nassert r == 9",
    "a default for a suppressed exception": "import contextlib\nr = 9\nwith contextlib.suppress(Exception):\n"
    "    r = f(3)\nassert r == 9",
    "a default for an empty answer": "assert (f(3) or 9) == 9",
    "a default for None": "r = f(3)\nif r is None:\n    r = 9\nassert r == 9",
    "a conditional default for None": "assert (9 if f(3) is None else f(3)) == 9",
    "a default for an attribute": "assert getattr(f(3), 'area', 9) == 9",
    "a default for a key": "assert {4: f(3)}.get(3, 9) == 9",
    "the smallest": "assert min(f(3), 9) == 9",
    "the largest": "assert max(f(3), 9) == 9",
    "one of several": "assert 9 in [9, f(3)]",
    "raises around an assertion": "import pytest\ndef test_x():\n    with pytest.raises(Exception):\n"
    "        assert f(3) == 10",
    "anything but None": "assert f(3) is not None",
    "anything of a length": "assert len(str(f(3))) > 0",
    "a mock that is called": "from unittest import mock\nm = mock.MagicMock()\nm(f(3))\nassert m.called",
    "an awaited answer compared with itself": "import asyncio\nasync def main():\n"
    "    assert await f(3) == await f(3)\nasyncio.run(main())",
    "an object compared with itself": "s = F(3)\nassert s.area() == s.area()",
}
ASYNC = "async def f(x):\n    return x * x\n"
OBJECT = "class F:\n    def __init__(self, x):\n        self.x = x\n    def area(self):\n        return self.x\n"


async def test_tests_that_a_constant_program_passes_are_unjudged() -> None:
    # Also for a right program: whoever runs the tests gets no verdict from them.
    programs = {"await": ASYNC, "F(3)": OBJECT}
    verdicts = {}
    for name, text in INDIFFERENT.items():
        program = next((program for word, program in programs.items() if word in text), RIGHT)
        verdicts[name] = await _verdict(program, text)
    assert verdicts == dict.fromkeys(INDIFFERENT, "unjudged")


async def test_a_value_as_message_asserts_nothing() -> None:
    text = "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n        {}\n"
    tests = {
        "a value": text.format("self.assertTrue(f(3), 9)"),
        "a message": text.format("self.assertTrue(f(3), 'nine')"),
    }
    assert await _verdicts(RIGHT, tests) == {"a value": "unjudged", "a message": "passed"}


async def test_a_failed_assertion_counts_even_when_the_tests_swallow_it() -> None:
    verdicts = await _verdicts(WRONG, SWALLOWED)
    assert {
        name: verdict for name, verdict in verdicts.items() if verdict not in ("wrong", "crash")
    } == {}
