"""What a harness container leaves behind: ``results.yml`` with scores and counts, and rows of single samples."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from nemo_evaluator.core.errors import SolverError
from nemo_evaluator.core.failures import Cause, Failure
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import Failed, JsonDict, Outcome, Scored, SeedResult, SolveResult, VerifyResult
from nemo_evaluator.environments.base import BatchRow

_FILES: Final = ("results.yml", "results.yaml", "results.json")
_ROWS: Final = "eval-results/**/output*.jsonl"
_REWARDS: Final = ("reward", "score", "symbolic_correct", "correct", "is_correct", "passed", "success")
_PROMPTS: Final = ("problem", "question", "input", "prompt")
_ANSWERS: Final = ("generation", "response", "output")
_EXPECTED: Final = ("expected_answer", "answer")
_EXTRACTED: Final = ("extracted_answer", "predicted_answer")


@dataclass(slots=True)
class HarnessResults:
    """Scores by ``task/metric/score``, how many samples they are over, and the rows where there are any."""

    scores: dict[str, float]
    counts: dict[str, float]
    samples: int
    rows: list[BatchRow] = field(default_factory=list)

    @property
    def problems(self) -> int:
        """How many problems there should be: rows that are missing count as not scored."""
        known = max((row.problem_idx for row in self.rows), default=0) + 1
        return max(known, self.samples if len(self.rows) > 1 else 1)


def read_results(folder: Path) -> HarnessResults:
    """Read a results folder. Raises SolverError, naming the file, when it is not there or cut off."""
    file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if file is None:
        found = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) if folder.is_dir() else ""
        raise SolverError(f"the container ended well and wrote no results.yml (it wrote: {found or 'nothing'})")
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SolverError(f"{file} is cut off or no YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(document, dict):
        raise SolverError(f"{file} is cut off: it holds no results")
    scores, counts = _scores(document)
    if not scores:
        raise SolverError(f"{file} is cut off or holds no scores (results.tasks.TASK.metrics.METRIC.scores)")
    samples = _samples(document, counts)
    rows = list(_rows(folder)) or [_whole(scores, samples)]
    return HarnessResults(scores, counts, samples, rows)


def _scores(document: JsonDict) -> tuple[dict[str, float], dict[str, float]]:
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    results = as_dict(document.get("results"))
    for part in ("tasks", "groups"):
        for task, entry in as_dict(results.get(part)).items():
            for metric, group in as_dict(as_dict(entry).get("metrics")).items():
                for name, score in as_dict(as_dict(group).get("scores")).items():
                    value, stats = as_dict(score).get("value"), as_dict(as_dict(score).get("stats"))
                    if isinstance(value, (int, float)):
                        scores[f"{task}/{metric}/{name}"] = round(float(value), 4)
                        if isinstance(stats.get("count"), (int, float)):
                            counts[f"{task}/{metric}/{name}"] = float(stats["count"])
        if scores:
            return scores, counts
    flat = {**as_dict(document.get("metrics")), **as_dict(document.get("scores"))}
    return {name: round(float(value), 4) for name, value in flat.items() if isinstance(value, (int, float))}, counts


def _samples(document: JsonDict, counts: dict[str, float]) -> int:
    params = as_dict(as_dict(document.get("config")).get("params"))
    told = (document.get("samples"), document.get("n_samples"), *counts.values(), params.get("limit_samples"))
    return int(next((number for number in told if isinstance(number, (int, float))), 0))


def _rows(folder: Path) -> Iterator[BatchRow]:
    number = 0
    for file in sorted(folder.glob(_ROWS)):
        for at, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise SolverError(f"{file}: line {at} is cut off or no JSON") from error
            if not isinstance(row, dict):
                raise SolverError(f"{file}: line {at} is no JSON object")
            yield _row(row, number)
            number += 1


def _row(row: JsonDict, number: int) -> BatchRow:
    prompt, response = _first(row, _PROMPTS), _first(row, _ANSWERS)
    extracted = _first(row, _EXTRACTED)
    taken = {*_PROMPTS, *_ANSWERS, *_EXPECTED, *_EXTRACTED, "problem_idx", "repeat"}
    rest = {key: value for key, value in row.items() if key not in taken and isinstance(value, (str, int, float))}
    reward = next((row[key] for key in _REWARDS if isinstance(row.get(key), (bool, int, float))), None)
    outcome: Outcome
    if reward is None:
        outcome = Failed(Failure(Cause.SCORER, f"the harness gave no reward for its row {number}"))
    else:
        told = None if extracted is None else str(extracted)
        outcome = Scored(VerifyResult(float(reward), told, {"method": "container", **rest}))
    seed = SeedResult("" if prompt is None else str(prompt), str(_first(row, _EXPECTED) or ""))
    answer = SolveResult("" if response is None else str(response))
    return BatchRow(int(row.get("problem_idx", number)), seed, answer, outcome, int(row.get("repeat", 0)))


def _whole(scores: dict[str, float], samples: int) -> BatchRow:
    """A harness that itemises nothing: its first score, as the one row that there is."""
    name, value = next(iter(scores.items()))
    details = {"method": "container", "score": name, "samples": samples, "note": "the harness gave no single rows"}
    return BatchRow(0, SeedResult(name, ""), SolveResult(""), Scored(VerifyResult(value, None, details)))


def _first(row: JsonDict, names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)
