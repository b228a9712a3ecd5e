"""The code in a response, and the program that it makes with the stub of its problem."""

from __future__ import annotations

import re
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._text import strip_reasoning

_FENCE: Final = "```"
_LANGUAGE: Final = lazy_pattern(r"^[\w+-]*")
_PYTHON: Final = ("", "python", "py", "python3")


def extract_code(response: str, entry_point: str | None = None) -> str:
    """Extract the code from a response.

    Args:
        response: The response; its reasoning is ignored.
        entry_point: The function or class that the code should define.

    Returns:
        The last fenced Python block that defines ``entry_point``, else the last such block, else the whole text.
    """
    text = strip_reasoning(response)
    blocks = [body for language, body in _fenced(text) if language.lower() in _PYTHON]
    if not blocks:
        return text.strip("\n")
    if entry_point:
        return next((body for body in reversed(blocks) if _defines(body, entry_point)), blocks[-1])
    return blocks[-1]


def _fenced(text: str) -> list[tuple[str, str]]:
    """Find every fenced block: its language and its body.

    A block that was cut off ends with the text. Each line is searched once.
    """
    blocks: list[tuple[str, str]] = []
    fence_at = text.find(_FENCE)
    while fence_at >= 0:
        body_at = text.find("\n", fence_at) + 1
        if not body_at:
            break
        info_string = text[fence_at:body_at].lstrip("`").strip()
        body_end, search_from = _closing(text, body_at)
        blocks.append(
            (_LANGUAGE.findall(info_string)[0] if info_string else "", text[body_at:body_end])
        )
        fence_at = text.find(_FENCE, search_from)
    return blocks


def _closing(text: str, begin: int) -> tuple[int, int]:
    """Find the end of a block.

    Returns:
        Where the body ends, and where the text after its closing fence begins.
    """
    fence_at = text.find(_FENCE, begin)
    while fence_at >= 0:
        line_break = text.rfind("\n", begin - 1, fence_at)
        if not text[line_break + 1 : fence_at].strip(" \t"):
            return max(line_break, begin), fence_at + len(_FENCE)
        next_line = text.find("\n", fence_at)
        if next_line >= 0:
            fence_at = text.find(_FENCE, next_line)
        else:
            fence_at = -1
    return len(text), len(text)


def _defines(code: str, name: str) -> bool:
    """Whether code defines a function, class or variable of a name at the beginning of a line."""
    escaped_name = re.escape(name)
    definition_pattern = (
        rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{escaped_name}\b|^{escaped_name}[ \t]*="
    )
    return name in code and re.search(definition_pattern, code, re.M) is not None


def assemble(prompt: str, code: str, entry_point: str) -> str:
    """Join a stub and the code of an answer to a program.

    Args:
        prompt: The stub: imports, and the head of the function with its docstring.
        code: The whole function, or only its body.
        entry_point: The name of the function.

    Returns:
        The source of the program.
    """
    if not prompt or _defines(code, entry_point):
        return f"{prompt}\n\n{code}" if prompt else code
    lines = code.split("\n")
    first_line = next((line for line in lines if line.strip()), "")
    if first_line[:1].isspace():
        return f"{prompt.rstrip()}\n{code}"
    later_lines = (line for line in lines[lines.index(first_line) + 1 :] if line.strip())
    if next(later_lines, first_line)[:1].isspace() and all(
        line[:1].isspace() for line in later_lines
    ):
        return f"{prompt.rstrip()}\n    {code.lstrip()}"
    indented = code.replace("\n", "\n    ")
    return f"{prompt.rstrip()}\n    {indented}"
