"""Rows whose program or agent tampered with its own judging: their number, and the score that counts them as 0.

Tampered rows count as failed and are left out of the headline, which would let wrong answers escape from the mean.
Therefore the score that counts them as 0 is shown beside the headline, and too many of them make a run INVALID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_number, as_whole
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.core.wording import counted

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import TamperEntry

# The largest share of tampered rows among the judged rows; a run with more is INVALID.
MOST_TAMPERED: Final = 0.01
# Marks tampering among the reasons why a run is INVALID.
TAMPER_MARK: Final = "(tamper)"


@dataclass(frozen=True, slots=True)
class Tampering:
    """The number of tampered rows among the judged ones, and the mean reward that counts them as 0."""

    tampered: int
    judged: int
    score: float

    @property
    def share(self) -> float:
        """The share of tampered rows among the judged ones, which are the scored and the tampered rows."""
        return self.tampered / self.judged

    @property
    def too_much(self) -> bool:
        """Whether there are enough tampered rows to make the run INVALID."""
        return self.share > MOST_TAMPERED

    @property
    def words(self) -> str:
        """The note to show beside the headline."""
        limit = f", at most {MOST_TAMPERED:.0%} may" if self.too_much else ""
        rows = counted(self.judged, "row")
        return (
            f"{self.tampered:,} of {rows} ({self.share:.1%}) tampered with their own judging{limit} {TAMPER_MARK}: "
            f"with these rows as 0 the score is {self.score:.4f}"
        )

    def to_dict(self) -> TamperEntry:
        """Return the part of a bundle that records the tampering."""
        return {"rows": self.tampered, "judged": self.judged, "score": round(self.score, 6)}


def read_tampering(raw: Any) -> Tampering | None:
    """Read ``tamper`` of a bundle; None without tampered rows, or if an older bundle does not record them."""
    fields = as_dict(raw)
    tampered = as_whole(fields.get("rows"))
    judged = as_whole(fields.get("judged"))
    score = as_number(fields.get("score"))
    if not tampered or not judged or score is None:
        return None
    return Tampering(tampered=tampered, judged=max(tampered, judged), score=score)
