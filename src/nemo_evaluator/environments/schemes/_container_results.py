"""The results of a harness container: its scores, and its rows if it wrote any."""

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
_EXTRACTED: Final = ("extracted_answer", "predicted_answer")


@dataclass(slots=True)
class HarnessResults:
    """The results of a harness.

    Attributes:
        scores: The scores by ``task/metric/score``.
        counts: The number of samples of each score, if reported.
        samples: The number of samples of the whole run.
        rows: The rows; a single one with the first score if the harness wrote none.
    """

    scores: dict[str, float]
    counts: dict[str, float]
    samples: int
    rows: list[BatchRow]


def read_results(folder: Path) -> HarnessResults:
    """Read a results folder.

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
    scores, counts = _scores(document)
    if not scores:
        raise SolverError(
            f"{file} is cut off or holds no scores (results.tasks.TASK.metrics.METRIC.scores)"
        )
    samples = _samples(document, counts)
    rows = [_row(row, number) for number, row in enumerate(_rows(folder))]
    if not rows:
        name, value = next(iter(scores.items()))
        rows = [_only_row(name, value, samples)]
    return HarnessResults(scores, counts, samples, rows=rows)


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


def _only_row(name: str, value: float, samples: int) -> BatchRow:
    """Return the row of a harness that wrote none: its first score."""
    details: JsonDict = {
        "method": "container",
        "score": name,
        "samples": samples,
        "note": "the harness gave no single rows",
    }
    outcome = Scored(VerifyResult(value, None, details))
    return BatchRow(0, SeedResult(name, ""), SolveResult(""), outcome=outcome)


def _scores(document: JsonDict) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of a results document and their sample counts, by ``task/metric/score``."""
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    for section in ("tasks", "groups"):
        for name, score in _score_entries(document, section):
            value = score.get("value")
            if not isinstance(value, (int, float)):
                continue
            scores[name] = round(float(value), 4)
            count = as_dict(score.get("stats")).get("count")
            if isinstance(count, (int, float)):
                counts[name] = float(count)
        if scores:
            return scores, counts
    flat_scores = {**as_dict(document.get("metrics")), **as_dict(document.get("scores"))}
    for name, value in flat_scores.items():
        if isinstance(value, (int, float)):
            scores[name] = round(float(value), 4)
    return scores, counts


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


def _row(row: JsonDict, number: int) -> BatchRow:
    """Convert a row of the harness; without a reward, the row failed."""
    reward = _reward(row)
    if reward is None:
        failure = Failure(Cause.SCORER, f"the harness gave no reward for its row {number}")
        outcome: Scored | Failed = Failed(failure)
    else:
        details = {"method": "container", **_other_values(row)}
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
