"""Is a finished run fit to be used? Every doubt by name, with its class, before anyone looks at the score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.bundles import Run, find_runs
from nemo_evaluator.decisions.findings import FailureClass, Finding, Level, RunCheck
from nemo_evaluator.decisions.rows import Rows, read_rows, rows_of
from nemo_evaluator.metrics import by_problem

_USUAL_ENDS: Final = ("stop", "length", "max_tokens", "tool_calls", "none")
_CLASS_OF_CAUSE: Final = {
    Cause.JUDGE: FailureClass.JUDGE,
    Cause.AUTH: FailureClass.JUDGE,
    Cause.RATE_LIMIT: FailureClass.JUDGE,
    Cause.TRANSPORT: FailureClass.INFRA,
    Cause.SANDBOX: FailureClass.INFRA,
    Cause.NOT_FOUND: FailureClass.INFRA,
    Cause.CANCELLED: FailureClass.INFRA,
}


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """From which share on something is more than a note."""

    truncated: float = 0.05
    unparsed: float = 0.05
    failed: float = 0.005
    refusals: float = 0.10
    slow: float = 20.0


def check_path(path: Path | str, limits: CheckLimits | None = None) -> list[RunCheck]:
    """Check every run under a path."""
    return [check_run(run, limits) for run in find_runs(Path(path))]


def check_run(run: Run, limits: CheckLimits | None = None) -> RunCheck:
    """Check one run."""
    rows = read_rows(run.results) if run.results.is_file() else rows_of([])
    subject = _Subject(run, rows, limits or CheckLimits())
    findings = [finding for look in _LOOKS for finding in look(subject)]
    return RunCheck(run.name, run.run_id, str(run.path), len(rows), findings)


@dataclass(frozen=True, slots=True)
class _Subject:
    run: Run
    rows: Rows
    limits: CheckLimits

    @property
    def coverage(self) -> JsonDict:
        found = self.run.benchmark.get("coverage")
        return found if isinstance(found, dict) else {}

    def share(self, flags: np.ndarray) -> float:
        scored = self.rows.scored
        return float(flags[scored].mean()) if scored.any() else 0.0


def _finished(subject: _Subject) -> Iterator[Finding]:
    stopped = subject.run.bundle.get("stopped") or {}
    kind = str(stopped.get("kind") or "")
    if kind == "rule":
        yield Finding("finished", Level.NOTE, f"stopped early by its rule: {stopped.get('reason')}")
    elif kind:
        why = f"not finished, stopped by {kind}: {stopped.get('reason')}"
        yield Finding("finished", Level.INVALID, why, FailureClass.INFRA)
    if subject.run.bundle.get("error"):
        yield Finding("finished", Level.INVALID, str(subject.run.bundle["error"]), FailureClass.UNKNOWN)


def _coverage(subject: _Subject) -> Iterator[Finding]:
    reasons = subject.run.invalid
    for reason in reasons:
        yield Finding("coverage", Level.INVALID, reason, _worst_class(subject.rows))
    rows = subject.rows
    if not len(rows):
        yield Finding("coverage", Level.INVALID, "there are no rows", FailureClass.ACCOUNTING)
        return
    failed = int((~rows.scored).sum())
    if failed and not reasons:
        share = failed / len(rows)
        level = Level.DEGRADED if share > subject.limits.failed else Level.NOTE
        yield Finding("coverage", level, f"{failed} of {len(rows)} rows failed ({share:.1%})", _worst_class(rows))


def _causes(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    codes, counts = np.unique(rows.cause[~rows.scored], return_counts=True)
    for code, count in sorted(zip(codes.tolist(), counts.tolist(), strict=True), key=lambda item: -item[1]):
        cause = rows.causes[code] or "unknown"
        yield Finding("failures", Level.NOTE, f"{cause}: {count}", _class_of(cause))


def _accounting(subject: _Subject) -> Iterator[Finding]:
    rows, run = subject.rows, subject.run
    written = run.bundle.get("n_results")
    if isinstance(written, int) and written != len(rows):
        message = f"the bundle counts {written} rows, the file holds {len(rows)}"
        yield Finding("accounting", Level.INVALID, message, FailureClass.ACCOUNTING)
    if rows.repeated:
        message = f"{rows.repeated} rows came twice; the later ones count"
        yield Finding("accounting", Level.DEGRADED, message, FailureClass.ACCOUNTING)
    if rows.malformed:
        message = f"{rows.malformed} lines are not rows"
        yield Finding("accounting", Level.DEGRADED, message, FailureClass.ACCOUNTING)
    planned = subject.coverage.get("planned")
    if isinstance(planned, int) and planned > len(rows):
        message = f"{planned - len(rows)} of {planned} planned steps have no row"
        yield Finding("accounting", Level.DEGRADED, message, FailureClass.ACCOUNTING)


def _repeats(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    if not len(rows):
        return
    _, counts = np.unique(rows.problem, return_counts=True)
    asked = int(subject.run.benchmark.get("repeats") or counts.max())
    uneven = int((counts != asked).sum())
    if uneven:
        message = f"{uneven} of {len(counts)} problems do not have {asked} rows"
        yield Finding("repeats", Level.DEGRADED, message, FailureClass.ACCOUNTING)
    if bool((rows.content != 0).all()):
        first = rows.content[np.unique(rows.problem, return_index=True)[1]]
        same = len(first) - len(np.unique(first))
        if same:
            yield Finding("repeats", Level.NOTE, f"{same} problems have the content of another problem")


def _answers(subject: _Subject) -> Iterator[Finding]:
    rows, limits = subject.rows, subject.limits
    for name, flags, limit, words in (
        ("truncated", rows.truncated, limits.truncated, "answers are cut off"),
        ("unparsed", rows.unparsed, limits.unparsed, "answers hold nothing that could be read"),
        ("refusals", rows.refusal, limits.refusals, "answers look like refusals"),
    ):
        share = subject.share(flags)
        if share > 0:
            level = Level.DEGRADED if share > limit else Level.NOTE
            yield Finding(name, level, f"{share:.1%} of the {words}", FailureClass.UNKNOWN)


def _finish_reasons(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    codes, counts = np.unique(rows.finish[rows.scored], return_counts=True)
    table = {rows.finishes[code] or "none": count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}
    unusual = {
        name: n for name, n in table.items() if name not in ("stop", "length", "max_tokens", "tool_calls", "none")
    }
    if unusual:
        words = ", ".join(f"{name}: {n}" for name, n in unusual.items())
        yield Finding("finish_reasons", Level.NOTE, words)


def _latency(subject: _Subject) -> Iterator[Finding]:
    latency = subject.rows.latency[subject.rows.scored]
    if len(latency) < 20 or not latency.any():
        return
    middle, worst = float(np.median(latency)), float(latency.max())
    if middle and worst / middle > subject.limits.slow:
        message = f"the slowest answer took {worst / 1000:.1f} s, {worst / middle:.0f} times the median"
        yield Finding("latency", Level.NOTE, message)


def _score(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    scored = rows.scored
    scores = subject.run.benchmark.get("scores") or {}
    entry = scores.get("pass@1") or scores.get("mean_reward") or {}
    value = entry.get("value") if isinstance(entry, dict) else None
    if not isinstance(value, int | float) or not math.isfinite(value):
        if scored.any():
            yield Finding("score", Level.INVALID, "the bundle has no score", FailureClass.ACCOUNTING)
        return
    if scored.any():
        again = float(by_problem(rows.problem[scored], rows.reward[scored]).means.mean())
        if abs(again - value) > 1e-3:
            message = f"the bundle says {value:.4f}, the rows give {again:.4f}"
            yield Finding("score", Level.INVALID, message, FailureClass.ACCOUNTING)


def _drift(subject: _Subject) -> Iterator[Finding]:
    """Sessions of one run that were not set up alike: answers of several settings may be mixed."""
    journal = subject.run.path.parent / "journal.jsonl"
    if not journal.is_file():
        return
    seen: list[JsonDict] = []
    with journal.open("rb") as file:
        for line in file:
            if b'"kind":"run"' in line[:200]:
                try:
                    seen.append(orjson.loads(line).get("fingerprints") or {})
                except orjson.JSONDecodeError:
                    continue
    keys = {key for prints in seen for key in prints}
    drifted = sorted(key for key in keys if len({prints.get(key) for prints in seen}) > 1)
    if drifted:
        message = f"{', '.join(drifted)} changed between {len(seen)} sessions; answers that no longer fit were redone"
        yield Finding("config", Level.NOTE, message)


def _class_of(cause: str) -> FailureClass:
    return _CLASS_OF_CAUSE.get(Cause(cause), FailureClass.UNKNOWN) if cause in list(Cause) else FailureClass.UNKNOWN


def _worst_class(rows: Rows) -> FailureClass:
    codes = np.unique(rows.cause[~rows.scored]).tolist()
    found = [_class_of(rows.causes[code]) for code in codes]
    return min(found, key=list(FailureClass).index, default=FailureClass.ACCOUNTING)


_LOOKS: Final[tuple[Callable[[_Subject], Iterator[Finding]], ...]] = (
    _finished,
    _coverage,
    _causes,
    _accounting,
    _repeats,
    _score,
    _answers,
    _finish_reasons,
    _latency,
    _drift,
)
