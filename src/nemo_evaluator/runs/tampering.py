"""Rows whose program or agent tampered with its own judging: how many, and what the score is with them as 0.

Such rows failed, so the headline leaves them out. Left out, they would be a way out of the mean for whoever would have
been wrong: the score with these rows as 0 stands beside the headline, and too many of them make a run INVALID.
"""

from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.core.wording import counted

# The share of tampered rows among all rows that were judged, above which a run is INVALID.
MOST_TAMPERED: Final = 0.01
# By this, a reason why a run is INVALID can be told from others.
TAMPER_MARK: Final = "(tamper)"


@dataclass(frozen=True, slots=True)
class Tampering:
    """How many of the judged rows are tampered, and the mean reward with those as 0."""

    tampered: int
    judged: int
    score: float

    @property
    def share(self) -> float:
        """Tampered rows as a share of the judged ones, which are the scored and the tampered rows."""
        return self.tampered / self.judged

    @property
    def too_much(self) -> bool:
        """Whether the run is INVALID for it."""
        return self.share > MOST_TAMPERED

    @property
    def words(self) -> str:
        """What stands beside the headline."""
        limit = f", at most {MOST_TAMPERED:.0%} may" if self.too_much else ""
        rows = counted(self.judged, "row")
        return (
            f"{self.tampered:,} of {rows} ({self.share:.1%}) tampered with their own judging{limit} {TAMPER_MARK}: "
            f"with these rows as 0 the score is {self.score:.4f}"
        )

    def to_dict(self) -> JsonDict:
        """The part of a bundle."""
        return {"rows": self.tampered, "judged": self.judged, "score": round(self.score, 6)}


def read_tampering(raw: Any) -> Tampering | None:
    """``tamper`` of a bundle; None where nothing was tampered with, or an older bundle does not say."""
    fields = as_dict(raw)
    tampered = as_whole(fields.get("rows"))
    judged = as_whole(fields.get("judged"))
    score = as_number(fields.get("score"))
    if not tampered or not judged or score is None:
        return None
    return Tampering(tampered=tampered, judged=max(tampered, judged), score=score)
