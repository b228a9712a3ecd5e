"""Converts results of harness containers (``results/results.yml``) to bundles and rows, for reports and exports."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, iter_jsonl, write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths

# Keys that structure a document and are not part of a metric's name.
_SHAPE: Final = frozenset({"results", "tasks", "groups", "metrics", "scores"})
_REWARDS: Final = (
    "reward",
    "score",
    "symbolic_correct",
    "correct",
    "is_correct",
    "passed",
    "success",
)
_FIELDS: Final = {
    "prompt": ("problem", "question", "input"),
    "model_response": ("generation", "response", "output"),
    "expected_answer": ("expected_answer", "answer"),
    "extracted_answer": ("predicted_answer",),
}


def convert_legacy(root: Path) -> list[Path]:
    """Create a bundle and rows for every harness result under ``root``; existing ones are kept.

    Returns:
        The new bundles.
    """
    if not root.is_dir():
        return []
    result_files = {*root.rglob("results/results.yml"), *root.rglob("results/results.json")}
    new_bundles = []
    for path in sorted(result_files):
        if PREVIOUS in path.relative_to(root).parts:
            continue
        task = TaskPaths(path.parent.parent)
        rows = _fill_rows(task, path.parent)
        if not task.bundles():
            new_bundles.append(_write_bundle(task, path, rows))
    return new_bundles


def _write_bundle(task: TaskPaths, path: Path, rows: int) -> Path:
    """Write the bundle of one harness result; returns its path."""
    document = _read(path)
    settings: JsonDict = {}
    if (task.root / "run_config.yaml").is_file():
        settings = _read(task.root / "run_config.yaml")
    config = as_dict(settings.get("config")) or as_dict(document.get("config"))
    target = as_dict(settings.get("target")) or as_dict(document.get("target"))
    full_name = str(config.get("type") or settings.get("image") or task.root.name)
    name = full_name.rsplit("/", 1)[-1]
    extra = as_dict(as_dict(config.get("params")).get("extra"))
    finished = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    scores = dict(_scores(document.get("results", document), ()))
    sample_counts = [score.pop("count", 0) for score in scores.values()]
    bundle_path = task.bundle(name, finished)
    bundle: JsonDict = {
        "run_id": bundle_path.stem,
        "timestamp": finished.isoformat(),
        "config": {
            "benchmark": f"container/{name}",
            "model": as_dict(target.get("api_endpoint")).get("model_id"),
            "task": config.get("type"),
            "framework": "container",
        },
        "benchmark": {
            "name": f"container/{name}",
            "samples": max(sample_counts, default=0),
            "repeats": int(extra.get("num_repeats") or 1),
            "scores": scores,
        },
        "n_results": rows,
    }
    write_json(bundle_path, bundle)
    return bundle_path


def _scores(node: Any, path: tuple[str, ...]) -> Iterator[tuple[str, JsonDict]]:
    """Yield the metrics of a results document with their dotted names."""
    if not isinstance(node, dict):
        return
    value = node.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        score: JsonDict = {"value": value}
        count = as_dict(node.get("stats")).get("count")
        if isinstance(count, int):
            score |= {"count": count, "n": count}
        yield ".".join(path) or "score", score
        return
    for key, child in node.items():
        yield from _scores(child, path if key in _SHAPE else (*path, str(key)))


def _fill_rows(task: TaskPaths, results: Path) -> int:
    """Write results.jsonl from the harness's own rows unless there are rows already; returns the number of rows."""
    if task.results.is_file() and task.results.stat().st_size:
        return sum(1 for _ in iter_jsonl(task.results))
    sources = sorted((results / "eval-results").rglob("output*.jsonl"))
    if not sources:
        return 0
    repeats: Counter[int] = Counter()
    with task.results.open("wb") as results_file:
        raw_rows = chain.from_iterable(map(iter_jsonl, sources))
        for number, source_row in enumerate(raw_rows):
            problem = source_row.get("problem_idx", number)
            results_file.write(dumps(_row(source_row, problem, repeats[problem])) + b"\n")
            repeats[problem] += 1
    return sum(repeats.values())


def _row(raw: JsonDict, problem: int, repeat: int) -> JsonDict:
    """Convert one row of a harness to a row of results.jsonl."""
    reward: float | None = None
    for name in _REWARDS:
        if isinstance(raw.get(name), int | float):
            reward = float(raw[name])
            break
    row: JsonDict = {"problem_idx": problem, "repeat": repeat, "reward": reward}
    row["status"] = "scored" if reward is not None else "failed"
    if reward is None:
        row["failure"] = {"cause": "scorer", "message": "the harness gave this row no score"}
    for field, names in _FIELDS.items():
        values = [raw[name] for name in names if raw.get(name) is not None]
        row[field] = values[0] if values else None
    return row


def _read(path: Path) -> JsonDict:
    """Read a YAML or JSON document.

    Raises:
        UsageError: The file cannot be parsed.
    """
    try:
        text = path.read_bytes()
        if path.suffix == ".json":
            loaded = orjson.loads(text)
        else:
            loaded = load_yaml(text)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return as_dict(loaded)
