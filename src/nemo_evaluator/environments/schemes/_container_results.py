"""The results of a harness container: its scores, and its rows if it wrote any."""

import math
from collections.abc import ItemsView, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import SolverError
from nemo_evaluator.core.failures import Cause, Failure
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import (
    Failed,
    JsonDict,
    Scored,
    SeedResult,
    SolveResult,
    VerifyResult,
)
from nemo_evaluator.environments.base import BatchRow

_FILES: Final = ("results.yml", "results.yaml", "results.json")
# What the harness measured of its own run, beside its results.
_METRICS_FILE: Final = "eval_factory_metrics.json"
_SHOWN_FILES: Final = 10
_ROWS: Final = "eval-results/**/output*.jsonl"
_REWARDS: Final = (
    "reward",
    "score",
    "symbolic_correct",
    "correct",
    "is_correct",
    "passed",
    "success",
)
_PROMPTS: Final = ("problem", "question", "input", "prompt")
_ANSWERS: Final = ("generation", "response", "output")
_EXPECTED: Final = ("expected_answer", "answer")
_STDERRS: Final = ("stderr", "standard_error", "se", "sem")
_EXTRACTED: Final = ("extracted_answer", "predicted_answer")


@dataclass(slots=True)
class HarnessResults:
    """The results of a harness.

    Attributes:
        scores: The scores by ``task/metric/score``.
        counts: The number of samples of each score, if reported.
        stderrs: The standard error of each score, if reported.
        samples: The number of samples of the whole run; 0 if unknown.
        rows: The rows; a single one with the first score if the harness wrote none.
        run_metrics: What the harness measured of its own run, such as its requests.
        has_own_rows: Whether the harness wrote rows.
    """

    scores: dict[str, float]
    counts: dict[str, float]
    stderrs: dict[str, float]
    samples: int
    rows: list[BatchRow]
    run_metrics: dict[str, float]
    has_own_rows: bool


def read_results(folder: Path, scored_by: str = "the harness") -> HarnessResults:
    """Read a results folder.

    Args:
        folder: The folder.
        scored_by: Whose scores these are, for the rows.

    Raises:
        SolverError: A file is missing or incomplete; the message names it.
    """
    file = _results_file(folder)
    try:
        document = load_yaml(file.read_bytes())
    except yaml.YAMLError as error:
        raise SolverError(f"{file} is cut off or not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(document, dict):
        raise SolverError(f"{file} is cut off: it holds no results")
    scores, counts, stderrs = _scores(document)
    if not scores:
        raise SolverError(
            f"{file} is cut off or holds no scores (results.tasks.TASK.metrics.METRIC.scores)"
        )
    samples = _samples(document, counts)
    rows = [_row(row, number, scored_by) for number, row in enumerate(_rows(folder))]
    has_own_rows = bool(rows)
    if not has_own_rows:
        name, value = next(iter(scores.items()))
        rows = [_only_row(name, value, samples, scored_by=scored_by)]
    return HarnessResults(
        scores=scores,
        counts=counts,
        stderrs=stderrs,
        samples=samples,
        rows=rows,
        run_metrics=_run_metrics(folder / _METRICS_FILE),
        has_own_rows=has_own_rows,
    )


def _run_metrics(file: Path) -> dict[str, float]:
    """Return the numbers in ``eval_factory_metrics.json``, by their path in it; none without the file.

    Raises:
        SolverError: The file is incomplete.
    """
    if not file.is_file():
        return {}
    try:
        document = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise SolverError(f"{file} is cut off or not JSON") from error
    return dict(_numbers_in(document, file.stem))


def _numbers_in(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers in nested tables, by their path."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers_in(part, f"{path}.{name}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)


def _results_file(folder: Path) -> Path:
    """Find the file with the results.

    Raises:
        SolverError: There is none.
    """
    for name in _FILES:
        if (folder / name).is_file():
            return folder / name
    written_files: list[str] = []
    if folder.is_dir():
        written_files = sorted(path.name for path in folder.iterdir())[:_SHOWN_FILES]
    file_list = ", ".join(written_files) or "nothing"
    raise SolverError(f"the container succeeded, but wrote no results.yml (it wrote: {file_list})")


def _samples(document: JsonDict, counts: dict[str, float]) -> int:
    """Return the number of samples of the whole run, from the first place that has one; 0 if none has."""
    params = as_dict(as_dict(document.get("config")).get("params"))
    places = (
        document.get("samples"),
        document.get("n_samples"),
        *counts.values(),
        params.get("limit_samples"),
    )
    for number in places:
        if isinstance(number, (int, float)):
            return int(number)
    return 0


def _only_row(name: str, value: float, samples: int, *, scored_by: str) -> BatchRow:
    """Return the row of a harness that wrote none: its first score."""
    details: JsonDict = {
        "method": "container",
        "score": name,
        "samples": samples,
        "note": "the harness gave no single rows",
        "scored_by": scored_by,
    }
    outcome = Scored(VerifyResult(value, None, details))
    report = f"{scored_by} reported {name}: {value:g}"
    return BatchRow(0, SeedResult(name, ""), SolveResult(report), outcome=outcome)


def _scores(
    document: JsonDict,
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the scores of a results document, their sample counts and standard errors, by ``task/metric/score``."""
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    stderrs: dict[str, float] = {}
    for section in ("tasks", "groups"):
        for name, score in _score_entries(document, section):
            value = score.get("value")
            if not isinstance(value, (int, float)):
                continue
            scores[name] = round(float(value), 4)
            stats = as_dict(score.get("stats"))
            count = stats.get("count")
            if isinstance(count, (int, float)):
                counts[name] = float(count)
            stderr = _stderr(stats)
            if stderr is not None:
                stderrs[name] = stderr
        if scores:
            return scores, counts, stderrs
    flat_scores = {**as_dict(document.get("metrics")), **as_dict(document.get("scores"))}
    for name, value in flat_scores.items():
        if isinstance(value, (int, float)):
            scores[name] = round(float(value), 4)
    return scores, counts, stderrs


def _stderr(stats: JsonDict) -> float | None:
    """Return the standard error of a score, from its deviation if the harness gives only that; None if unknown."""
    for name in _STDERRS:
        value = stats.get(name)
        if isinstance(value, (int, float)):
            return float(value)
    deviation = stats.get("stddev")
    count = stats.get("count")
    if isinstance(deviation, (int, float)) and isinstance(count, (int, float)) and count > 1:
        return float(deviation) / math.sqrt(count)
    return None


def _score_entries(document: JsonDict, section: str) -> Iterator[tuple[str, JsonDict]]:
    """Yield the name ``task/metric/score`` and the entry of each score in a section."""
    for task, entry in _table(document.get("results"), section):
        for metric, group in _table(entry, "metrics"):
            for name, score in _table(group, "scores"):
                yield f"{task}/{metric}/{name}", as_dict(score)


def _table(value: Any, name: str) -> ItemsView[str, Any]:
    """Return the items of a nested table; none if it is missing."""
    return as_dict(as_dict(value).get(name)).items()


def _rows(folder: Path) -> Iterator[JsonDict]:
    """Yield the rows of the harness's output files.

    Raises:
        SolverError: A line is not a JSON object.
    """
    for file in sorted(folder.glob(_ROWS)):
        for line_number, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise SolverError(f"{file}: line {line_number} is cut off or not JSON") from error
            if not isinstance(row, dict):
                raise SolverError(f"{file}: line {line_number} is not a JSON object")
            yield row


def _row(row: JsonDict, number: int, scored_by: str) -> BatchRow:
    """Convert a row of the harness; without a reward, the row failed."""
    reward = _reward(row)
    if reward is None:
        failure = Failure(Cause.SCORER, f"the harness gave no reward for its row {number}")
        outcome: Scored | Failed = Failed(failure)
    else:
        details = {**_other_values(row), "method": "container", "scored_by": scored_by}
        outcome = Scored(VerifyResult(reward, _text(row, _EXTRACTED), details))
    prompt = _text(row, _PROMPTS) or ""
    expected = _text(row, _EXPECTED) or ""
    response = _text(row, _ANSWERS) or ""
    return BatchRow(
        problem_idx=int(row.get("problem_idx", number)),
        seed=SeedResult(prompt, expected),
        answer=SolveResult(response),
        outcome=outcome,
        repeat=int(row.get("repeat", 0)),
    )


def _text(row: JsonDict, names: tuple[str, ...]) -> str | None:
    """Return the value of the first of several columns that a row has, as text."""
    for name in names:
        if row.get(name) is not None:
            return str(row[name])
    return None


def _reward(row: JsonDict) -> float | None:
    for name in _REWARDS:
        value = row.get(name)
        if isinstance(value, (bool, int, float)):
            return float(value)
    return None


def _other_values(row: JsonDict) -> JsonDict:
    """Return the plain values of a row that are not part of the problem or the answer."""
    used_columns = {*_PROMPTS, *_ANSWERS, *_EXPECTED, *_EXTRACTED, "problem_idx", "repeat"}
    values: JsonDict = {}
    for name, value in row.items():
        if name not in used_columns and isinstance(value, (str, int, float)):
            values[name] = value
    return values
