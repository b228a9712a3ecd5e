"""Problems that are right in one of two runs and wrong in the other, with both answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from nemo_evaluator.core.types import JsonDict, ReportMapping
from nemo_evaluator.decisions.pairing import PairedBy, Pairing, Side, keys_of, pair
from nemo_evaluator.runs.row import category_of
from nemo_evaluator.runs.row_table import Ints, RowTable, table_of

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import (
        FlipCounts,
        FlipDocument,
        FlipEntry,
    )

MOST_FLIPS: Final = 500
RowsByStep: TypeAlias = Mapping[tuple[int, int], JsonDict]
_SHOWN: Final = 600


@dataclass(frozen=True, slots=True)
class Flip:
    """One problem that is right in one run and wrong in the other.

    Attributes:
        problem_idx: The number of the problem in the baseline.
        repeat: The repeat whose texts are shown.
        expected_answer: The expected answer.
        baseline_reward: The problem's mean reward in the baseline.
        candidate_reward: The problem's mean reward in the candidate.
        category: The problem's category.
        baseline_response: The baseline's response; this and all other texts are shortened.
        candidate_response: The candidate's response.
        baseline_answer: The answer extracted from the baseline's response.
        candidate_answer: The answer extracted from the candidate's response.
        prompt: The baseline's prompt.
        scoring_details: The scoring details in the baseline.
        candidate_scoring_details: The scoring details in the candidate.
        candidate_problem_idx: The number of the problem in the candidate, which may differ.
        candidate_repeat: The candidate's repeat whose texts are shown.
    """

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
    candidate_problem_idx: int = 0
    candidate_repeat: int = 0

    def to_dict(self) -> FlipEntry:
        """The JSON of the problem."""
        return {
            "problem_idx": self.problem_idx,
            "repeat": self.repeat,
            "expected_answer": self.expected_answer,
            "baseline_reward": self.baseline_reward,
            "candidate_reward": self.candidate_reward,
            "category": self.category,
            "baseline_response": self.baseline_response,
            "candidate_response": self.candidate_response,
            "baseline_answer": self.baseline_answer,
            "candidate_answer": self.candidate_answer,
            "prompt": self.prompt,
            "scoring_details": self.scoring_details,
            "candidate_scoring_details": self.candidate_scoring_details,
            "candidate_problem_idx": self.candidate_problem_idx,
            "candidate_repeat": self.candidate_repeat,
        }


@dataclass(frozen=True, slots=True)
class FlipReport(ReportMapping):
    """The problems that flipped.

    Attributes:
        contingency: How many problems are right on both sides, on one, or on none.
        regressions: Problems that are right only in the baseline.
        improvements: Problems that are right only in the candidate.
        summary: The counts, in all and by category.
    """

    contingency: dict[str, int]
    regressions: list[Flip]
    improvements: list[Flip]
    summary: FlipCounts

    def to_dict(self) -> FlipDocument:
        """The JSON of the report."""
        return {
            "contingency": self.contingency,
            "regressions": [flip.to_dict() for flip in self.regressions],
            "improvements": [flip.to_dict() for flip in self.improvements],
            "summary": self.summary,
        }


def build_flip_report(
    baseline: RowTable | RowsByStep,
    candidate: RowTable | RowsByStep,
    pairing: Pairing | None = None,
    *,
    correct_above: float = 0.0,
    lower_is_better: bool = False,
    most: int = MOST_FLIPS,
) -> FlipReport:
    """Find the paired problems that flipped.

    Args:
        baseline: The baseline's rows, as columns or as a mapping from (problem, repeat) to rows.
        candidate: The candidate's rows.
        pairing: Their paired problems; None to pair them.
        correct_above: A problem is right when its mean reward is above this.
        lower_is_better: A problem is right when its mean reward is not above ``correct_above``.
        most: The report contains at most this many flips of each kind; the counts are always complete.
    """
    baseline_rows = _as_table(baseline)
    candidate_rows = _as_table(candidate)
    pairing = pairing or pair(baseline_rows, candidate_rows)
    right_before = (pairing.baseline.rewards > correct_above) != lower_is_better
    right_after = (pairing.candidate.rewards > correct_above) != lower_is_better
    lost = np.flatnonzero(right_before & ~right_after)
    won = np.flatnonzero(~right_before & right_after)
    contingency = {
        "both_correct": int((right_before & right_after).sum()),
        "baseline_only_correct": len(lost),
        "candidate_only_correct": len(won),
        "both_wrong": int((~right_before & ~right_after).sum()),
    }
    shown_lost = _in_problem_order(lost, baseline_rows, pairing)[:most]
    shown_won = _in_problem_order(won, baseline_rows, pairing)[:most]
    shown = np.r_[shown_lost, shown_won]
    flips = _flips(baseline_rows, candidate_rows, pairing, shown=shown, threshold=correct_above)
    return FlipReport(
        contingency,
        regressions=flips[: len(shown_lost)],
        improvements=flips[len(shown_lost) :],
        summary=_summary(contingency, baseline_rows, pairing, lost=lost, won=won, most=most),
    )


def _as_table(rows: RowTable | RowsByStep) -> RowTable:
    """Rows as columns."""
    if isinstance(rows, RowTable):
        return rows
    return table_of(list(rows.values()))


def _in_problem_order(paired: Ints, rows: RowTable, pairing: Pairing) -> Ints:
    """Positions of paired problems, sorted by the problem's number in the baseline."""
    numbers = rows.problem[pairing.baseline.first[paired]]
    return paired[np.argsort(numbers, kind="stable")]


def _summary(
    contingency: dict[str, int],
    baseline: RowTable,
    pairing: Pairing,
    lost: Ints,
    won: Ints,
    most: int,
) -> FlipCounts:
    """The counts of a flip report, in all and by category."""
    by_category: dict[str, dict[str, int]] = {}
    for kind, flipped in (("regressions", lost), ("improvements", won)):
        category_codes = baseline.category[pairing.baseline.first[flipped]]
        codes, counts = np.unique(category_codes, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            no_flips = {"regressions": 0, "improvements": 0}
            entry = by_category.setdefault(baseline.categories[code], no_flips)
            entry[kind] = count
    paired = len(pairing)
    return {
        "n_paired": paired,
        "n_regressions": len(lost),
        "n_improvements": len(won),
        "n_stable_correct": contingency["both_correct"],
        "n_stable_wrong": contingency["both_wrong"],
        "regression_rate": _rate(len(lost), paired),
        "improvement_rate": _rate(len(won), paired),
        "category_breakdown": by_category if baseline.has_categories else None,
        "n_omitted": max(0, len(lost) - most) + max(0, len(won) - most),
    }


def _rate(flips: int, paired: int) -> float:
    """The share of the paired problems; 0 without any."""
    return round(flips / paired, 4) if paired else 0.0


class _FlipExample(NamedTuple):
    """The row that represents a problem on one side, and the problem's mean reward there."""

    row: int
    mean: float


def _examples(
    rows: RowTable, side: Side, flipped: Ints, by: PairedBy, threshold: float
) -> list[_FlipExample]:
    """For each flipped problem, its first row whose reward is on the same side of the threshold as the mean."""
    if not len(flipped):
        return []
    keys = keys_of(rows, by)
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    begins = np.searchsorted(sorted_keys, side.keys[flipped], "left")
    ends = np.searchsorted(sorted_keys, side.keys[flipped], "right")
    examples: list[_FlipExample] = []
    for position, begin, end in zip(flipped.tolist(), begins.tolist(), ends.tolist(), strict=True):
        problem_rows = order[begin:end]
        mean = float(side.rewards[position])
        above = rows.reward[problem_rows] > threshold
        not_above = rows.reward[problem_rows] <= threshold
        fitting = problem_rows[above if mean > threshold else not_above]
        first_row = fitting[0] if len(fitting) else problem_rows[0]
        examples.append(_FlipExample(int(first_row), mean))
    return examples


def _flips(
    baseline: RowTable, candidate: RowTable, pairing: Pairing, *, shown: Ints, threshold: float
) -> list[Flip]:
    """Read the flipped problems at these positions among the paired ones.

    Args:
        baseline: The baseline's rows.
        candidate: The candidate's rows.
        pairing: Their paired problems.
        shown: The positions.
        threshold: A problem is right or wrong when its mean reward is above this.
    """
    baseline_examples = _examples(
        baseline, pairing.baseline, shown, by=pairing.by, threshold=threshold
    )
    candidate_examples = _examples(
        candidate, pairing.candidate, shown, by=pairing.by, threshold=threshold
    )
    flips: list[Flip] = []
    for before, after in zip(baseline_examples, candidate_examples, strict=True):
        flips.append(_flip(baseline, candidate, before, after=after))
    return flips


def _flip(
    baseline: RowTable, candidate: RowTable, before: _FlipExample, *, after: _FlipExample
) -> Flip:
    """Read the texts of a flipped problem from both runs."""
    baseline_row = baseline.full(before.row)
    candidate_row = candidate.full(after.row)
    return Flip(
        problem_idx=int(baseline.problem[before.row]),
        repeat=int(baseline.repeat[before.row]),
        expected_answer=_text(baseline_row.get("expected_answer")) or "",
        baseline_reward=round(before.mean, 6),
        candidate_reward=round(after.mean, 6),
        category=category_of(baseline_row),
        baseline_response=_text(baseline_row.get("model_response")) or "",
        candidate_response=_text(candidate_row.get("model_response")) or "",
        baseline_answer=_text(baseline_row.get("extracted_answer")),
        candidate_answer=_text(candidate_row.get("extracted_answer")),
        prompt=_text(baseline_row.get("prompt")) or "",
        scoring_details=baseline_row.get("scoring_details") or {},
        candidate_scoring_details=candidate_row.get("scoring_details") or {},
        candidate_problem_idx=int(candidate.problem[after.row]),
        candidate_repeat=int(candidate.repeat[after.row]),
    )


def _text(value: Any) -> str | None:
    """The value as text; a long text keeps its beginning and its end, where the result is."""
    if value is None:
        return None
    text = str(value)
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN // 2]} … {text[3 - _SHOWN // 2 :]}"
