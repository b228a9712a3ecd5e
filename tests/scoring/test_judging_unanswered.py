"""Tests are unjudged only where no program could be judged by them; where an answer decides that, the answer is wrong."""

from __future__ import annotations

import asyncio
from textwrap import dedent
from typing import Any

import pytest
from plain_sandbox import PlainSandbox

from nemo_evaluator.core.errors import SandboxError, ScorerError
from nemo_evaluator.scoring.code import Measure, judge_program

RIGHT = "def f(x): return x * x"
# Tests that a right program is judged by, and an answer that keeps them from being run.
DECIDED = {
    "a condition of a mark": (
        "import pytest\n@pytest.mark.skipif(f(0), reason='no')\ndef test_x():\n    assert f(3) == 9",
        "def f(x): return 'True and more'",
    ),
    "the rows of a case": (
        "import pytest\n@pytest.mark.parametrize('x, y', [(1, 1), f((2,))[:2] or (2, 4)])\n"
        "def test_x(x, y):\n    assert f(x) == y",
        "def f(x): return [1]",
    ),
    "the names of a case": (
        "import pytest\n@pytest.mark.parametrize('abcdefghi'[f(1)], [1])\ndef test_x(b):\n    assert f(b) == 1",
        "def f(x): return 2",
    ),
    "what is passed back": (
        "x = f(3)\nassert f(2 if x == 9 else open('/dev/null')) == 4\nassert x == 9",
        "def f(x): return 4",
    ),
    "the type of an answer": (
        "import io\nx = f(3)\ny = f(2 if isinstance(x, int) else io.StringIO())\nassert (x, y) == (9, 4)",
        "def f(x): return 'x'",
    ),
    "the text of an answer": (
        "import io\nx = f(3)\ny = f(2 if f'{x:>2}' == ' 9' else io.StringIO())\nassert (x, y) == (9, 4)",
        "def f(x): return 8",
    ),
    "the length of an answer": (
        "import io\nx = f(3)\nfor _ in range(9 - len([x] * x)):\n    f(io.StringIO())\nassert f(3) == 9",
        "def f(x): return 8",
    ),
    "a name that is no function": (
        "import pytest\nif not callable(f):\n    pytest.skip('no')\nassert f(3) == 9",
        "class Odd: pass\nf = Odd()",
    ),
    "an attribute that is missing": (
        "import pytest\nif hasattr(f, 'cache'):\n    pytest.skip('no')\nassert f(3) == 9",
        "class Odd:\n    cache = 1\n    def __call__(self, x): return 3\nf = Odd()",
    ),
    "a size": (
        "x = f(3)\ny = f(b'x' * (x * 1_000))\nassert x == 9",
        "def f(x): return 300_000",
    ),
    "a member of a set": (
        "import io\nif f(3) not in {9, 10}:\n    f(io.StringIO())\nassert f(2) == 4",
        "def f(x): return 4",
    ),
    "no exception before an else": (
        "import io\ntry:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    f(io.StringIO())\nassert f(3) == 9",
        "def f(x): return 9",
    ),
    "no exception in a context": (
        "import io, pytest\nwith pytest.raises(ValueError):\n    f(-1)\n    f(io.StringIO())\nassert f(3) == 9",
        "def f(x): return 9",
    ),
    "no exception in a unittest context": (
        "import io, unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
        "        with self.assertRaises(ValueError):\n            f(-1)\n            f(io.StringIO())\n"
        "        self.assertEqual(f(3), 9)",
        "def f(x): return 9",
    ),
    "an assertion that looks into an answer": (
        "import io\ndef same(x):\n    return x == 9 or f(io.StringIO())\nassert same(f(3))",
        "def f(x): return 8",
    ),
}
_RAISING = "def f(x):\n    if x == -1: raise ValueError\n    return x * x"
RIGHT_FOR = {
    "no exception before an else": _RAISING,
    "no exception in a context": _RAISING,
    "no exception in a unittest context": _RAISING,
    "the rows of a case": "def f(x): return x * x if isinstance(x, int) else []",
    "a size": "def f(x): return x * x if isinstance(x, int) else 0",
}
# Tests that no program is judged by; what cannot be sent or run comes after assertions about answers.
NEVER = {
    "a stream": "import io\nassert f(3) == 9\nassert f(io.StringIO('3')) == 9",
    "a stream in a test": "import io\ndef test_x():\n    assert f(3) == 9\ndef test_y():\n    f(io.StringIO('3'))",
    "a stream in a case": "import io, unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
    "        self.assertEqual(f(3), 9)\n        self.assertTrue(f(2) > 3 and f(2) < 5)\n"
    "        self.assertIsInstance(f(2), int)\n        self.assertEqual(f(iter([3])), 9)",
    "a stream after an expected exception": "import io, pytest\nwith pytest.raises(TypeError):\n    f('x')\n"
    "assert f(io.StringIO()) == 9",
    "a stream after a try": "import io\ntry:\n    f('x')\n    assert False\nexcept TypeError:\n    pass\n"
    "assert f(3) == 9\nf(io.StringIO())",
    "an iterator of answers": "x = [f(1), f(2)]\nassert f(iter(x)) == 3",
    "a fixture that nothing provides": "def test_x():\n    for x in [f(1)] * f(1):\n        assert x == 1\n"
    "def test_y(capsys):\n    assert f(2) == 4",
    "a fixture of a method": "class TestX:\n    def test_x(self):\n        assert f(1) == 1\n"
    "    def test_y(self, capsys):\n        assert f(2) == 4",
    "a condition that is a text": "import pytest\ndef test_x():\n    assert f(1) == 1\n"
    "@pytest.mark.skipif('sys.platform', reason='')\ndef test_y():\n    assert f(2) == 4",
    "failures by hand": "if f(3) != 9:\n    raise AssertionError('three')",
    "a skip": "import pytest\npytest.skip('never')\nassert f(3) == 9",
}


async def _verdict(program: str, tests: str, sandbox: Any = None) -> str:
    measure = Measure(dedent(tests), "f")
    try:
        score = await judge_program(program, measure, sandbox or PlainSandbox())
    except ScorerError:
        return "unjudged"
    return str(score["verdict"])


async def _verdicts(cases: dict[str, tuple[str, str]]) -> dict[str, str]:
    room = asyncio.Semaphore(2)

    async def verdict(tests: str, program: str) -> str:
        async with room:
            return await _verdict(program, tests)

    verdicts = await asyncio.gather(*(verdict(*case) for case in cases.values()))
    return dict(zip(cases, verdicts, strict=True))


async def test_an_answer_that_keeps_tests_from_being_run_is_wrong() -> None:
    assert await _verdicts(DECIDED) == dict.fromkeys(DECIDED, "wrong")


async def test_a_right_program_passes_the_same_tests() -> None:
    cases = {name: (case[0], RIGHT_FOR.get(name, RIGHT)) for name, case in DECIDED.items()}
    assert await _verdicts(cases) == dict.fromkeys(cases, "passed")


async def test_tests_that_no_program_is_judged_by_stay_unjudged() -> None:
    program = "def f(x):\n    if isinstance(x, str): raise TypeError\n    return x * x if isinstance(x, int) else 3"
    cases = {name: (tests, program) for name, tests in NEVER.items()}
    assert await _verdicts(cases) == dict.fromkeys(cases, "unjudged")


async def test_a_text_condition_that_is_a_truth_value_counts() -> None:
    tests = (
        "import pytest\n@pytest.mark.skipif(f(0), reason='')\ndef test_x():\n    assert f(3) == 9"
    )
    program = "def f(x): return 'False' if x == 0 else x * x"
    assert await _verdict(program, tests) == "passed"
    assert await _verdict(program.replace("False", "True"), tests) == "wrong"


async def test_a_short_answer_fails_a_comparison_with_written_values() -> None:
    tests = "for x, y in zip(f(3), [1, 4, 9]):\n    assert x == y"
    assert await _verdict("def f(n): return [k * k for k in range(1, n + 1)]", tests) == "passed"
    assert await _verdict("def f(n): return [k * k for k in range(1, 20)]", tests) == "passed"
    assert await _verdict("def f(n): return [1, 4]", tests) == "wrong"
    assert await _verdict("def f(n): yield 1", tests) == "wrong"


class _BreakingSandbox(PlainSandbox):
    """Runs one judge, and no second one."""

    runs = 0

    async def exec(self, *arguments: Any, **options: Any) -> Any:
        self.runs += 1
        if self.runs > 1:
            raise SandboxError("the sandbox is gone")
        return await super().exec(*arguments, **options)


async def test_a_sandbox_that_breaks_meanwhile_is_not_the_programs_answer() -> None:
    tests, program = DECIDED["a condition of a mark"]
    sandbox = _BreakingSandbox()
    with pytest.raises(SandboxError):
        await _verdict(program, tests, sandbox)
    assert sandbox.runs > 1
