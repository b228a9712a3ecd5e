"""The contract of an exporter: it sends finished runs to a tracker, and says where they went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import orjson

from nemo_evaluator.core.errors import EXIT_FAILED, NelError, UsageError
from nemo_evaluator.core.files import iter_jsonl, read_json
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.runs import load_run
from nemo_evaluator.store.sums import verified

_NOT_METRICS = frozenset({"summary", "breakdowns", "runtime", "failures"})


class ExportError(NelError):
    """An export did not happen, or only in part."""

    exit_code = EXIT_FAILED


@dataclass(frozen=True, slots=True)
class ExportBundle:
    """One finished benchmark: its bundle, and the rows beside it."""

    path: Path
    document: JsonDict

    @property
    def run_id(self) -> str:
        """What names this run everywhere."""
        return str(self.document.get("run_id") or self.path.stem)

    @property
    def run_dir(self) -> Path:
        """The output folder of the run that it is of."""
        return self.path.parent.parent

    @property
    def origin(self) -> str:
        """What stays the same when the run is resumed, and differs between two that end in the same second: empty
        for a bundle that lies in no run's folder."""
        run = load_run(self.run_dir)
        return f"{run.run_id}-{digest(run.output_dir)[:8]}/{self.path.parent.name}" if run is not None else ""

    @property
    def name(self) -> str:
        """The benchmark."""
        return str(self.document["benchmark"].get("name") or self.config.get("benchmark") or self.path.parent.name)

    @property
    def config(self) -> JsonDict:
        """How it was run."""
        return self.document.get("config") or {}

    @property
    def model(self) -> str:
        """Which model was asked."""
        return str(self.config.get("model") or "")

    @property
    def validity(self) -> JsonDict:
        """VALID or INVALID, with reasons."""
        return self.document.get("validity") or {}

    @property
    def scores(self) -> JsonDict:
        """The metrics as the bundle has them: name to mapping or number."""
        return {k: v for k, v in (self.document["benchmark"].get("scores") or {}).items() if k not in _NOT_METRICS}

    def metrics(self) -> dict[str, float]:
        """Every number worth plotting: scores with their bounds, coverage and shares, runtime."""
        bench = self.document["benchmark"]
        found: dict[str, float] = {}
        for name, raw in self.scores.items():
            fields = raw if isinstance(raw, dict) else {"value": raw}
            _put(found, name, fields.get("value"))
            _put(found, f"{name}/ci_lower", fields.get("ci_lower"))
            _put(found, f"{name}/ci_upper", fields.get("ci_upper"))
        _put(found, "coverage", (bench.get("coverage") or {}).get("share"))
        for share in ("truncated_share", "unparsed_share"):
            _put(found, share, bench.get(share))
        runtime = (bench.get("scores") or {}).get("runtime") or {}
        for name in ("total_tokens", "tokens_per_second", "steps_per_second", "elapsed_seconds"):
            _put(found, f"runtime/{name}", runtime.get(name))
        for name, value in (runtime.get("latency_percentiles_ms") or {}).items():
            _put(found, f"runtime/latency_{name}_ms", value)
        return found

    def rows(self) -> Iterator[JsonDict]:
        """The rows of results.jsonl, one at a time, each with its trajectory where one was kept."""
        results = self.path.parent / "results.jsonl"
        if not results.is_file():
            return
        conversations = _Conversations(self.path.parent / "trajectories.jsonl")
        for row in iter_jsonl(verified(results)):
            if not row.get("trajectory"):
                row["trajectory"] = conversations.of(row)
            yield row


class _Conversations:
    """Trajectories by step. Both files are in the same order, so hardly more than one is held at a time."""

    def __init__(self, path: Path) -> None:
        self._rest: Iterator[Any] = iter_jsonl(verified(path)) if path.is_file() else iter(())
        self._passed: dict[tuple[Any, Any], list[JsonDict]] = {}

    def of(self, row: JsonDict) -> list[JsonDict]:
        key = (row.get("problem_idx"), row.get("repeat", 0))
        if key in self._passed:
            return self._passed.pop(key)
        for line in self._rest:
            found = (line.get("problem_idx"), line.get("repeat", 0))
            if found == key:
                return line.get("trajectory") or []
            self._passed[found] = line.get("trajectory") or []
        return []


def steps_of(row: JsonDict) -> list[JsonDict]:
    """The steps of a row's conversation; what another writer left there in another shape is passed over."""
    documents = row.get("trajectory")
    first = documents[0] if isinstance(documents, list) and documents else None
    steps = first.get("steps") if isinstance(first, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def _put(into: dict[str, float], name: str, value: Any) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        into[name] = float(value)


@runtime_checkable
class Exporter(Protocol):
    """One call. Settings are the keywords of the constructor, which refuses those it does not know."""

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Send the bundles; ``config`` has ``output_dir``. Returns where they went. Raises when any did not go."""
        ...


def read_bundle(path: Path) -> ExportBundle:
    """A bundle file. Raises UsageError when it is none."""
    try:
        document = read_json(verified(path))
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("benchmark"), dict):
        raise UsageError(f"{path} is not a bundle", hint="a bundle is the eval-*.json file in a task folder")
    return ExportBundle(path, document)
