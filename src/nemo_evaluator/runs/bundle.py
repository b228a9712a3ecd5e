"""Bundles (``eval-*.json``): the summary of one finished benchmark, written by any version or tool."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from nemo_evaluator._version import __version__
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import read_json, stored
from nemo_evaluator.core.hashing import canonical, digest
from nemo_evaluator.core.hooks import check_bundle
from nemo_evaluator.core.json_coerce import (
    Field,
    as_dict,
    as_list,
    as_number,
    as_text,
    as_total,
    as_whole,
)
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.calibration import PLACE, Calibration, measured_by, read_calibration
from nemo_evaluator.runs.own_files import refuse_foreign_files
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import read_rows
from nemo_evaluator.runs.scores import (
    FailureLine,
    GroupScore,
    Runtime,
    Score,
    leading_scores,
    pick_headline,
    read_coverage,
    read_failures,
    read_group,
    read_runtime,
    read_score,
)
from nemo_evaluator.runs.tampering import Tampering, read_tampering
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.run_registry import load_run
from nemo_evaluator.store.sums import MARK, has_entries, untouched, verified

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import BundleDocument

VALID: Final = "VALID"
INVALID: Final = "INVALID"
UNCHECKED: Final = "UNCHECKED"
# Fields of scoring_details that say how a row was scored; useful breakdowns have few values, each of them common.
NOT_BREAKDOWNS: Final = frozenset(
    {
        "correct",
        "error",
        "explanation",
        "extracted",
        "fallback",
        "judge_model",
        "method",
        "needs_judge",
        "raw",
        "scored_by",
    }
    | {"reasoning", "reward", "unparsed"}
)
_MOST_GROUPS: Final = 20
_ROWS_OF_A_GROUP: Final = 3
# Categories of the failure analysis whose rows were scored.
_FLAWS: Final = frozenset({"refusal", "format_error", Cause.CONTEXT_EXCEEDED, Cause.BUDGET})


@dataclass(frozen=True)
class Bundle:
    """One finished benchmark of one model: the bundle's document and the rows beside it."""

    path: Path
    document: Mapping[str, Any] = field(repr=False)

    benchmark = Field("document.benchmark", as_dict, "The part with the scores.")
    config = Field("document.config", as_dict, "The settings of the run.")
    validity = Field(
        "document.validity", as_dict, "VALID or INVALID, with reasons, as it was written."
    )
    model = Field("config.model", as_text, "The model.")
    timestamp = Field("document.timestamp", as_text, "When the benchmark finished.")
    sdk_version = Field("document.sdk_version", as_text, "The version of nel that wrote it.")
    config_hash = Field("document.config_hash", as_text, "The digest of its config.")
    samples = Field("benchmark.samples", as_total, "How many problems have rows.")
    n_results = Field("document.n_results", as_total, "How many rows were written.")
    stopped = Field(
        "document.stopped", as_dict, "Why and how the run ended early; also what its stop rule did."
    )
    coverage = Field("benchmark.coverage", read_coverage, "How much of the plan was measured.")
    truncated_share = Field(
        "benchmark.truncated_share", as_number, "The share of answers that were cut off."
    )
    unparsed_share = Field(
        "benchmark.unparsed_share", as_number, "The share of scored answers that could not be read."
    )

    @property
    def name(self) -> str:
        """The benchmark's name."""
        return str(
            self.benchmark.get("name") or self.config.get("benchmark") or self.path.parent.name
        )

    @property
    def run_id(self) -> str:
        """The id of this bundle."""
        return str(self.document.get("run_id") or self.path.stem)

    @property
    def repeats(self) -> int:
        """The number of answers per problem."""
        return as_whole(self.benchmark.get("repeats")) or 1

    @property
    def files(self) -> TaskPaths:
        """The paths of the benchmark's files."""
        return TaskPaths(self.path.parent)

    @property
    def results(self) -> Path:
        """The file of rows beside the bundle."""
        return self.files.results

    @property
    def run_dir(self) -> Path:
        """The output folder of the run."""
        return self.path.parent.parent

    @property
    def origin(self) -> str:
        """An id that a resumed run keeps and that differs between runs that end in the same second.

        It is empty for a bundle outside of a run's folder.
        """
        run = load_run(self.run_dir)
        if run is not None:
            return f"{run.run_id}-{digest(run.output_dir)[:8]}/{self.path.parent.name}"
        return ""

    @property
    def stop_reason(self) -> str:
        """Why the run ended before its plan did; empty if it completed."""
        if self.stopped.get("kind"):
            return str(self.stopped.get("reason") or self.stopped["kind"])
        return ""

    @property
    def status(self) -> str:
        """``VALID``, ``INVALID``, or ``UNCHECKED`` if the bundle records no status."""
        recorded_status = str(self.validity.get("status") or "")
        if self._error:
            return INVALID
        return recorded_status or (INVALID if self.reasons else UNCHECKED)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The recorded reasons against using the scores, and the error if there is one."""
        recorded_reasons = [str(reason) for reason in as_list(self.validity.get("reasons"))]
        return tuple(recorded_reasons + ([str(self._error)] if self._error else []))

    @property
    def invalid(self) -> tuple[str, ...]:
        """Why the scores must not be used; empty if they may be used."""
        if self._error:
            return (*self.reasons[:-1], f"the run failed: {self._error}")
        if self.status == INVALID:
            return self.reasons or ("the run is marked INVALID",)
        return ()

    @property
    def _error(self) -> Any:
        """The recorded error of the run, if there is one."""
        return self.document.get("error") or self.benchmark.get("error")

    @property
    def tampering(self) -> Tampering | None:
        """The rows that tampered with their own judging and the score that counts them as 0; None if there are none."""
        return read_tampering(self.benchmark.get("tamper"))

    @property
    def dataset_size(self) -> int | None:
        """The number of problems in the benchmark's dataset, whether the run used them or not."""
        return as_whole(as_dict(self.config.get("shuffle")).get("ds_full_size"))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to show wherever the score is shown."""
        recorded_notes = tuple(map(str, as_list(self.benchmark.get("notes"))))
        calibration = self.calibration
        if calibration is None:
            return recorded_notes
        warning = f"the corrected score is not shown, it is stale: {calibration.stale}; run `nel judge calibrate` again"
        return (*recorded_notes, warning if calibration.stale else calibration.note)

    @cached_property
    def calibration(self) -> Calibration | None:
        """The calibration of the headline score by labels; None if there is none."""
        document = as_dict(self.benchmark.get(PLACE))
        if not document:
            return None
        # Labels correct the mean reward, also where a benchmark names other headlines.
        means = tuple(score for score in self._recorded_scores if not score.leads)
        mean = pick_headline(means)
        if mean is None:
            return None
        current_basis = measured_by(self.config, self.coverage.scored)
        return read_calibration(document, current_basis, mean.name)

    @property
    def noise(self) -> JsonDict:
        """The run-to-run noise that `nel noise` measured; empty if it was not measured."""
        if self.path.suffix == ".json":
            return stored(self.files.noise)
        return {}

    @property
    def corrected(self) -> Score | None:
        """The headline score corrected by labels; None without labels or if the calibration is stale."""
        calibration = self.calibration
        return calibration.score if calibration is not None and not calibration.stale else None

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Every score in the bundle's order; the corrected score comes last, and only while it holds."""
        scores = list(self._recorded_scores)
        if self.calibration is not None:
            # A corrected score among the recorded ones is not believed: the calibration says whether it holds.
            corrected_name = self.calibration.score.name
            scores = [score for score in scores if score.name != corrected_name]
        if self.corrected is not None:
            scores.append(self.corrected)
        return tuple(scores)

    @cached_property
    def _recorded_scores(self) -> tuple[Score, ...]:
        """The entries of ``scores`` that are scores."""
        scores: list[Score] = []
        for name, entry in self._raw_scores.items():
            score = read_score(name, entry, self.samples)
            if score is not None:
                scores.append(score)
        return tuple(scores)

    @property
    def _raw_scores(self) -> JsonDict:
        """The entries of ``scores``, including those that are not scores."""
        return as_dict(self.benchmark.get("scores"))

    @cached_property
    def headline(self) -> Score | None:
        """The score that represents the benchmark."""
        score = pick_headline(self.scores)
        fallback = score is not None and self.benchmark.get("fallback")
        if score is not None and fallback:
            return replace(score, name=f"{score.name} (fallback)")
        return score

    @property
    def scorers(self) -> tuple[Score, ...]:
        """The scores to show in one table with the headline: further headlines, the corrected score, extra scorers."""
        extra_scores = tuple(
            score for score in self._beside_headline if score.name.startswith("scorer:")
        )
        further_headlines = leading_scores(self.scores)[1:]
        if self.corrected is not None:
            return (*further_headlines, self.corrected, *extra_scores)
        return (*further_headlines, *extra_scores)

    @property
    def others(self) -> tuple[Score, ...]:
        """All further scores."""
        return tuple(
            score
            for score in self._beside_headline
            if not score.name.startswith("scorer:") and score != self.corrected and not score.leads
        )

    @property
    def _beside_headline(self) -> list[Score]:
        """All scores except the headline."""
        headline = pick_headline(self.scores)
        return [score for score in self.scores if score is not headline]

    @property
    def categories(self) -> tuple[GroupScore, ...]:
        """The score of each category."""
        return tuple(
            read_group(name, entry)
            for name, entry in as_dict(self.benchmark.get("categories")).items()
        )

    @property
    def breakdowns(self) -> dict[str, tuple[GroupScore, ...]]:
        """The scores by the values of other fields, limited to fields with a few common values."""
        breakdowns: dict[str, tuple[GroupScore, ...]] = {}
        for name, entries in as_dict(self._raw_scores.get("breakdowns")).items():
            if name in NOT_BREAKDOWNS:
                continue
            groups: list[GroupScore] = []
            for entry in as_list(entries):
                if isinstance(entry, dict):
                    groups.append(read_group(str(entry.get("group")), entry))
            row_count = sum(group.n for group in groups)
            values_are_common = row_count >= _ROWS_OF_A_GROUP * len(groups)
            if 1 < len(groups) <= _MOST_GROUPS and values_are_common:
                breakdowns[name] = tuple(groups)
        return breakdowns

    @property
    def failures(self) -> tuple[FailureLine, ...]:
        """The causes of failed samples."""
        return tuple(line for line in self._analysed if line.cause not in _FLAWS)

    @property
    def flaws(self) -> tuple[FailureLine, ...]:
        """The problems of answers that were scored nevertheless."""
        return tuple(line for line in self._analysed if line.cause in _FLAWS)

    @cached_property
    def _analysed(self) -> tuple[FailureLine, ...]:
        """The lines of the failure analysis."""
        return read_failures(as_dict(self._raw_scores.get("failures")))

    @cached_property
    def runtime(self) -> Runtime:
        """Time, tokens and cost of the run."""
        return read_runtime(as_dict(self._raw_scores.get("runtime")))

    def rows(self) -> Iterator[Row]:
        """Return the rows, read one at a time; empty if the file is missing."""
        return read_rows(self.results)


def load_bundle(path: Path) -> Bundle:
    """Load a bundle from its file.

    Raises:
        UsageError: The file is not a bundle or differs from its recorded digest.
    """
    refuse_foreign_files(path.parent)
    try:
        document: Any = read_json(verified(path))
    except (OSError, orjson.JSONDecodeError) as error:
        hint = "was it cut off? run again with --resume"
        raise UsageError(f"cannot read {path}, it is not JSON: {error}", hint=hint) from error
    if not isinstance(document, dict) or not isinstance(document.get("benchmark"), dict):
        raise UsageError(
            f"{path} is not a bundle", hint="a bundle is the eval-*.json file in a task folder"
        )
    files = TaskPaths(path.parent)
    bundle = Bundle(path, document)
    if document.get(MARK) and not has_entries(
        path.parent, (path, files.results, files.trajectories)
    ):
        return _checked_again(bundle)
    return bundle


def _checked_again(bundle: Bundle) -> Bundle:
    """Return a bundle without checksums, with the status recomputed from its rows; its own status is not trusted."""
    check = check_bundle(bundle)
    validity = {"status": str(check.status), "reasons": check.reasons}
    return Bundle(bundle.path, {**bundle.document, "validity": validity})


def calibrated(bundle: Bundle, document: Mapping[str, Any]) -> Bundle:
    """Return the bundle with a calibration and, unless that is stale, the corrected score among its scores."""
    calibrated_bundle = Bundle(
        bundle.path, {**bundle.document, "benchmark": {**bundle.benchmark, PLACE: document}}
    )
    calibration = calibrated_bundle.calibration
    if calibration is not None:
        scores = {
            name: entry
            for name, entry in calibrated_bundle._raw_scores.items()
            if name != calibration.score.name
        }
        if calibration.stale:
            scores |= {}
        else:
            scores |= {calibration.score.name: document["corrected"]}
        calibrated_bundle.benchmark["scores"] = scores
    return calibrated_bundle


def uncalibrated(bundle: Bundle) -> Bundle:
    """Return the bundle without its calibration and the corrected score."""
    calibration = bundle.calibration
    benchmark = {name: value for name, value in bundle.benchmark.items() if name != PLACE}
    if calibration is not None:
        scores = dict(bundle._raw_scores)
        scores.pop(calibration.score.name, None)
        benchmark["scores"] = scores
    return Bundle(bundle.path, {**bundle.document, "benchmark": benchmark})


def newest_bundle(folder: Path) -> Bundle | None:
    """Return the newest bundle of a task folder by its time stamp, or None."""
    bundle_paths = TaskPaths(folder).bundles()
    if bundle_paths:
        return load_bundle(bundle_paths[-1])
    return None


def config_hash(config: JsonDict) -> str:
    """Return the digest of a config, which is the same for resumed, sharded and uninterrupted runs."""
    hashed_config = {
        key: value for key, value in config.items() if key not in ("resumed", "n_shards")
    }
    return f"sha256:{hashlib.sha256(canonical(hashed_config)).hexdigest()}"


def kept_bundle(task: TaskPaths, config: JsonDict) -> BundleDocument | None:
    """Return the bundle of a folder if it is current, so that a resume with nothing to do need not write it again.

    It is current if this version made it from this config and from everything that the journal holds.
    """
    bundles = task.bundles()
    files = (task.results, task.trajectories, task.runtime_stats, *bundles)
    if len(bundles) != 1 or not untouched(task.root).issuperset(files):
        return None
    if task.results.stat().st_mtime_ns < task.journal.stat().st_mtime_ns:
        return None
    document = load_bundle(bundles[0]).document
    provenance = document.get("sdk_version"), document.get("config_hash"), document.get("stopped")
    if provenance == (__version__, config_hash(config), None):
        return cast("BundleDocument", document)
    return None
