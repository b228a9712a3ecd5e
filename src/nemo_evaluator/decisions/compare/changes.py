"""Changes between two runs: problems that flipped, with both answers, and quantities other than the mean score."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from nemo_evaluator.core.types import JsonDict, ReportMapping
from nemo_evaluator.decisions.pairing import PairedBy, Pairing, Side, keys_of, pair
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row import category_of
from nemo_evaluator.runs.row_table import Ints, RowTable, table_of
from nemo_evaluator.runs.scores import Score

MOST_FLIPS: Final = 500
RowsByStep: TypeAlias = Mapping[tuple[int, int], JsonDict]
_SHOWN: Final = 600
# A share that moves by this much is worth a warning: it changes what the score measures.
_NOTEWORTHY: Final = 0.02
_RUNTIME: Final = ("total_tokens", "steps_per_second", "tokens_per_second")


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
    summary: JsonDict

    def to_dict(self) -> JsonDict:
        """The JSON of the report."""
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
    """Find the paired problems that flipped.

    Args:
        baseline: The baseline's rows, as columns or as a mapping from (problem, repeat) to rows.
        candidate: The candidate's rows.
        pairing: Their paired problems; None to pair them.
        correct_above: A problem is right when its mean reward is above this.
        lower_is_better: A problem is right when its mean reward is not above ``correct_above``.
        most: The report contains at most this many flips of each kind; the counts are always complete.
    """
    baseline_rows = (
        baseline if isinstance(baseline, RowTable) else table_of(list(baseline.values()))
    )
    candidate_rows = (
        candidate if isinstance(candidate, RowTable) else table_of(list(candidate.values()))
    )
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
    baseline_examples = _examples(
        baseline_rows, pairing.baseline, shown, by=pairing.by, threshold=correct_above
    )
    candidate_examples = _examples(
        candidate_rows, pairing.candidate, shown, by=pairing.by, threshold=correct_above
    )
    flips: list[Flip] = []
    for baseline_example, candidate_example in zip(
        baseline_examples, candidate_examples, strict=True
    ):
        flips.append(
            _flip(baseline_rows, candidate_rows, baseline_example, after=candidate_example)
        )
    return FlipReport(
        contingency,
        regressions=flips[: len(shown_lost)],
        improvements=flips[len(shown_lost) :],
        summary=_summary(contingency, baseline_rows, pairing, lost=lost, won=won, most=most),
    )


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
) -> JsonDict:
    """The counts of a flip report, in all and by category."""
    paired = len(pairing)
    by_category: dict[str, dict[str, int]] = {}
    for kind, flipped in (("regressions", lost), ("improvements", won)):
        category_codes = baseline.category[pairing.baseline.first[flipped]]
        codes, counts = np.unique(category_codes, return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            no_flips = {"regressions": 0, "improvements": 0}
            entry = by_category.setdefault(baseline.categories[code], no_flips)
            entry[kind] = count
    return {
        "n_paired": paired,
        "n_regressions": len(lost),
        "n_improvements": len(won),
        "n_stable_correct": contingency["both_correct"],
        "n_stable_wrong": contingency["both_wrong"],
        "regression_rate": round(len(lost) / paired, 4) if paired else 0.0,
        "improvement_rate": round(len(won) / paired, 4) if paired else 0.0,
        "category_breakdown": by_category if baseline.has_categories else None,
        "n_omitted": max(0, len(lost) - most) + max(0, len(won) - most),
    }


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


@dataclass(frozen=True, slots=True)
class Shift:
    """One quantity on both sides.

    Attributes:
        name: The name of the quantity.
        baseline: Its value for the baseline; None when no row has it.
        candidate: Its value for the candidate; None when no row has it.
        unit: "tokens", "ms", "usd" or "share"; determines how the value is printed.
    """

    name: str
    baseline: float | None
    candidate: float | None
    unit: str

    @property
    def delta(self) -> float | None:
        """Candidate minus baseline."""
        if self.baseline is None or self.candidate is None:
            return None
        return self.candidate - self.baseline

    @property
    def relative_pct(self) -> float | None:
        """The change in percent of the baseline."""
        delta = self.delta
        if delta is None or not self.baseline:
            return None
        return 100 * delta / self.baseline

    def to_dict(self) -> JsonDict:
        """The JSON of the shift."""
        return asdict(self) | {"delta": self.delta, "relative_pct": self.relative_pct}


def shifts(baseline: RowTable, candidate: RowTable) -> list[Shift]:
    """The quantities that at least one side has.

    Args:
        baseline: The baseline's rows.
        candidate: The candidate's rows.
    """
    # Rows of older formats have only the tokens of the whole exchange; then both sides are counted that way.
    whole_exchange = not (baseline.tokens.any() and candidate.tokens.any())
    baseline_quantities = _quantities(baseline, whole_exchange=whole_exchange)
    candidate_quantities = _quantities(candidate, whole_exchange=whole_exchange)
    shifts_found: list[Shift] = []
    for name, quantity in baseline_quantities.items():
        shift = Shift(name, quantity.value, candidate_quantities[name].value, unit=quantity.unit)
        if shift.baseline is not None or shift.candidate is not None:
            shifts_found.append(shift)
    return shifts_found


def shift_warnings(changes: list[Shift]) -> list[str]:
    """Warnings about shares that changed so much that the score may measure something else."""
    warnings: list[str] = []
    for shift in changes:
        if shift.unit != "share" or shift.delta is None:
            continue
        if abs(shift.delta) >= _NOTEWORTHY:
            name = shift.name.replace("_", " ")
            warnings.append(f"{name} went from {shift.baseline:.1%} to {shift.candidate:.1%}")
    return warnings


class _Quantity(NamedTuple):
    """A value of one run and its unit."""

    value: float | None
    unit: str


def _quantities(rows: RowTable, *, whole_exchange: bool) -> dict[str, _Quantity]:
    """Tokens, latency and cost per answer, and the shares of answers with a problem."""
    scored = rows.scored
    answers = int(scored.sum())
    latency = rows.latency[scored]
    median: float | None = None
    percentile_90: float | None = None
    if answers and latency.any():
        median = float(np.median(latency))
        percentile_90 = float(np.quantile(latency, 0.9))
    if whole_exchange:
        tokens_name = "tokens_per_exchange"
        tokens = rows.total[scored]
    else:
        tokens_name = "tokens_per_answer"
        tokens = rows.tokens[scored]
    return {
        tokens_name: _Quantity(_mean(tokens), "tokens"),
        "latency_p50": _Quantity(median, "ms"),
        "latency_p90": _Quantity(percentile_90, "ms"),
        "cost_per_answer": _Quantity(_mean(rows.cost[scored]), "usd"),
        "truncated": _Quantity(_share(rows.truncated & scored, answers), "share"),
        "refusals": _Quantity(_share(rows.refusal & scored, answers), "share"),
        "unparsed": _Quantity(_share(rows.unparsed & scored, answers), "share"),
        "failed": _Quantity(_share(~scored, len(rows)), "share"),
    }


def _share(flags: np.ndarray, total: int) -> float | None:
    """The share of flags that are set; None without rows."""
    return float(flags.sum()) / total if total else None


def _mean(values: np.ndarray) -> float | None:
    """The mean; None when no row has a value."""
    if len(values) and values.any():
        return float(values.mean(dtype=np.float64))
    return None


def score_deltas(left: Bundle, right: Bundle) -> dict[str, JsonDict]:
    """The change of every score that both bundles have; whether intervals overlap is None without all four bounds."""
    candidate_scores = {score.name: score for score in right.scores}
    deltas: dict[str, JsonDict] = {}
    for baseline_score in left.scores:
        candidate_score = candidate_scores.get(baseline_score.name)
        if candidate_score is None:
            continue
        baseline_value = float(baseline_score.value)
        candidate_value = float(candidate_score.value)
        deltas[baseline_score.name] = {
            "baseline": baseline_value,
            "candidate": candidate_value,
            "delta": round(candidate_value - baseline_value, 4),
            "relative_pct": round(100 * (candidate_value - baseline_value) / baseline_value, 2)
            if baseline_value
            else 0.0,
            "ci_overlap": _overlap(baseline_score, candidate_score),
        }
    return deltas


def _overlap(left: Score, right: Score) -> bool | None:
    """Whether the intervals of two scores overlap; None without all four bounds."""
    if left.ci_lower is None or left.ci_upper is None:
        return None
    if right.ci_lower is None or right.ci_upper is None:
        return None
    return left.ci_lower <= right.ci_upper and right.ci_lower <= left.ci_upper


def runtime_deltas(left: Bundle, right: Bundle) -> dict[str, JsonDict]:
    """The change of tokens and speed, as far as both bundles have them."""
    deltas: dict[str, JsonDict] = {}
    for name in _RUNTIME:
        baseline_value = getattr(left.runtime, name)
        candidate_value = getattr(right.runtime, name)
        if baseline_value is not None and candidate_value is not None:
            deltas[name] = {
                "baseline": baseline_value,
                "candidate": candidate_value,
                "delta": round(candidate_value - baseline_value, 4),
            }
    return deltas
