"""Model-written code against its tests, in a sandbox or not at all."""

from __future__ import annotations

import re
import secrets
import textwrap
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import run_fresh
from nemo_evaluator.sandbox._fresh import NOT_PREPARED
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import ExecResult, Sandbox

_FENCE: Final = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_FILE: Final = "main.py"
_SYNTAX: Final = ("SyntaxError", "IndentationError", "TabError")
_NO_INTERPRETER: Final = 127
_SHOWN: Final = 500


def extract_code(response: str, entry_point: str | None = None) -> str:
    """The last fenced block of a response that defines ``entry_point``, else the last block, else all of it."""
    text = strip_reasoning(response)
    blocks = [body for language, body in _FENCE.findall(text) if language.lower() in ("", "python", "py", "python3")]
    if not blocks:
        return text.strip("\n")
    if entry_point:
        defining = [body for body in blocks if _defines(body, entry_point)]
        if defining:
            return str(defining[-1])
    return str(blocks[-1])


def _defines(code: str, name: str) -> bool:
    return (
        re.search(rf"^\s*(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", code, re.M)
        is not None
    )


def assemble(prompt: str, code: str, entry_point: str) -> str:
    """A whole program out of a stub and either a whole function or only its body."""
    if not prompt or _defines(code, entry_point):
        return f"{prompt}\n\n{code}" if prompt else code
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first[:1].isspace():
        return f"{prompt.rstrip()}\n{code}"
    rest = [line for line in lines[lines.index(first) + 1 :] if line.strip()]
    if rest and all(line[:1].isspace() for line in rest):
        return f"{prompt.rstrip()}\n    {code.lstrip()}"
    return f"{prompt.rstrip()}\n{textwrap.indent(code, '    ')}"


def program_of(sample: ScorerInput) -> tuple[str, str]:
    """The program to run (with its tests) and the code that was extracted."""
    meta = sample.metadata
    entry = str(meta.get("_entry_point") or meta.get("entry_point") or "solution")
    prompt, test = str(meta.get("_prompt") or ""), str(meta.get("_test") or meta.get("test") or "")
    code = extract_code(sample.response, entry)
    call = f"\ncheck({entry})\n" if re.search(r"^def check\(", test, re.M) else "\n"
    return f"{assemble(prompt, code, entry)}\n\n{test}\n{call}", code


@versioned("2", inline=False)
async def code_sandbox(sample: ScorerInput, timeout: float = 30.0) -> Score:
    """Does the code pass its tests in the sample's sandbox? ``_prompt``, ``_test``, ``_entry_point`` are metadata."""
    return await code_sandbox_async(sample, sample.sandbox, timeout)


@versioned("2", inline=False)
async def code_sandbox_async(sample: ScorerInput, sandbox: Sandbox | None, timeout: float = 30.0) -> Score:
    """The same in a given sandbox; raises SandboxError when there is none, for then nothing was measured."""
    program, code = program_of(sample)
    if not code.strip():
        return found(None, False)
    return {"extracted": code[:_SHOWN], **await run_program(program, sandbox, timeout)}


async def run_program(program: str, sandbox: Sandbox | None, timeout: float = 30.0) -> dict[str, Any]:
    """Run a program in a process and a folder of its own.

    It passed only when it reached its last line, so an early ``exit(0)`` does not count. ``verdict`` says how it ended:
    passed, wrong, compile_error, timeout, out_of_memory or crash.
    """
    if sandbox is None:
        raise SandboxError(
            "running model-written code needs a sandbox",
            hint="give the benchmark a sandbox, e.g. `sandbox: {type: local}`",
        )
    reached = f"reached-{secrets.token_hex(8)}"
    files = {_FILE: f"{program}\nprint({reached!r})\n".encode("utf-8", "replace")}
    result = await run_fresh(sandbox, ["python3", _FILE], files, timeout=timeout)
    if result.exit_code in (_NO_INTERPRETER, NOT_PREPARED) and not result.timed_out:
        # Either the program chose that code itself, or it was never run.
        python = await _interpreter(sandbox)
        if python != "python3":
            result = await run_fresh(sandbox, [python, _FILE], files, timeout=timeout)
    verdict = _verdict(result, reached)
    details: dict[str, Any] = {
        "correct": verdict == "passed",
        "verdict": verdict,
        "exit_code": result.exit_code,
        "duration_ms": round(result.duration_ms, 1),
    }
    if verdict != "passed":
        details["stderr"] = result.stderr[-_SHOWN:]
    return details


async def _interpreter(sandbox: Sandbox) -> str:
    ask = ["sh", "-c", "command -v python3 || command -v python"]
    result = await run_fresh(sandbox, ask, {}, timeout=30)
    if not result.ok:
        raise SandboxError("the sandbox has no Python", hint="choose an image with python3 and tar")
    return result.stdout.strip().rpartition("/")[2]


def _verdict(result: ExecResult, reached: str) -> str:
    last = result.stderr.rstrip().rpartition("\n")[2]
    if result.timed_out:
        return "timeout"
    if result.ok and reached in result.stdout:
        return "passed"
    if result.out_of_memory or last.startswith("MemoryError"):
        return "out_of_memory"
    if last.startswith(_SYNTAX) and "Traceback (most recent call last)" not in result.stderr:
        return "compile_error"
    if result.ok or last.startswith("AssertionError"):
        return "wrong"
    return "crash"
