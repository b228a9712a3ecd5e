"""Separates reasoning from the answer, wherever a server or a model puts it."""

import re
from typing import Final

from nemo_evaluator.core.types import JsonDict

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


def split_think(content: str, start: str = _OPEN, end: str = _CLOSE) -> tuple[str, str | None]:
    """Content without its leading reasoning block, and the block.

    A block that is only closed (the prompt contained its opening) counts; one that is never closed does not.
    """
    close = content.find(end)
    if close < 0:
        return content, None
    head = content[:close].lstrip()
    if head.startswith(start):
        head = head[len(start) :]
    elif start in head:
        return content, None
    return content[close + len(end) :].lstrip(), head.strip()


def split_message(message: JsonDict) -> tuple[str, str | None]:
    """The content of a chat message, and its reasoning."""
    content: str = message.get("content") or ""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning:
        return content, reasoning
    if _CLOSE in content:
        return split_think(content)
    return content, None


def cut_pattern(pattern: re.Pattern[str], content: str) -> tuple[str, str | None]:
    """Content without the matches of ``pattern``, and the matches."""
    removed_parts = [match.group(0) for match in pattern.finditer(content)]
    if removed_parts:
        return (pattern.sub("", content).strip(), "\n".join(removed_parts))
    return (content.strip(), None)
