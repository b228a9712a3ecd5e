"""What changed: problems that changed sides, with both answers, and what moved besides the mean score."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from nemo_evaluator.core.types import JsonDict, ReportMapping
from nemo_evaluator.decisions.pairing import PairedBy, Pairing, Side, keys_of, pair
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row import category_of
from nemo_evaluator.runs.row_table import Ints, RowTable, table_of

MOST_FLIPS: Final = 500
RowsByStep: TypeAlias = Mapping[tuple[int, int], JsonDict]
_SHOWN: Final = 600
# A share that moves by this much is worth a warning: it changes what the score measures.
_NOTEWORTHY: Final = 0.02
_RUNTIME: Final = ("total_tokens", "steps_per_second", "tokens_per_second")


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
class FlipReport(ReportMapping):
    """The four-field table, the flips, and their count by category."""

    contingency: dict[str, int]
    regressions: list[Flip]
    improvements: list[Flip]
    summary: JsonDict

    def to_dict(self) -> JsonDict:
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
    where lower is better. Sides may be columns, or mappings from ``(problem_idx, repeat)`` to result rows. Texts are
    read for the first ``most`` flips of each kind; the counts are always complete."""
    baseline, candidate = (
        side if isinstance(side, RowTable) else table_of(list(side.values()))
        for side in (baseline, candidate)
    )
    pairing = pairing or pair(baseline, candidate)
    before = (pairing.baseline.rewards > correct_above) != lower_is_better
    after = (pairing.candidate.rewards > correct_above) != lower_is_better
    lost = np.flatnonzero(before & ~after)
    won = np.flatnonzero(~before & after)
    contingency = {
        "both_correct": int((before & after).sum()),
        "baseline_only_correct": len(lost),
        "candidate_only_correct": len(won),
        "both_wrong": int((~before & ~after).sum()),
    }
    flips = [
        at[np.argsort(baseline.problem[pairing.baseline.first[at]], kind="stable")][:most]
        for at in (lost, won)
    ]
    showing: list[list[tuple[int, float]]] = []
    for rows, side in zip((baseline, candidate), pairing.sides, strict=True):
        showing.append(
            _showing(rows, side, np.r_[flips[0], flips[1]], by=pairing.by, threshold=correct_above)
        )
    found = [_flip(baseline, candidate, *shown) for shown in zip(*showing, strict=True)]
    summary = _summary(contingency, baseline, pairing, lost=lost, won=won, most=most)
    return FlipReport(contingency, found[: len(flips[0])], found[len(flips[0]) :], summary=summary)


def _summary(
    contingency: dict[str, int],
    baseline: RowTable,
    pairing: Pairing,
    lost: Ints,
    won: Ints,
    most: int,
) -> JsonDict:
    n = len(pairing)
    table: dict[str, dict[str, int]] = {}
    for kind, at in (("regressions", lost), ("improvements", won)):
        codes, counts = np.unique(baseline.category[pairing.baseline.first[at]], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            entry = table.setdefault(
                baseline.categories[code], {"regressions": 0, "improvements": 0}
            )
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


def _showing(
    rows: RowTable, side: Side, flipped: Ints, by: PairedBy, threshold: float
) -> list[tuple[int, float]]:
    """The rows that show what became of problems, each the first whose reward is on the side of the mean; the means."""
    keys = keys_of(rows, by)
    if len(flipped):
        order = np.argsort(keys, kind="stable")
    else:
        order = np.zeros(0, np.int64)
    begins, ends = (
        np.searchsorted(keys[order], side.keys[flipped], end) for end in ("left", "right")
    )
    shown = []
    for at, begin, end in zip(flipped.tolist(), begins.tolist(), ends.tolist(), strict=True):
        mine = order[begin:end]
        mean = float(side.rewards[at])
        reward = rows.reward[mine]
        fitting = mine[reward > threshold if mean > threshold else reward <= threshold]
        shown.append((int(fitting[0] if len(fitting) else mine[0]), mean))
    return shown


def _flip(
    baseline: RowTable, candidate: RowTable, one: tuple[int, float], two: tuple[int, float]
) -> Flip:
    (left, reward), (right, other) = one, two
    before = baseline.full(left)
    after = candidate.full(right)
    return Flip(
        problem_idx=int(baseline.problem[left]),
        repeat=int(baseline.repeat[left]),
        expected_answer=_text(before.get("expected_answer")) or "",
        baseline_reward=round(reward, 6),
        candidate_reward=round(other, 6),
        category=category_of(before),
        baseline_response=_text(before.get("model_response")) or "",
        candidate_response=_text(after.get("model_response")) or "",
        baseline_answer=_text(before.get("extracted_answer")),
        candidate_answer=_text(after.get("extracted_answer")),
        prompt=_text(before.get("prompt")) or "",
        scoring_details=before.get("scoring_details") or {},
        candidate_scoring_details=after.get("scoring_details") or {},
        candidate_problem_idx=int(candidate.problem[right]),
        candidate_repeat=int(candidate.repeat[right]),
    )


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value)
    # How an answer begins and how it ends: what it comes to is said last.
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN // 2]} … {text[3 - _SHOWN // 2 :]}"


@dataclass(frozen=True, slots=True)
class Shift:
    """One quantity on both sides; ``unit`` is how to print it."""

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
        delta = self.delta
        if delta is None or not self.baseline:
            return None
        return 100 * delta / self.baseline

    def to_dict(self) -> JsonDict:
        return asdict(self) | {"delta": self.delta, "relative_pct": self.relative_pct}


def shifts(baseline: RowTable, candidate: RowTable) -> list[Shift]:
    """All quantities that both sides know."""
    # Rows of older formats know the tokens of the whole exchange only; then both sides are counted that way.
    whole = not (baseline.tokens.any() and candidate.tokens.any())
    left = _facts(baseline, whole)
    right = _facts(candidate, whole)
    found = [Shift(name, value, right[name][0], unit=unit) for name, (value, unit) in left.items()]
    return [shift for shift in found if (shift.baseline, shift.candidate) != (None, None)]


def shift_warnings(found: list[Shift]) -> list[str]:
    """Shares that moved so much that the score may mean something else."""
    results: list[str] = []
    for shift in found:
        if shift.unit == "share" and shift.delta is not None and abs(shift.delta) >= _NOTEWORTHY:
            results.append(
                f"{shift.name.replace('_', ' ')} went from {shift.baseline:.1%} to {shift.candidate:.1%}"
            )
    return results


def _facts(rows: RowTable, whole: bool) -> dict[str, tuple[float | None, str]]:
    n = len(rows)
    scored = rows.scored
    done = int(scored.sum())
    tokens = (rows.total if whole else rows.tokens)[scored]
    latency = rows.latency[scored]
    cost = rows.cost[scored]

    def share(flags: np.ndarray, of: int) -> float | None:
        if of:
            return float(flags.sum()) / of
        return None

    return {
        "tokens_per_exchange" if whole else "tokens_per_answer": (_mean(tokens), "tokens"),
        "latency_p50": (float(np.median(latency)) if done and latency.any() else None, "ms"),
        "latency_p90": (float(np.quantile(latency, 0.9)) if done and latency.any() else None, "ms"),
        "cost_per_answer": (_mean(cost), "usd"),
        "truncated": (share(rows.truncated & scored, done), "share"),
        "refusals": (share(rows.refusal & scored, done), "share"),
        "unparsed": (share(rows.unparsed & scored, done), "share"),
        "failed": (share(~scored, n), "share"),
    }


def _mean(values: np.ndarray) -> float | None:
    if len(values) and values.any():
        return float(values.mean(dtype=np.float64))
    return None


def score_deltas(left: Bundle, right: Bundle) -> dict[str, JsonDict]:
    """Every metric that both bundles have; whether its intervals touch is unknown without all four bounds."""
    theirs = {score.name: score for score in right.scores}
    found = {}
    for one in left.scores:
        two = theirs.get(one.name)
        if two is None:
            continue
        before = float(one.value)
        after = float(two.value)
        ends = (one.ci_lower, one.ci_upper, two.ci_lower, two.ci_upper)
        known = [end for end in ends if end is not None]
        found[one.name] = {
            "baseline": before,
            "candidate": after,
            "delta": round(after - before, 4),
            "relative_pct": round(100 * (after - before) / before, 2) if before else 0.0,
            "ci_overlap": known[0] <= known[3] and known[2] <= known[1]
            if len(known) == 4
            else None,
        }
    return found


def runtime_deltas(left: Bundle, right: Bundle) -> dict[str, JsonDict]:
    pairs = {name: (getattr(left.runtime, name), getattr(right.runtime, name)) for name in _RUNTIME}
    mapping: dict[str, dict[str, Any]] = {}
    for name, (one, two) in pairs.items():
        if one is not None and two is not None:
            mapping[name] = {"baseline": one, "candidate": two, "delta": round(two - one, 4)}
    return mapping
