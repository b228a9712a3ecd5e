"""``nel judge calibrate``: the agreement of each judge with human labels, and the score corrected by them."""

from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

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
from nemo_evaluator.statistics.groups import Floats, is_binary
from nemo_evaluator.statistics.judge_agreement import PASS, Agreement, agreement
from nemo_evaluator.statistics.ppi import (
    Corrected,
    Labelled,
    corrected_difference,
    corrected_mean,
    rogan_gladen,
)
from nemo_evaluator.store.sums import update_sums

# The fewest labels that a calibration needs.
LEAST = 10
_ASSUMPTION = "it assumes that the judge errs on this run as often as it did there"


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """One judge compared with the labels.

    Attributes:
        judge: Its name.
        raw: Its mean reward.
        corrected: The mean corrected by the labels.
        agreement: Its agreement with the labels.
    """

    judge: str
    raw: float
    corrected: Corrected
    agreement: Agreement

    def to_dict(self) -> JsonDict:
        """The JSON of the report."""
        agreement_json = asdict(self.agreement)
        agreement_json["sensitivity"] = score(self.agreement.sensitivity)
        agreement_json["specificity"] = score(self.agreement.specificity)
        return {
            "judge": self.judge,
            "raw": self.raw,
            "corrected": score(self.corrected.interval),
            "labels_alone": score(self.corrected.alone),
            "trust": round(self.corrected.trust, 6),
            "agreement": agreement_json,
        }


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The calibration of one run.

    Attributes:
        run: The run.
        rows: Number of judged rows.
        labels: Number of labels.
        corrected: The corrected score.
        judges: The headline's judge first, then the others.
        method: How the labelled rows were drawn.
        convenience: The labelled rows were not drawn at random.
        carried: The run whose labels were used instead of its own; empty for its own.
        length_bias: How much more the judge favours long answers than people do.
        position_bias: The judge's bias for the first position.
        notes: Further notes.
    """

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
        """The sentence shown with the corrected score."""
        if self.carried:
            return f"the corrected score is carried from the labels of {self.carried} (Rogan-Gladen): {_ASSUMPTION}"
        basis = (
            f"the corrected score rests on {counted(self.labels, 'label')} of {self.rows:,} rows"
        )
        if self.convenience:
            return f"{basis}; hand-picked labels bias the score, so its interval proves nothing"
        return basis

    def to_dict(self) -> JsonDict:
        """The entry in the bundle."""
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
        """Write the calibration into the run's bundle."""
        bundle = calibrated(self.run, self.to_dict())
        write_json(self.run.path, bundle.document)
        update_sums(self.run.path.parent, [self.run.path])


def calibrate(
    run: Bundle,
    labels: dict[tuple[int, int], Label],
    draw: LabelDraw | None,
    *,
    convenience: bool = False,
) -> CalibrationReport:
    """Compare the judges of a run with its labels.

    Args:
        run: The run.
        labels: The labels by row.
        draw: The drawn rows; None when nothing was drawn.
        convenience: Accept labels of rows that were not drawn, and mark the result.

    Raises:
        UsageError: The labels are too few, or are not about drawn rows or the present answers.
    """
    rows = read_judged(run)
    used_draw = None if convenience else draw
    used_labels = drawn_only(labels, used_draw)
    check_draw(rows, used_labels, draw, convenience=convenience)
    data = rows.labelled(used_labels, used_draw)
    if data.labels < LEAST:
        message = f"{run.name}: {counted(data.labels, 'label')} on scored rows, at least {LEAST} are needed"
        raise UsageError(message, hint="continue labelling: nel judge label RUN")
    judges: list[JudgeReport] = []
    for name in _distinct_judges(rows):
        judged = rows.labelled(used_labels, used_draw, name)
        judge_report = JudgeReport(
            judge=name,
            raw=float(judged.judge.mean()),
            corrected=corrected_mean(judged),
            agreement=agreement(judged),
        )
        judges.append(judge_report)
    notes: list[str] = []
    if used_draw is not None:
        unlabelled = sum(row.key not in used_labels for row in used_draw.rows)
        if unlabelled:
            notes.append(
                f"{counted(unlabelled, 'drawn row')} without a label: if those are the hard ones, the score is biased"
            )
    stray = len(labels) - len(used_labels)
    if stray:
        notes.append(f"{counted(stray, 'label')} on rows that were not drawn, left out")
    unsure = sum(label.value is None for label in used_labels.values())
    if unsure:
        notes.append(f"{counted(unsure, 'label')} unsure, left out")
    lengths = np.array(rows.length)[~np.isnan(rows.column(HEADLINE))]
    position = np.array(rows.position)
    any_position = not np.isnan(position).all()
    return CalibrationReport(
        run=run,
        rows=len(data.judge),
        labels=data.labels,
        corrected=judges[0].corrected.interval,
        judges=judges,
        method=used_draw.method if used_draw is not None else "none",
        convenience=convenience,
        length_bias=_length_bias(data, lengths),
        position_bias=float(np.nanmean(position)) if any_position else None,
        notes=notes,
    )


def _distinct_judges(rows: JudgedRows) -> list[str]:
    """The headline, and every judge whose rewards differ from it."""
    headline = rows.column(HEADLINE)
    others: list[str] = []
    for name in rows.rewards:
        if name == HEADLINE:
            continue
        if not np.array_equal(rows.column(name), headline, equal_nan=True):
            others.append(name)
    return [HEADLINE, *sorted(others)]


def drawn_only(
    labels: dict[tuple[int, int], Label], draw: LabelDraw | None
) -> dict[tuple[int, int], Label]:
    """The labels that count: those of drawn rows, or all of them without a draw."""
    if draw is None:
        return dict(labels)
    drawn = {row.key for row in draw.rows}
    return {key: label for key, label in labels.items() if key in drawn}


def check_draw(
    rows: JudgedRows,
    labels: dict[tuple[int, int], Label],
    draw: LabelDraw | None,
    *,
    convenience: bool,
) -> None:
    """Refuse labels of rows that were not drawn, and labels of answers that have changed.

    Args:
        rows: The rows of the run.
        labels: The labels by row.
        draw: The drawn rows.
        convenience: Accept labels of rows that were not drawn.

    Raises:
        UsageError: A label is refused.
    """
    drawn_answers: dict[tuple[int, int], str] = {}
    if draw is not None:
        drawn_answers = {row.key: row.answer for row in draw.rows}
    stray = [key for key in labels if key not in drawn_answers]
    if stray and not convenience:
        first_problem, _ = stray[0]
        raise UsageError(
            f"{counted(len(stray), 'label')} on rows that were not drawn, such as problem {first_problem}: "
            "hand-picked labels bias the score",
            hint="draw rows with `nel judge sample RUN`, or accept the bias with --convenience, which marks the result",
        )
    answers = dict(zip(rows.keys, rows.answers, strict=True))
    changed: list[tuple[int, int]] = []
    for key in labels:
        if key not in drawn_answers or key not in answers:
            continue
        if answers[key] != drawn_answers[key]:
            changed.append(key)
    if changed:
        message = f"the calibration is stale: {counted(len(changed), 'answer')} changed since the rows were drawn"
        raise UsageError(message, hint="draw and label again: nel judge sample RUN --replace")


def carry(run: Bundle, source: Bundle) -> CalibrationReport:
    """Correct a run by another run's calibration (Rogan and Gladen).

    Args:
        run: The run to correct.
        source: The calibrated run.

    Raises:
        UsageError: The calibration is missing, stale, of another judge, or of a judge that only guesses.
    """
    calibration = source.calibration
    if calibration is None or calibration.stale:
        problem = "missing" if calibration is None else f"stale: {calibration.stale}"
        raise UsageError(
            f"the calibration of {source.path.parent} is {problem}",
            hint="nel judge calibrate on that run",
        )
    own_scorer = as_dict(run.config.get("fingerprints")).get("scorer")
    source_scorer = as_dict(source.config.get("fingerprints")).get("scorer")
    if own_scorer != source_scorer or calibration.document.get("carried_from"):
        message = "a calibration holds for the judge, prompt, rubric and extraction that it measured, and these differ"
        raise UsageError(message, hint="label rows of this run: nel judge sample RUN")
    headline_judge = as_dict(calibration.document["judges"][0])
    agreement_json = as_dict(headline_judge.get("agreement"))
    sensitivity_json = as_dict(agreement_json.get("sensitivity"))
    specificity_json = as_dict(agreement_json.get("specificity"))
    sensitivity = as_number(sensitivity_json.get("value"))
    specificity = as_number(specificity_json.get("value"))
    rewards = read_judged(run).column(HEADLINE)
    if sensitivity is None or specificity is None or sensitivity + specificity <= 1:
        raise UsageError(
            "the judge of that run did no better than chance, so its calibration cannot be used",
            hint="label this run: nel judge sample RUN",
        )
    interval = rogan_gladen(
        float((rewards >= PASS).mean()),
        len(rewards),
        sensitivity=sensitivity,
        positives=as_whole(sensitivity_json.get("n")) or 0,
        specificity=specificity,
        negatives=as_whole(specificity_json.get("n")) or 0,
    )
    notes: list[str] = []
    if not is_binary(rewards):
        notes.append(f"grades count as right from {PASS:g} on")
    return CalibrationReport(
        run=run,
        rows=len(rewards),
        labels=as_whole(calibration.document.get("labels")) or 0,
        corrected=interval,
        judges=[],
        method="carried",
        carried=str(source.path.parent),
        notes=notes,
    )


def _length_bias(data: Labelled, length: Floats) -> Interval | None:
    """The judge's mean error on long answers minus that on short ones; None with too few of either."""
    labelled = data.known > 0
    error = (data.judge - data.human)[labelled]
    labelled_length = length[labelled]
    is_long = labelled_length > np.median(labelled_length)
    enough_of_both = 2 <= is_long.sum() <= len(is_long) - 2
    if not enough_of_both:
        return None
    return unpaired_difference(error[~is_long], error[is_long])


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Baseline and candidate with their labels, on the problems that they share."""

    baseline: Labelled
    candidate: Labelled

    def difference(self, better: float = 1.0, share: float = 1.0) -> Difference:
        """The corrected gain of the candidate.

        Args:
            better: 1 for candidate - share x baseline; -1 for share x baseline - candidate.
            share: The factor of the baseline.
        """
        if better > 0:
            return corrected_difference(self.baseline, self.candidate, share=share)
        loss = corrected_difference(self.candidate, self.baseline, share=1 / share)
        return replace(loss, value=loss.value * share, scale=loss.scale * share)


def labelled_pair(
    left: Bundle, right: Bundle, spending: Spending, *, by_index: bool = False
) -> tuple[LabelledPair | None, list[str]]:
    """Both runs with their labels, if both have labels that can be used.

    Args:
        left: The baseline.
        right: The candidate.
        spending: How the error is divided.
        by_index: Pair problems by index instead of content.

    Returns:
        The pair, None when the labels cannot be used; and notes for the reader.
    """
    baseline_labels = _labels_of(left)
    candidate_labels = _labels_of(right)
    if not baseline_labels and not candidate_labels:
        return None, []
    if not baseline_labels or not candidate_labels:
        return None, ["only one run has labels; comparing uncorrected judge scores"]
    if spending.looking:
        return None, [
            "labels are left out: no corrected interval allows for the looks of a stop rule"
        ]
    sides: list[_LabelledSide] = []
    for run, labels in ((left, baseline_labels), (right, candidate_labels)):
        try:
            sides.append(_labelled_side(run, labels, by_index=by_index))
        except UsageError as error:
            return None, [f"labels are left out: {error.message}"]
    shared_problems = set(sides[0].problems) & set(sides[1].problems)
    codes = {problem: code for code, problem in enumerate(sorted(shared_problems))}
    baseline = _restricted(sides[0], codes)
    candidate = _restricted(sides[1], codes)
    fewest_labels = min(baseline.labels, candidate.labels)
    if fewest_labels < LEAST:
        return None, [
            f"labels are left out: fewer than {LEAST} of a side are on problems that both runs have"
        ]
    notes = [
        f"the difference is corrected by labels ({baseline.labels:,} of the baseline, {candidate.labels:,} of the "
        "candidate): it estimates what people would find, not the judge's scores"
    ]
    stray = sides[0].stray + sides[1].stray
    if stray:
        notes.append(f"{counted(stray, 'label')} on rows that were not drawn, left out")
    labelled_in_both = _labelled_problems(baseline) & _labelled_problems(candidate)
    if len(labelled_in_both) < fewest_labels / 2:
        notes.append(
            f"people labelled {counted(len(labelled_in_both), 'problem')} on both sides: "
            "draw the same problems with `nel judge sample --like` for a narrower interval"
        )
    return LabelledPair(baseline, candidate), notes


class _LabelledSide(NamedTuple):
    """One run of a labelled pair."""

    data: Labelled
    # The problem of each row, by content or index.
    problems: list[str]
    # Number of labels on rows that were not drawn.
    stray: int


def _labels_of(run: Bundle) -> dict[tuple[int, int], Label]:
    """The labels of a run by row; empty for a run without a bundle."""
    if not run.path.is_file():
        return {}
    return read_labels(run.path.parent)


def _labelled_side(
    run: Bundle, labels: dict[tuple[int, int], Label], *, by_index: bool
) -> _LabelledSide:
    """Read one run with those of its labels that count.

    Raises:
        UsageError: The labels are not about drawn rows or the present answers.
    """
    rows = read_judged(run)
    draw = read_draw(run.path.parent)
    used_labels = drawn_only(labels, draw)
    check_draw(rows, used_labels, draw, convenience=False)
    problems = [str(problem) for problem, _ in rows.keys] if by_index else rows.content
    stray = len(labels) - len(used_labels)
    return _LabelledSide(rows.labelled(used_labels, draw), problems, stray)


def _restricted(side: _LabelledSide, codes: dict[str, int]) -> Labelled:
    """The rows of the problems in ``codes``, with the codes as clusters."""
    clusters = np.array([codes.get(problem, -1) for problem in side.problems], dtype=np.int64)
    shared = clusters >= 0
    data = side.data
    chance = None if data.chance is None else data.chance[shared]
    return Labelled(data.judge[shared], data.human[shared], chance, clusters=clusters[shared])


def _labelled_problems(data: Labelled) -> set[int]:
    """The problems with at least one label."""
    return set(data.problems[data.known > 0].tolist())
