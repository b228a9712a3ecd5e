"""Model-written code against its tests, in a sandbox or not at all; the tests stay out of the code's reach."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

from nemo_evaluator.scoring._judging import Tests, judge_program
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox

_FENCE: Final = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
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


def program_of(sample: ScorerInput) -> tuple[str, Tests, str]:
    """The program to run, the tests that judge it, and the code that was extracted."""
    meta = sample.metadata
    entry = str(meta.get("_entry_point") or meta.get("entry_point") or "solution")
    prompt, test = str(meta.get("_prompt") or ""), str(meta.get("_test") or meta.get("test") or "")
    code = extract_code(sample.response, entry)
    call = f"\ncheck({entry})\n" if re.search(r"^def check\(", test, re.M) else "\n"
    program = assemble(prompt, code, entry) if code.strip() else ""
    return program, Tests(f"{test}\n{call}", entry, prompt), code


@versioned("3", inline=False)
async def code_sandbox(sample: ScorerInput, timeout: float = 30.0) -> Score:
    """Does the code pass its tests in the sample's sandbox? ``_prompt``, ``_test``, ``_entry_point`` are metadata."""
    return await code_sandbox_async(sample, sample.sandbox, timeout)


@versioned("3", inline=False)
async def code_sandbox_async(sample: ScorerInput, sandbox: Sandbox | None, timeout: float = 30.0) -> Score:
    """The same in a given sandbox; raises SandboxError when there is none, for then nothing was measured."""
    program, tests, code = program_of(sample)
    if not code.strip():
        return found(None, False)
    return {"extracted": code[:_SHOWN], **await judge_program(program, tests, sandbox, timeout)}
