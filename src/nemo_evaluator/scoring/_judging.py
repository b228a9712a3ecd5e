"""Carries a program and its tests to a judge in the sandbox, and reads the verdict."""

from __future__ import annotations

import importlib.util
import marshal
import secrets
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nemo_evaluator.core.errors import SandboxError, ScorerError, TamperError
from nemo_evaluator.sandbox import run_judge
from nemo_evaluator.scoring.judging import values

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import ExecResult, Sandbox

_MODULES: Final = ("values", "program", "judge", "main")
_FORMAT: Final = 2
# Each part of stdin has its length before it: modules and program first, the tests when the program is on its own.
_BOOT: Final = """
import marshal, posix, sys
def read(size):
    data = b""
    while len(data) < size:
        part = posix.read(0, size - len(data))
        if not part: posix._exit(3)
        data += part
    return data
part = lambda: marshal.loads(read(int(read(10))))
pack = part()
new = type(sys)
package = sys.modules["nel_judge"] = new("nel_judge")
package.__path__ = []
same = sys.modules["_frozen_importlib_external"].MAGIC_NUMBER == pack["magic"]
for name, source, code in pack["modules"]:
    module = sys.modules["nel_judge." + name] = new("nel_judge." + name)
    module.__package__ = "nel_judge"
    exec(marshal.loads(code) if same else compile(source, name + ".py", "exec"), module.__dict__)
module.main(part(), part)
"""
_NO_INTERPRETER: Final = 127
# What a judge may take to start and to clear up, beyond the program's own time.
_GRACE: Final = 5.0
_SHOWN: Final = 500


class Measure(NamedTuple):
    """What a program is measured by; ``stub`` is the part of the problem that tests may take helpers from."""

    source: str
    entry: str
    stub: str = ""


async def judge_program(program: str, tests: Measure, sandbox: Sandbox | None, timeout: float = 30.0) -> dict[str, Any]:
    """Run a program in a sandbox and its tests beside it, out of its reach. ``verdict`` says how it ended: passed,
    wrong, compile_error, timeout, out_of_memory or crash. Raises TamperError when the program reached for the judge,
    and ScorerError when the tests cannot be run."""
    if sandbox is None:
        raise SandboxError(
            "running model-written code needs a sandbox",
            hint="give the benchmark a sandbox, e.g. `sandbox: {type: local}`",
        )
    word = secrets.token_hex(16)
    stdin = _modules() + _part({"program": _clean(program), "timeout": timeout})
    told = {"tests": _clean(tests.source), "entry": tests.entry, "stub": _clean(tests.stub), "word": word}
    stdin += _part(told)
    command = ["python3", "-I", "-S", "-c", _BOOT]
    result = await run_judge(sandbox, command, stdin, timeout=timeout + _GRACE)
    if result.exit_code == _NO_INTERPRETER and not result.timed_out and word not in result.stdout:
        found = await run_judge(sandbox, ["python", *command[1:]], stdin, timeout=timeout + _GRACE)
        if found.exit_code == _NO_INTERPRETER:
            raise SandboxError("the sandbox has no Python", hint="choose an image with python3")
        result = found
    verdict, why = _verdict(result, word)
    details: dict[str, Any] = {
        "correct": verdict == "passed",
        "verdict": verdict,
        "exit_code": result.exit_code,
        "duration_ms": round(result.duration_ms, 1),
    }
    if verdict != "passed":
        details["stderr"] = why[:_SHOWN]
    return details


@cache
def _modules() -> bytes:
    """The judge as source and, for an interpreter like this one, as code: compiling it takes longer than judging."""
    folder = files("nemo_evaluator.scoring") / "judging"
    sources = [(name, (folder / f"{name}.py").read_text(encoding="utf-8")) for name in _MODULES]
    modules = [(name, text, marshal.dumps(compile(text, f"{name}.py", "exec", 0, True, 2))) for name, text in sources]
    return _part({"magic": importlib.util.MAGIC_NUMBER, "modules": modules})


def _part(content: dict[str, Any]) -> bytes:
    data = marshal.dumps(content, _FORMAT)
    return b"%010d" % len(data) + data


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _verdict(result: ExecResult, word: str) -> tuple[str, str]:
    """What the line with our word says; nobody but the judge knew the word."""
    line = next((line for line in result.stdout.splitlines() if line.startswith(word + " ")), None)
    if line is None:
        if result.timed_out:
            return "timeout", "the judge did not end in time"
        if result.out_of_memory:
            return "out_of_memory", ""
        text = result.stderr.strip()[-_SHOWN:]
        if "Traceback (most recent call last)" in text:
            raise SandboxError(f"the judge could not work in this sandbox: {text.splitlines()[-1]}")
        raise TamperError(f"the program ended its judge (exit code {result.exit_code})")
    verdict, why = values.decode(bytes.fromhex(line.partition(" ")[2]), _no_reference)
    if verdict == "tamper":
        raise TamperError(why)
    if verdict == "unjudged":
        raise ScorerError(f"the tests of this problem cannot be run: {why}")
    if verdict == "crash" and result.out_of_memory:
        return "out_of_memory", why
    return verdict, why


def _no_reference(_: values.Reference) -> object:
    raise ValueError("a reference in a verdict")
