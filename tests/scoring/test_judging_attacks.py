"""What a program sends is data: whatever else it tries is its own failure, never a pass and never an unjudged row."""

from __future__ import annotations

import asyncio
from textwrap import dedent

from plain_sandbox import PlainSandbox

from nemo_evaluator.core.errors import ScorerError, TamperError
from nemo_evaluator.scoring.code import Measure, judge_program

ROUND_TRIP = Measure("assert decode(encode('hello')) == 'hello'", "decode")
SQUARE = Measure("assert f(3) == 9", "f")

_HOST = """
import sys
program = sys.modules["nel_judge.program"]
values = sys.modules["nel_judge.values"]
def refer_by(number, name, wanted):
    original = program.ProgramObjects._refer
    def refer(self, value):
        if value is wanted:
            return values.Reference(number, True, name)
        return original(self, value)
    program.ProgramObjects._refer = refer
def send_instead(body):
    def tell(self, key, kind, content):
        values.send(self._replies, body(key))
    program.ProgramObjects._tell = tell
"""

# A function of the program under the name of something in the judge; the other one returns what it should be given.
_BUILTINS = (
    "eval",
    "exec",
    "breakpoint",
    "open",
    "__import__",
    "getattr",
    "type",
    "print",
    "__spec__",
    "os:system",
)
NAMED = [*((-1, name) for name in _BUILTINS), (-2, "eval"), (-3, "eval"), (-1000, "eval")]

FRAMES = {
    "an object it never showed": "b't3:s%d:%so0;o999;1;s1:x' % (len(key), key.encode())",
    "no value": "b'garbage'",
    "nothing": "b''",
    "a length beyond the frame": "b't3:s%d:%si0;s99999999:x' % (len(key), key.encode())",
    "deep lists": "b't3:s%d:%si0;' % (len(key), key.encode()) + b'l1:' * 3000 + b'N'",
    "an answer to another question": "b't3:s1:xi0;i9;'",
    "a call of no function": "b't3:s0:i6;t4:i-99;s4:callt0:d0:'",
    "a call of nothing": "b't3:s0:i6;N'",
    "a call of an attribute": "b't3:s0:i6;t3:i-2;s3:gets11:__globals__'",
    "an unknown kind": "b't3:s%d:%si99;N' % (len(key), key.encode())",
    "changes of no call": "b't3:s%d:%si7;l0:' % (len(key), key.encode())",
    "an exception of no form": "b't3:s%d:%si1;N' % (len(key), key.encode())",
    "a huge text": "b't3:s%d:%si1;t4:l0:s3000000:%ss0:l0:' % (len(key), key.encode(), b'xxx' * 10**6)",
    "a deque of an object": "b't3:s%d:%si0;xdeque;t1:o0;1;s1:x' % (len(key), key.encode())",
    "a module": "b't3:s%d:%si0;xsystem;t1:s2:ls' % (len(key), key.encode())",
    "a set of lists": "b't3:s%d:%si0;S1:l0:' % (len(key), key.encode())",
}

# Each returns or raises something odd; none of it is 9.
ODD = {
    "a builtin's spec": "def f(x): return sys.__spec__",
    "a module": "def f(x): return sys",
    "builtins": "import builtins\ndef f(x): return builtins.__spec__",
    "a frame": "def f(x): return sys._getframe()",
    "a generator": "def f(x): yield 9",
    "a coroutine": "async def f(x): return 9",
    "a lock": "import threading\ndef f(x): return threading.Lock()",
    "a class": "def f(x): return type('int', (int,), {})",
    "a type named int": "class int: pass\ndef f(x): return int",
    "an exception": "def f(x): return ValueError('9')",
    "a huge text": "def f(x): raise ValueError('x' * 3_000_000)",
    "a huge class name": "def f(x): raise type('x' * 3_000_000, (ValueError,), {})('no')",
    "many base classes": "def f(x):\n    kind = ValueError\n    for n in range(900): kind = type('K', (kind,), {})\n"
    "    for k in kind.__mro__[:-5]: k.__module__ = 'builtins'\n    raise kind('no')",
    "a text that raises": "class E(ValueError):\n    def __str__(self): raise SystemExit\ndef f(x): raise E()",
    "a text that is no text": "class E(ValueError):\n    def __str__(self): return 9\ndef f(x): raise E()",
    "a surrogate": "def f(x): raise ValueError('\\ud800' * 5000)",
    "a surrogate in a name": "def f(x): raise type('\\ud800', (ValueError,), {})('\\udfff')",
    "a surrogate as an answer": "def f(x): return '\\ud800'",
    "a deep list": "def f(x):\n    a = []\n    for _ in range(5000): a = [a]\n    return a",
    "a list in itself": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "a huge answer": "def f(x): return b'x' * (40 << 20)",
    "SystemExit": "def f(x): raise SystemExit(0)",
    "KeyboardInterrupt": "def f(x): raise KeyboardInterrupt",
    "GeneratorExit": "def f(x): raise GeneratorExit",
    "an exception group": "def f(x): raise BaseExceptionGroup('g', [SystemExit(0)])",
    "a named tuple with odd fields": "class T(tuple): _fields = ('a',) * 3\ndef f(x): return T([1, 2, 3])",
    "an infinite iterator": "def f(x):\n    import itertools\n    return itertools.count()",
}

# Each would pass when an exception of the program ended an iteration, or stood for an absent value.
SILENCED = {
    "all of map": "assert all(map(f, [1, 2]))",
    "all of a generator": "assert all(f(x) == x * x for x in [1, 2])",
    "starmap": "import itertools\nassert all(a == b for a, b in zip(itertools.starmap(f, [(1,), (2,)]), [1, 4]))",
    "zip": "assert all(a == b for a, b in zip(map(f, [1, 2]), [1, 4]))",
    "list": "assert list(map(f, [])) == list(map(f, [1, 2]))",
    "a loop": "for y in map(f, [1, 2]):\n    assert y == 99\nassert f",
    "filter": "assert list(filter(f, [1, 2])) == []",
    "sum": "assert sum(map(f, [1, 2])) == 0",
    "any": "assert not any(map(f, [1, 2]))",
    "next": "assert next(map(f, [1, 2]), 9) == 9",
    "dict": "assert dict(zip('ab', map(f, [1, 2]))) == {}",
    "sorted": "assert sorted(map(f, [1, 2])) == []",
    "hasattr": "assert not hasattr(f(3), 'x')",
    "getattr": "assert getattr(f(3), 'x', 9) == 9",
    "a handler": "try:\n    assert f(3) == 9\nexcept Exception:\n    pass\nassert f",
    "a bare handler": "try:\n    assert f(3) == 9\nexcept:\n    pass",
    "a handler around a name": "try:\n    y = f(3)\n    assert y == 9\nexcept BaseException:\n    pass",
    "suppress": "import contextlib\nwith contextlib.suppress(Exception):\n    assert f(3) == 9",
    "an iterator": "class Walk:\n    def __iter__(self): return self\n    def __next__(self): return f(3)\n"
    "assert list(Walk()) == []",
    "a generator of the tests": "def walk():\n    yield f(3)\nassert list(walk()) == []",
    "a fixture": "import pytest\n@pytest.fixture\ndef nine():\n    yield f(3)\ndef test_x(nine):\n    assert nine == 9",
}
_RAISED = (
    "StopIteration",
    "StopAsyncIteration",
    "GeneratorExit",
    "IndexError",
    "KeyError",
    "AttributeError",
)
NOT_A_NUMBER = {
    "more": "assert not abs(f(3) - 9) > 1e-6",
    "a name": "difference = abs(f(3) - 9)\nassert not difference > 1e-6",
    "a condition": "if abs(f(3) - 9) > 1e-6:\n    raise AssertionError\nassert f",
    "max": "assert max([0.0, abs(f(3) - 9)]) < 1e-6",
    "min": "assert not min([abs(f(3) - 9), 1.0]) > 1e-6",
    "sorted": "assert sorted([0.0, f(3)])[0] == 0.0",
    "fabs": "import math\nassert not math.fabs(f(3) - 9) > 1e-6",
    "infinity": "assert not abs(f(3) - f(4)) > 1e-6",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
    "        self.assertFalse(abs(f(3) - 9) > 1e-6)",
}


async def _verdict(program: str, tests: Measure) -> str:
    try:
        return str((await judge_program(dedent(program), tests, PlainSandbox(), 10.0))["verdict"])
    except TamperError:
        return "tamper"
    except ScorerError as error:
        return f"unjudged: {error}"


async def _verdicts(cases: dict[str, tuple[str, Measure]]) -> dict[str, str]:
    room = asyncio.Semaphore(2)

    async def verdict(case: tuple[str, Measure]) -> str:
        async with room:
            return await _verdict(*case)

    return dict(zip(cases, await asyncio.gather(*map(verdict, cases.values())), strict=True))


async def test_a_program_cannot_name_what_the_judge_has() -> None:
    cases = {}
    for number, name in NAMED:
        program = "def decode(x): pass\ndef encode(x): return \"'hello'\"\n"
        cases[f"{number} {name}"] = (
            f"{_HOST}{program}refer_by({number}, {name!r}, decode)\n",
            ROUND_TRIP,
        )
    assert await _verdicts(cases) == dict.fromkeys(cases, "tamper")


async def test_a_round_trip_is_judged() -> None:
    program = "def encode(x): return x[::-1]\ndef decode(x): return x[::-1]\n"
    assert await _verdict(program, ROUND_TRIP) == "passed"
    assert (
        await _verdict("def encode(x): return 'x'\ndef decode(x): return x\n", ROUND_TRIP)
        == "wrong"
    )


async def test_frames_that_are_no_answer_are_tamper() -> None:
    cases = {}
    for name, body in FRAMES.items():
        cases[name] = (
            f"{_HOST}def f(x): return 7\nsend_instead(lambda key: {body} if key else b't3:s0:i0;N')\n",
            SQUARE,
        )
    assert await _verdicts(cases) == dict.fromkeys(cases, "tamper")


async def test_odd_answers_are_the_programs_failure() -> None:
    cases = {name: (f"import sys\n{program}\n", SQUARE) for name, program in ODD.items()}
    verdicts = await _verdicts(cases)
    assert {
        name: verdict
        for name, verdict in verdicts.items()
        if verdict not in ("wrong", "crash", "tamper")
    } == {}


async def test_odd_answers_cannot_be_passed_back_to_make_a_row_unjudged() -> None:
    tests = Measure("value = f(3)\nassert f([value, (value,), {1: value}]) == 9", "f")
    cases = {name: (f"import sys\n{program}\n", tests) for name, program in ODD.items()}
    verdicts = await _verdicts(cases)
    assert {
        name: verdict
        for name, verdict in verdicts.items()
        if verdict not in ("wrong", "crash", "tamper")
    } == {}


async def test_an_exception_of_the_program_is_a_crash_wherever_it_surfaces() -> None:
    cases = {}
    for number, (name, tests) in enumerate(SILENCED.items()):
        kinds = ["StopIteration", _RAISED[number % len(_RAISED)]]
        for kind in dict.fromkeys(kinds):
            cases[f"{name}, {kind}"] = (f"def f(x): raise {kind}\n", Measure(tests, "f"))
    verdicts = await _verdicts(cases)
    assert {
        name: verdict for name, verdict in verdicts.items() if verdict not in ("crash", "wrong")
    } == {}


async def test_an_iterator_of_the_program_may_end_but_not_when_an_item_is_taken() -> None:
    program = "def f(n):\n    yield from range(n)\n"
    tests = "assert list(f(3)) == [0, 1, 2]\nassert [x for x in f(2)] == [0, 1]\nassert next(f(1)) == 0\n"
    tests += "walk = f(1)\nassert next(walk) == 0\nassert next(walk, None) is None\n"
    assert await _verdict(program, Measure(tests, "f")) == "passed"
    taken = Measure("assert all(map(lambda walk: next(walk) == 9, [f(0)]))", "f")
    assert await _verdict(program, taken) == "crash"


async def test_a_number_that_is_none_is_never_near_another() -> None:
    cases = {}
    for name, tests in NOT_A_NUMBER.items():
        for number in ("nan", "inf") if name == "infinity" else ("nan",):
            cases[f"{name} {number}"] = (
                f"def f(x): return float('{number}')\n",
                Measure(tests, "f"),
            )
    assert await _verdicts(cases) == dict.fromkeys(cases, "wrong")
    right = Measure("import math\nassert math.isnan(f(3)) and f(3) != f(3)", "f")
    assert await _verdict("def f(x): return float('nan')\n", right) == "passed"


async def test_a_reason_fits_on_the_line_with_the_verdict() -> None:
    tests = Measure("raise AssertionError(f(3))", "f")
    assert await _verdict("def f(x): return 'x' * (15 << 20)\n", tests) == "wrong"
    assert (
        await _verdict(
            "class A:\n    def __str__(self): raise ValueError\ndef f(x): return A()\n", tests
        )
        == "crash"
    )
