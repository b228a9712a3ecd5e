"""Watches the first scored rows of a run: if none is right for the same reason, the scorer may be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.values import dataclass

if TYPE_CHECKING:
    from nemo_evaluator.core.types import SeedResult, VerifyResult

# The number of rows to watch.
WATCHED: Final = 20
_SHOWN: Final = 40


@dataclass(slots=True)
class ZeroWatch:
    """Counts the first scored rows, as long as each has reward 0 and the same extraction outcome.

    Attributes:
        rows: The number of rows so far.
        extracted: Whether an answer was extracted from them; None before the first.
        ended: Whether a row had another outcome, or the warning was given.
    """

    rows: int = 0
    extracted: bool | None = None
    ended: bool = False

    def add(self, verdict: VerifyResult, seed: SeedResult) -> str | None:
        """Count a scored row.

        Args:
            verdict: Its verdict.
            seed: Its problem.

        Returns:
            The warning, once the last watched row is like the others; otherwise None.
        """
        if self.ended:
            return None
        is_unparsed = bool(verdict.scoring_details.get("unparsed"))
        extracted = bool(verdict.extracted_answer) and not is_unparsed
        if verdict.reward != 0 or self.extracted not in (None, extracted):
            self.ended = True
            return None
        self.extracted = extracted
        self.rows += 1
        if self.rows < WATCHED:
            return None
        self.ended = True
        if not extracted:
            return f"0 of {WATCHED} right, nothing extracted: is the scorer right?"
        example = f"{_quoted(verdict.extracted_answer)} was extracted"
        if seed.expected_answer:
            example = f"{example}, {_quoted(seed.expected_answer)} is expected"
        return f"0 of {WATCHED} right, although an answer was extracted from each ({example}): is the scorer right?"


def _quoted(text: object) -> str:
    """Return the beginning of a text in quotes, without control characters."""
    line = harmless(" ".join(str(text).split()))
    if len(line) > _SHOWN:
        line = f"{line[:_SHOWN]}…"
    return f"{line!r}"
