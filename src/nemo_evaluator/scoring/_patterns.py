"""Patterns and word lists that are too long for code: blocks of ``data/patterns.txt``, a name and its lines.

A change there is a change of SCORING_VERSION.
"""

import re
from pathlib import Path
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern


def _blocks() -> dict[str, str]:
    text = (Path(__file__).parent / "data" / "patterns.txt").read_text(encoding="utf-8")
    blocks: dict[str, str] = {}
    for block in text.split("\n\n"):
        name, _, lines = block.partition("\n")
        blocks[name] = "".join(line.strip() for line in lines.splitlines())
    return blocks


TEXTS: Final = _blocks()


def pattern(name: str) -> re.Pattern[str]:
    """A pattern, compiled when it is first used."""
    return lazy_pattern(TEXTS[name])


def words(name: str) -> tuple[str, ...]:
    """A list of words."""
    return tuple(TEXTS[name].split("|"))
