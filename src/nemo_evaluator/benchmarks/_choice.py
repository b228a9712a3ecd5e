"""What the multiple-choice benchmarks share: lettered option lines."""

from collections.abc import Sequence
from typing import Final

from nemo_evaluator.core.types import JsonDict

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def option_lines(options: Sequence[str]) -> str:
    """``A) ...`` one a line."""
    return "\n".join(f"{label}) {option}" for label, option in zip(LETTERS, options, strict=False))


def lettered(options: Sequence[str], right: int) -> JsonDict:
    """The columns of a row with options: their texts, their lines, and the letter of the right one."""
    return {"choices": options, "lines": option_lines(options), "target": LETTERS[right]}
