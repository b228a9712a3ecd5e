"""``nel judge calibrate``: what labels say of each judge of a run, and the score that they correct."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.json_coerce import as_dict, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import HEADLINE, JudgedRows, read_judged
from nemo_evaluator.runs.bundle import Bundle, calibrated
from nemo_evaluator.runs.calibration import LabelDraw, measured_by, read_draw
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.statistics import Difference, Interval, Spending, score, unpaired_difference
from nemo_evaluator.statistics.groups import Floats
from nemo_evaluator.statistics.judge_agreement import Agreement, agreement
from nemo_evaluator.statistics.ppi import (
    Corrected,
    Labelled,
    corrected_difference,
    corrected_mean,
    rogan_gladen,
)
from nemo_evaluator.store.sums import update_sums

LEAST = 10
_ASSUMPTION = "it assumes that the judge errs on this run as often as it did there"


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """One judge against the labels."""

    judge: str
    raw: float
    corrected: Corrected
    agreement: Agreement

    def to_dict(self) -> JsonDict:
        rates: dict[str, dict[str, Any]] = {}
        for name in ("sensitivity", "specificity"):
            rates[name] = score(getattr(self.agreement, name))
        return {
            "judge": self.judge,
            "raw": self.raw,
            "corrected": score(self.corrected.interval),
            "labels_alone": score(self.corrected.alone),
            "trust": round(self.corrected.trust, 6),
            "agreement": asdict(self.agreement) | rates,
        }


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The calibration of one run. ``carried`` names the run whose labels were used instead of its own."""

    run: Bundle
    rows: int
    labels: int
    corrected: Interval
    judges: list[JudgeReport]
    method: str
    convenience: bool = False
    carried: str = ""
    length_bias: Interval | None = None
    position_bias: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """The sentence that stands wherever the corrected score is shown."""
        if self.carried:
            return f"the corrected score is carried from the labels of {self.carried} (Rogan-Gladen): {_ASSUMPTION}"
        basis = (
            f"the corrected score rests on {counted(self.labels, 'label')} of {self.rows:,} rows"
        )
        doubt = "; the labelled rows were not drawn by chance, so its interval proves nothing"
        return basis + (doubt if self.convenience else "")

    def to_dict(self) -> JsonDict:
        """What the bundle keeps of it."""
        return {
            "version": 1,
            "benchmark": self.run.name,
            "model": self.run.model,
            "measured_by": measured_by(self.run.config, self.run.coverage.scored),
            "corrected": score(self.corrected),
            "labels": self.labels,
            "rows": self.rows,
            "draw": self.method,
            "convenience": self.convenience,
            "carried_from": self.carried or None,
            "judges": [judge.to_dict() for judge in self.judges],
            "length_bias": None if self.length_bias is None else score(self.length_bias),
            "position_bias": self.position_bias,
            "note": self.note,
            "notes": self.notes,
        }

    def save(self) -> None:
        write_json(self.run.path, calibrated(self.run, self.to_dict()).document)
        update_sums(self.run.path.parent, [self.run.path])


def calibrate(
    run: Bundle,
    labels: dict[tuple[int, int], Label],
    draw: LabelDraw | None,
    *,
    convenience: bool = False,
) -> CalibrationReport:
    """Set the judges of a run against its labels. Raises UsageError when the labels do not allow it."""
    rows = read_judged(run)
    given = labels
    used = None if convenience else draw
    labels = drawn_only(labels, used)
    check_draw(rows, labels, draw, convenience=convenience)
    data = rows.labelled(labels, used)
    if data.labels < LEAST:
        few = f"{run.name}: {counted(data.labels, 'label')} on scored rows, at least {LEAST} are needed"
        raise UsageError(few, hint="nel judge label RUN goes on with the drawn rows")
    mine = rows.column(HEADLINE)
    judges = []
    # The headline, and every judge whose rewards are not the same.
    others: list[str] = []
    for n in rows.rewards:
        if n != HEADLINE and not np.array_equal(rows.column(n), mine, equal_nan=True):
            others.append(n)
    for name in [HEADLINE, *sorted(others)]:
        said = rows.labelled(labels, used, name)
        judges.append(
            JudgeReport(
                name, float(said.judge.mean()), corrected_mean(said), agreement=agreement(said)
            )
        )
    position = np.array(rows.position)
    notes = []
    if used is not None and (left := sum(row.key not in labels for row in used.rows)):
        notes.append(
            f"{counted(left, 'drawn row')} without a label: if those are the hard ones, the score is biased"
        )
    stray = len(given) - len(labels)
    if stray:
        notes.append(f"{counted(stray, 'label')} on rows that were not drawn, left out")
    unsure = sum(label.value is None for label in labels.values())
    if unsure:
        notes.append(f"{counted(unsure, 'label')} unsure, left out")
    return CalibrationReport(
        run=run,
        rows=len(data.judge),
        labels=data.labels,
        corrected=judges[0].corrected.interval,
        judges=judges,
        method=used.method if used is not None else "none",
        convenience=convenience,
        length_bias=_length_bias(data, np.array(rows.length)[~np.isnan(mine)]),
        position_bias=float(np.nanmean(position)) if not np.isnan(position).all() else None,
        notes=notes,
    )


def drawn_only(
    labels: dict[tuple[int, int], Label], draw: LabelDraw | None
) -> dict[tuple[int, int], Label]:
    """The labels that count: those of drawn rows, where rows were drawn. A look at further rows does no harm."""
    if draw is not None:
        drawn: set[tuple[int, int]] = {row.key for row in draw.rows}
    else:
        drawn = set(labels)
    return {key: label for key, label in labels.items() if key in drawn}


def check_draw(
    rows: JudgedRows,
    labels: dict[tuple[int, int], Label],
    draw: LabelDraw | None,
    *,
    convenience: bool,
) -> None:
    """Refuse labels that were not drawn, and a draw from other answers. Raises UsageError."""
    if draw is not None:
        drawn: dict[tuple[int, int], str] = {row.key: row.answer for row in draw.rows}
    else:
        drawn = {}
    stray = [key for key in labels if key not in drawn]
    if stray and not convenience:
        raise UsageError(
            f"{counted(len(stray), 'label')} on rows that were not drawn, such as problem {stray[0][0]}: people who "
            "choose what they label choose the score",
            hint="draw rows with `nel judge sample RUN`, or accept the bias with --convenience, which marks the result",
        )
    answers = dict(zip(rows.keys, rows.answers, strict=True))
    changed: list[tuple[int, int]] = []
    for key in labels:
        if key in drawn and key in answers and answers[key] != drawn[key]:
            changed.append(key)
    if changed:
        stale = f"the calibration is stale: {counted(len(changed), 'answer')} changed since the rows were drawn"
        raise UsageError(stale, hint="draw and label again: nel judge sample RUN --replace")


def carry(run: Bundle, source: Bundle) -> CalibrationReport:
    """Correct a run by another run's calibration. Raises UsageError when that is missing, stale or of another judge."""
    found = source.calibration
    if found is None or found.stale:
        why = f"stale: {found.stale}" if found is not None else "missing"
        raise UsageError(
            f"the calibration of {source.path.parent} is {why}",
            hint="nel judge calibrate on that run",
        )
    mine, theirs = (as_dict(one.config.get("fingerprints")).get("scorer") for one in (run, source))
    if mine != theirs or found.document.get("carried_from"):
        other = "a calibration holds for the judge, prompt, rubric and extraction that it measured, and these differ"
        raise UsageError(other, hint="label rows of this run: nel judge sample RUN")
    told = as_dict(as_dict(found.document["judges"][0]).get("agreement"))
    rates = [as_dict(told.get(name)) for name in ("sensitivity", "specificity")]
    values = [(as_number(rate.get("value")), as_whole(rate.get("n")) or 0) for rate in rates]
    rewards = read_judged(run).column(HEADLINE)
    raw = float((rewards >= 0.5).mean())
    (sensitivity, right), (specificity, wrong) = values
    if sensitivity is None or specificity is None or sensitivity + specificity <= 1:
        raise UsageError(
            "that judge did no better than chance there: nothing can be carried",
            hint="label this run",
        )
    interval = rogan_gladen(
        raw, len(rewards), sensitivity, positives=right, specificity=specificity, negatives=wrong
    )
    labels = as_whole(found.document.get("labels")) or 0
    if set(np.unique(rewards)) <= {0.0, 1.0}:
        graded: list[str] = []
    else:
        graded = ["grades count as right from 0.5 on"]
    return CalibrationReport(
        run,
        len(rewards),
        labels,
        corrected=interval,
        judges=[],
        method="carried",
        carried=str(source.path.parent),
        notes=graded,
    )


def _length_bias(data: Labelled, length: Floats) -> Interval | None:
    """How much more the judge adds to long answers than to short ones, beyond what people give them."""
    known = data.known > 0
    error = (data.judge - data.human)[known]
    length = length[known]
    long = length > np.median(length)
    if 2 <= long.sum() <= len(long) - 2:
        return unpaired_difference(error[~long], error[long])
    return None


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Baseline and candidate on the problems that they share."""

    baseline: Labelled
    candidate: Labelled

    def difference(self, better: float = 1.0, share: float = 1.0) -> Difference:
        """What the candidate gained over ``share`` of the baseline; with ``better`` below 0, what it lost."""
        if better > 0:
            return corrected_difference(self.baseline, self.candidate, share=share)
        found = corrected_difference(self.candidate, self.baseline, share=1 / share)
        return replace(found, value=found.value * share, scale=found.scale * share)


def labelled_pair(
    left: Bundle, right: Bundle, spending: Spending, *, by_index: bool = False
) -> tuple[LabelledPair | None, list[str]]:
    """Both runs with their labels where both have them, and what a reader must know of it."""
    runs = left, right
    given = [read_labels(run.path.parent) if run.path.is_file() else {} for run in runs]
    if not any(given):
        return None, []
    if not all(given):
        return None, ["only one side has labels, so the comparison is of what the judge says"]
    if spending.looking:
        return None, [
            "labels are left out: no corrected interval allows for the looks of a stop rule"
        ]
    sides: list[tuple[JudgedRows, Labelled]] = []
    stray = 0
    for run, labels in zip(runs, given, strict=True):
        rows = read_judged(run)
        draw = read_draw(run.path.parent)
        used = drawn_only(labels, draw)
        stray += len(labels) - len(used)
        try:
            check_draw(rows, used, draw, convenience=False)
        except UsageError as error:
            return None, [f"labels are left out: {error.message}"]
        sides.append((rows, rows.labelled(used, draw)))
    named = [[str(key[0]) for key in rows.keys] if by_index else rows.content for rows, _ in sides]
    codes = {name: code for code, name in enumerate(sorted({*named[0]} & {*named[1]}))}
    base, other = (
        _shared(data, names, codes) for (_, data), names in zip(sides, named, strict=True)
    )
    assert base.clusters is not None and other.clusters is not None
    if min(base.labels, other.labels) < LEAST:
        return None, [
            f"labels are left out: fewer than {LEAST} of a side are on problems that both runs have"
        ]
    note = (
        f"the difference is corrected by labels ({base.labels:,} of the baseline, {other.labels:,} of the candidate): "
        "it is what people would find, not what the judge says"
    )
    both = len(
        set(base.clusters[base.known > 0].tolist()) & set(other.clusters[other.known > 0].tolist())
    )
    hints = [
        note,
        *([f"{counted(stray, 'label')} on rows that were not drawn, left out"] if stray else []),
    ]
    if both < min(base.labels, other.labels) / 2:
        hints.append(
            f"people labelled {counted(both, 'problem')} on both sides: `nel judge sample --like` tells more"
        )
    return LabelledPair(base, other), hints


def _shared(data: Labelled, names: list[str], codes: dict[str, int]) -> Labelled:
    at = np.array([codes.get(name, -1) for name in names], dtype=np.int64)
    keep = at >= 0
    chance = None if data.chance is None else data.chance[keep]
    return Labelled(data.judge[keep], data.human[keep], chance, clusters=at[keep])
