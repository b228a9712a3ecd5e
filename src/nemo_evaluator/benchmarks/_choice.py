"""What the multiple-choice benchmarks share: lettered option lines and the instruction above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def option_lines(options: Sequence[str], labels: Sequence[str] = LETTERS) -> str:
    """``A) ...`` one a line."""
    return "\n".join(f"{label}) {option}" for label, option in zip(labels, options, strict=False))


def instruction(letters: str, subject: str = "multiple choice question") -> str:
    """The instruction above a question whose options carry these letters."""
    return (
        f"Answer the following {subject}. The last line of your response should be of the following format: "
        f"'Answer: $LETTER' (without quotes) where LETTER is one of {letters}. Think step by step before answering."
    )
