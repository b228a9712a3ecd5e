"""The calibration of a run by labels as types: the entry ``calibration`` of a bundle.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.bundle_document import ScoreEntry
from nemo_evaluator.store.journal_record import MeasuredBy


class JudgeEntry(TypedDict):
    """One judge compared with the labels; ``agreement`` has the fields of ``Agreement``."""

    judge: str
    raw: float
    corrected: ScoreEntry
    labels_alone: ScoreEntry
    trust: float
    agreement: JsonDict


class CalibrationDocument(TypedDict):
    """The calibration of one run."""

    version: int
    benchmark: str
    model: str
    measured_by: MeasuredBy
    corrected: ScoreEntry
    labels: int
    missing_labels: int
    rows: int
    draw: str
    convenience: bool
    carried_from: str | None
    judges: list[JudgeEntry]
    length_bias: ScoreEntry | None
    position_bias: float | None
    note: str
    notes: list[str]
