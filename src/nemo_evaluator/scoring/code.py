"""Model-written code against its tests, in a sandbox or not at all; the tests stay out of the code's reach."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._judging import Measure, judge_program
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.types import SCORER_LOOP, Score, ScorerInput, found, versioned

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import Sandbox

_FENCE: Final = "```"
_LANGUAGE: Final = lazy_pattern(r"^[\w+-]*")
_PYTHON: Final = ("", "python", "py", "python3")
_SHOWN: Final = 500


def extract_code(response: str, entry_point: str | None = None) -> str:
    """The last fenced block of a response that defines ``entry_point``, else the last block, else all of it."""
    text = strip_reasoning(response)
    blocks = [body for language, body in _fenced(text) if language.lower() in _PYTHON]
    if not blocks:
        return text.strip("\n")
    if entry_point:
        return next((body for body in reversed(blocks) if _defines(body, entry_point)), blocks[-1])
    return blocks[-1]


def _fenced(text: str) -> list[tuple[str, str]]:
    """(language, body) of every fenced block; one that was cut off ends with the text. Each line is looked at once."""
    blocks: list[tuple[str, str]] = []
    at = text.find(_FENCE)
    while at >= 0:
        begin = text.find("\n", at) + 1
        if not begin:
            break
        word = text[at:begin].lstrip("`").strip()
        end, after = _closing(text, begin)
        blocks.append((_LANGUAGE.findall(word)[0] if word else "", text[begin:end]))
        at = text.find(_FENCE, after)
    return blocks


def _closing(text: str, begin: int) -> tuple[int, int]:
    """Where a block ends, and where the text goes on behind its fence."""
    at = text.find(_FENCE, begin)
    while at >= 0:
        line = text.rfind("\n", begin - 1, at)
        if not text[line + 1 : at].strip(" \t"):
            return max(line, begin), at + len(_FENCE)
        after = text.find("\n", at)
        at = text.find(_FENCE, after) if after >= 0 else -1
    return len(text), len(text)


@lru_cache(maxsize=256)
def _definition(name: str) -> re.Pattern[str]:
    name = re.escape(name)
    return re.compile(rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.M)


def _defines(code: str, name: str) -> bool:
    return name in code and _definition(name).search(code) is not None


def assemble(prompt: str, code: str, entry_point: str) -> str:
    """A whole program out of a stub and either a whole function or only its body."""
    if not prompt or _defines(code, entry_point):
        return f"{prompt}\n\n{code}" if prompt else code
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if first[:1].isspace():
        return f"{prompt.rstrip()}\n{code}"
    rest = (line for line in lines[lines.index(first) + 1 :] if line.strip())
    if next(rest, first)[:1].isspace() and all(line[:1].isspace() for line in rest):
        return f"{prompt.rstrip()}\n    {code.lstrip()}"
    indented = code.replace("\n", "\n    ")
    return f"{prompt.rstrip()}\n    {indented}"


def program_of(sample: ScorerInput) -> tuple[str, Measure, str]:
    """The program to run, the tests that judge it, and the code that was extracted."""
    meta = sample.metadata
    entry = str(meta.get("_entry_point") or meta.get("entry_point") or "solution")
    prompt, test = str(meta.get("_prompt") or ""), str(meta.get("_test") or meta.get("test") or "")
    code = extract_code(sample.response, entry)
    call = f"\ncheck({entry})\n" if re.search(r"^def check\(", test, re.M) else "\n"
    program = assemble(prompt, code, entry) if code.strip() else ""
    return program, Measure(f"{test}\n{call}", entry, prompt), code


@versioned("3", inline=False)
def code_sandbox(sample: ScorerInput, timeout: float = 30.0) -> Any:
    """Does the code pass its tests in the sample's sandbox? ``_prompt``, ``_test``, ``_entry_point`` are metadata. In a
    plain function the score itself; in a coroutine, where nothing may block, something to await."""
    work = code_sandbox_async(sample, sample.sandbox, timeout)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        home = SCORER_LOOP.get(None)
        return asyncio.run_coroutine_threadsafe(work, home).result() if home is not None else asyncio.run(work)
    return work


@versioned("3", inline=False)
async def code_sandbox_async(sample: ScorerInput, sandbox: Sandbox | None, timeout: float = 30.0) -> Score:
    """The same in a given sandbox; raises SandboxError when there is none, for then nothing was measured."""
    program, tests, code = program_of(sample)
    if not code.strip():
        return found(None, False)
    return {"extracted": code[:_SHOWN], **await judge_program(program, tests, sandbox, timeout)}
