"""Problems that changed sides: right before and wrong now, or the other way round, with both answers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from nemo_evaluator.core.types import Document, JsonDict
from nemo_evaluator.decisions.pairing import Pairing, pair
from nemo_evaluator.runs.row import category_of
from nemo_evaluator.runs.row_table import Ints, RowTable, table_of

MOST_FLIPS: Final = 500
RowsByStep: TypeAlias = Mapping[tuple[int, int], JsonDict]
_SHOWN: Final = 600


@dataclass(frozen=True, slots=True)
class Flip:
    """One problem that changed sides."""

    problem_idx: int
    repeat: int
    expected_answer: str
    baseline_reward: float
    candidate_reward: float
    category: str | None
    baseline_response: str
    candidate_response: str
    baseline_answer: str | None
    candidate_answer: str | None
    prompt: str
    scoring_details: JsonDict
    candidate_scoring_details: JsonDict
    # Where the candidate's answer is: the same problem may have another number there.
    candidate_problem_idx: int = 0
    candidate_repeat: int = 0


@dataclass(frozen=True, slots=True)
class FlipReport(Document):
    """The four-field table, the flips, and their count by category."""

    contingency: dict[str, int]
    regressions: list[Flip]
    improvements: list[Flip]
    summary: JsonDict

    def to_dict(self) -> JsonDict:
        """The report as JSON."""
        return asdict(self)


def build_flip_report(
    baseline: RowTable | RowsByStep,
    candidate: RowTable | RowsByStep,
    pairing: Pairing | None = None,
    *,
    correct_above: float = 0.0,
    lower_is_better: bool = False,
    most: int = MOST_FLIPS,
) -> FlipReport:
    """Flips among paired problems; a problem is right when its mean reward is above ``correct_above``, or not above it
    where lower is better. Sides may be columns, or mappings from ``(problem_idx, repeat)`` to result rows.

    Texts are read for the first ``most`` flips of each kind; the counts are always complete.
    """
    baseline, candidate = (
        side if isinstance(side, RowTable) else table_of(list(side.values())) for side in (baseline, candidate)
    )
    pairing = pairing or pair(baseline, candidate)
    before = (pairing.baseline.rewards > correct_above) != lower_is_better
    after = (pairing.candidate.rewards > correct_above) != lower_is_better
    lost, won = np.flatnonzero(before & ~after), np.flatnonzero(~before & after)
    contingency = {
        "both_correct": int((before & after).sum()),
        "baseline_only_correct": len(lost),
        "candidate_only_correct": len(won),
        "both_wrong": int((~before & ~after).sum()),
    }
    reader = _Texts(baseline, candidate, pairing, correct_above)
    return FlipReport(
        contingency,
        [reader.flip(at) for at in _by_index(lost, baseline, pairing)[:most]],
        [reader.flip(at) for at in _by_index(won, baseline, pairing)[:most]],
        _summary(contingency, baseline, pairing, lost, won, most),
    )


def _by_index(at: Ints, baseline: RowTable, pairing: Pairing) -> list[int]:
    order = np.argsort(baseline.problem[pairing.baseline.first[at]], kind="stable")
    return [int(i) for i in at[order]]


def _summary(
    contingency: dict[str, int], baseline: RowTable, pairing: Pairing, lost: Ints, won: Ints, most: int
) -> JsonDict:
    n = len(pairing)
    table: dict[str, dict[str, int]] = {}
    for kind, at in (("regressions", lost), ("improvements", won)):
        codes, counts = np.unique(baseline.category[pairing.baseline.first[at]], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            entry = table.setdefault(baseline.categories[code], {"regressions": 0, "improvements": 0})
            entry[kind] = count
    return {
        "n_paired": n,
        "n_regressions": len(lost),
        "n_improvements": len(won),
        "n_stable_correct": contingency["both_correct"],
        "n_stable_wrong": contingency["both_wrong"],
        "regression_rate": round(len(lost) / n, 4) if n else 0.0,
        "improvement_rate": round(len(won) / n, 4) if n else 0.0,
        "category_breakdown": table if baseline.has_categories else None,
        "n_omitted": max(0, len(lost) - most) + max(0, len(won) - most),
    }


class _Texts:
    """Finds, for a problem that flipped, the answers that show it: one that was right, one that was wrong."""

    def __init__(self, baseline: RowTable, candidate: RowTable, pairing: Pairing, threshold: float) -> None:
        self._rows = (baseline, candidate)
        self._pairing = pairing
        self._threshold = threshold
        self._order = [_Order(rows, pairing.by) for rows in self._rows]

    def flip(self, at: int) -> Flip:
        sides = (self._pairing.baseline, self._pairing.candidate)
        rewards = [float(side.rewards[at]) for side in sides]
        above = [reward > self._threshold for reward in rewards]
        found = [
            order.showing(side.keys[at], self._threshold, want)
            for order, side, want in zip(self._order, sides, above, strict=True)
        ]
        before, after = (rows.full(index) for rows, index in zip(self._rows, found, strict=True))
        return Flip(
            problem_idx=int(self._rows[0].problem[found[0]]),
            repeat=int(self._rows[0].repeat[found[0]]),
            expected_answer=_text(before.get("expected_answer")),
            baseline_reward=round(rewards[0], 6),
            candidate_reward=round(rewards[1], 6),
            category=category_of(before),
            baseline_response=_text(before.get("model_response")),
            candidate_response=_text(after.get("model_response")),
            baseline_answer=_short(before.get("extracted_answer")),
            candidate_answer=_short(after.get("extracted_answer")),
            prompt=_text(before.get("prompt")),
            scoring_details=before.get("scoring_details") or {},
            candidate_scoring_details=after.get("scoring_details") or {},
            candidate_problem_idx=int(self._rows[1].problem[found[1]]),
            candidate_repeat=int(self._rows[1].repeat[found[1]]),
        )


class _Order:
    """Rows of one side in the order of their keys, sorted once and only when a flip is looked up."""

    def __init__(self, rows: RowTable, by: str) -> None:
        self._rows, self._by = rows, by
        self._keys: Any = None
        self._order: Any = None

    def showing(self, key: Any, threshold: float, above: bool) -> int:
        if self._keys is None:
            keys = self._rows.content.view(np.int64) if self._by == "content" else self._rows.problem
            self._order = np.argsort(keys, kind="stable")
            self._keys = keys[self._order]
        low, high = np.searchsorted(self._keys, key, "left"), np.searchsorted(self._keys, key, "right")
        rows = self._order[low:high]
        reward = self._rows.reward[rows]
        fitting = rows[reward > threshold if above else reward <= threshold]
        return int(fitting[0]) if len(fitting) else int(rows[0])


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else ("" if value is None else str(value))
    # How an answer begins and how it ends: what it comes to is said last.
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[3 - _SHOWN // 2 :]}"


def _short(value: Any) -> str | None:
    return None if value is None else _text(value)
