"""The summary of a suite and its dry run as JSON, as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import NotRequired, TypedDict

from nemo_evaluator.store.bundle_document import BundleDocument
from nemo_evaluator.store.journal_record import MeasuredBy


class ErrorEntry(TypedDict):
    """Why a benchmark failed."""

    message: str
    hint: str | None


class BenchmarkSummaryEntry(TypedDict):
    """One benchmark of a suite that has ended."""

    id: str
    status: str
    error: ErrorEntry | None
    bundle: BundleDocument | None


class SuiteDocument(TypedDict):
    """The end of a suite; also the last event of a run with JSON progress."""

    event: str
    exit_code: int
    output_dir: str
    benchmarks: list[BenchmarkSummaryEntry]
    reports: list[str]
    export_errors: list[str]


class PlannedEntry(TypedDict):
    """One benchmark of a dry run; see ``PlannedBenchmark``."""

    id: str
    name: str
    repeats: int
    solver: str
    model: str | None
    max_concurrent: int
    task_dir: str
    problems: int | None
    steps: int | None
    replaces: NotRequired[str]
    error: NotRequired[str]


class ChangeEntry(TypedDict):
    """The difference between two runs of the same problems; see ``Change``."""

    problems: int
    answers: float
    verdicts: float
    score: float


class FlipRateEntry(TypedDict):
    """How often a verdict changes between two runs, with its interval; see ``FlipRate``."""

    value: float
    ci_lower: float
    ci_upper: float
    problems: int
    unit: float


class NoiseDocument(TypedDict):
    """``noise.json``: the differences between repeated runs of one benchmark."""

    version: int
    benchmark: str
    model: str
    levels: tuple[int, int]
    flip_rate: FlipRateEntry
    again: ChangeEntry
    again_high: ChangeEntry
    other_level: ChangeEntry
    measured_by: MeasuredBy
