"""``nel judge calibrate``: the agreement of each judge with human labels, and the score corrected by them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.json_coerce import as_dict, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import HEADLINE, JudgedRows, read_judged
from nemo_evaluator.decisions.calibrate.label_rules import (
    LEAST,
    check_draw,
    completed,
    drawn_only,
    missing_note,
)
from nemo_evaluator.runs.bundle import Bundle, calibrated
from nemo_evaluator.runs.calibration import LabelDraw, measured_by
from nemo_evaluator.runs.labels import Label
from nemo_evaluator.statistics import Interval, score, unpaired_difference
from nemo_evaluator.statistics.corrected_score import Corrected
from nemo_evaluator.statistics.groups import Floats, is_binary
from nemo_evaluator.statistics.judge_agreement import PASS, Agreement, agreement
from nemo_evaluator.statistics.judge_error import rogan_gladen
from nemo_evaluator.statistics.missing_labels import bounded_mean
from nemo_evaluator.statistics.ppi import Labelled
from nemo_evaluator.store.sums import update_sums

if TYPE_CHECKING:
    from nemo_evaluator.decisions.calibrate.calibration_document import (
        CalibrationDocument,
        JudgeEntry,
    )

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

    def to_dict(self) -> JudgeEntry:
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
        missing: Number of drawn rows that have no label, or an unsure one.
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
    missing: int = 0
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
        if self.missing:
            return f"{basis}; {missing_note(self.missing, self.labels)}"
        return basis

    def to_dict(self) -> CalibrationDocument:
        """The entry in the bundle."""
        return {
            "version": 1,
            "benchmark": self.run.name,
            "model": self.run.model,
            "measured_by": measured_by(self.run.config, self.run.coverage.scored),
            "corrected": score(self.corrected),
            "labels": self.labels,
            "missing_labels": self.missing,
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
        save_document(calibrated(self.run, self.to_dict()))


def save_document(bundle: Bundle) -> None:
    """Write a changed bundle and its checksum."""
    write_json(bundle.path, bundle.document)
    update_sums(bundle.path.parent, [bundle.path])


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
            corrected=bounded_mean(completed(rows, used_labels, used_draw, name)),
            agreement=agreement(judged),
        )
        judges.append(judge_report)
    answer_lengths = np.array(rows.length)[~np.isnan(rows.column(HEADLINE))]
    return CalibrationReport(
        run=run,
        rows=len(data.judge),
        labels=data.labels,
        corrected=judges[0].corrected.interval,
        judges=judges,
        method="none" if used_draw is None else used_draw.method,
        missing=completed(rows, used_labels, used_draw).missing,
        convenience=convenience,
        length_bias=_length_bias(data, answer_lengths),
        position_bias=_position_bias(rows),
        notes=_notes(labels, used_labels),
    )


def _notes(
    labels: dict[tuple[int, int], Label], used_labels: dict[tuple[int, int], Label]
) -> list[str]:
    """Which labels are left out."""
    stray = len(labels) - len(used_labels)
    if stray:
        return [f"{counted(stray, 'label')} on rows that were not drawn, left out"]
    return []


def _position_bias(rows: JudgedRows) -> float | None:
    """The mean bias for the first position; None if the judge compared no answer in both orders."""
    position = np.array(rows.position)
    if np.isnan(position).all():
        return None
    return float(np.nanmean(position))


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


def carry(run: Bundle, source: Bundle) -> CalibrationReport:
    """Correct a run by another run's calibration (Rogan and Gladen).

    Args:
        run: The run to correct.
        source: The calibrated run.

    Raises:
        UsageError: The calibration is missing, stale, of another judge, or of a judge that only guesses.
    """
    calibration = source.calibration
    if calibration is None:
        raise _unusable_calibration(source, "missing")
    if calibration.stale:
        raise _unusable_calibration(source, f"stale: {calibration.stale}")
    missing = as_whole(calibration.document.get("missing_labels")) or 0
    if missing:
        # Its rates of agreement rest on the labels that were given, and so on the choice of who gave them.
        raise _unusable_calibration(
            source, f"incomplete: {counted(missing, 'drawn row')} without a label"
        )
    own_scorer = as_dict(run.config.get("fingerprints")).get("scorer")
    source_scorer = as_dict(source.config.get("fingerprints")).get("scorer")
    if own_scorer != source_scorer or calibration.document.get("carried_from"):
        message = "a calibration holds for the judge, prompt, rubric and extraction that it measured, and these differ"
        raise UsageError(message, hint="label rows of this run: nel judge sample RUN")
    rewards = read_judged(run).column(HEADLINE)
    rates = _measured_rates(calibration.document)
    if rates is None:
        raise UsageError(
            "the judge of that run did no better than chance, so its calibration cannot be used",
            hint="label this run: nel judge sample RUN",
        )
    interval = rogan_gladen(
        float((rewards >= PASS).mean()),
        len(rewards),
        sensitivity=rates.sensitivity,
        positives=rates.positives,
        specificity=rates.specificity,
        negatives=rates.negatives,
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


@dataclass(frozen=True, slots=True)
class _JudgeRates:
    """How often a judge agrees with people, as its calibration measured it.

    Attributes:
        sensitivity: The share of right answers that the judge passes.
        positives: The number of right answers behind it.
        specificity: The share of wrong answers that the judge fails.
        negatives: The number of wrong answers behind it.
    """

    sensitivity: float
    positives: int
    specificity: float
    negatives: int


def _measured_rates(calibration: JsonDict) -> _JudgeRates | None:
    """The rates of the headline's judge in a calibration; None if it did no better than chance."""
    headline_judge = as_dict(calibration["judges"][0])
    measured_agreement = as_dict(headline_judge.get("agreement"))
    sensitivity_entry = as_dict(measured_agreement.get("sensitivity"))
    specificity_entry = as_dict(measured_agreement.get("specificity"))
    sensitivity = as_number(sensitivity_entry.get("value"))
    specificity = as_number(specificity_entry.get("value"))
    if sensitivity is None or specificity is None or sensitivity + specificity <= 1:
        return None
    return _JudgeRates(
        sensitivity=sensitivity,
        positives=as_whole(sensitivity_entry.get("n")) or 0,
        specificity=specificity,
        negatives=as_whole(specificity_entry.get("n")) or 0,
    )


def _unusable_calibration(source: Bundle, problem: str) -> UsageError:
    """The error for a calibration that cannot be carried to another run."""
    return UsageError(
        f"the calibration of {source.path.parent} is {problem}",
        hint="nel judge calibrate on that run",
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
