"""Is a finished run fit to be used? Every doubt by name, with its class, before anyone looks at the score."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import write_json
from nemo_evaluator.core.json_coerce import as_dict, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.check.findings import FailureClass, Finding, Level, RunCheck
from nemo_evaluator.decisions.usability import tampering_of
from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import RowTable, WrittenRows, read_table
from nemo_evaluator.runs.sessions import damage, sessions
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.statistics import by_problem
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import update_sums

# Ends that say nothing, or that the share of truncated answers speaks of; `none` is an answer that came from no model.
_USUAL_ENDS: Final = frozenset(
    {
        "stop",
        "end_turn",
        "stop_sequence",
        "eos",
        "length",
        "max_tokens",
        "tool_calls",
        "tool_use",
        "none",
    }
)
_EXAMPLE_CHARS: Final = 160
_CLASS_OF_CAUSE: Final = {
    Cause.JUDGE: FailureClass.JUDGE,
    **dict.fromkeys((Cause.AUTH, Cause.NOT_FOUND), FailureClass.CONFIG),
    **dict.fromkeys((Cause.RATE_LIMIT, Cause.TRANSPORT, Cause.OUTAGE), FailureClass.INFRA),
    **dict.fromkeys((Cause.SANDBOX, Cause.CANCELLED), FailureClass.INFRA),
}
_LINE_CHARS: Final = 160
_MOST_NAMED: Final = 5
_TROUBLE: Final = re.compile(
    rb"out of memory|OutOfMemoryError|segmentation fault|core dumped|EngineDeadError", re.I
)


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """From which share on something is more than a note."""

    truncated: float = 0.05
    unparsed: float = 0.05
    failed: float = 0.005
    refusals: float = 0.10
    reasoning: float = 0.05
    retried: float = 0.05
    slow: float = 20.0


def check_path(path: Path | str, limits: CheckLimits | None = None) -> list[RunCheck]:
    """Check every run under a path, and name the benchmarks there that did not get as far as a bundle."""
    checks = []
    for run in find_runs(Path(path)):
        checks.append(check_run(run, limits))
        checks[-1].findings += _damaged_records(run)
    for one in find_unfinished(Path(path)):
        if one.cause is None:
            found = FailureClass.INFRA
        else:
            found = _class_of(one.cause)
        finding = Finding("finished", Level.INVALID, one.reason, failure_class=found)
        checks.append(
            RunCheck(one.name, "", str(one.folder), rows=0, problems=0, findings=[finding])
        )
    return checks


def check_run(
    run: Bundle, limits: CheckLimits | None = None, written: WrittenRows | None = None
) -> RunCheck:
    """Check one run; ``written`` are its rows as they were just written, which are then not read again."""
    if written is None:
        answers = Answers()
    else:
        answers = written.answers
    try:
        if written is None:
            rows = read_table(run.results, answers=answers)
        else:
            rows = written.table
    except UsageError as error:
        broken = Finding(
            "accounting", Level.INVALID, error.message, failure_class=FailureClass.ACCOUNTING
        )
        return RunCheck(run.name, run.run_id, str(run.path), rows=0, problems=0, findings=[broken])
    subject = _Subject(run, rows, limits or CheckLimits(), answers=answers)
    # By message: what a bundle says of itself is often found again in its rows.
    findings = list(
        {finding.message: finding for look in _LOOKS for finding in look(subject)}.values()
    )
    problems = len(by_problem(rows.problem, rows.reward))
    return RunCheck(
        run.name, run.run_id, str(run.path), rows=len(rows), problems=problems, findings=findings
    )


def settle_status(
    task: TaskPaths, document: JsonDict, written: WrittenRows | None = None
) -> JsonDict:
    """Write the status of the check into a bundle that was just written: one status, whoever asks for it."""
    path = task.root / f"{document['run_id']}.json"
    check = check_run(Bundle(path, document), written=written)
    found = {"status": str(check.status), "reasons": check.reasons}
    if found != document["validity"]:
        document["validity"] = found
        write_json(path, document)
        update_sums(task.root, [path])
    return document


@dataclass(frozen=True, slots=True)
class _Subject:
    run: Bundle
    rows: RowTable
    limits: CheckLimits
    answers: Answers

    def share(self, flags: np.ndarray) -> float:
        scored = self.rows.scored
        if scored.any():
            return float(flags[scored].mean())
        return 0.0


def _finished(subject: _Subject) -> Iterator[Finding]:
    stopped = subject.run.stopped
    kind = str(stopped.get("kind") or "")
    if kind == "rule":
        yield Finding("finished", Level.NOTE, f"stopped early by its rule: {stopped.get('reason')}")
    elif kind:
        why = f"not finished, stopped by {kind}: {stopped.get('reason')}"
        cause = stopped.get("cause")
        # A budget ends a run as it was meant to: what was asked until then is whole.
        level = Level.DEGRADED if kind == "budget" else Level.INVALID
        yield Finding(
            "finished",
            level,
            why,
            failure_class=_class_of(str(cause)) if cause else FailureClass.INFRA,
        )
    if subject.run.document.get("error"):
        yield Finding(
            "finished",
            Level.INVALID,
            str(subject.run.document["error"]),
            failure_class=FailureClass.UNKNOWN,
        )
    shard = as_dict(subject.run.config.get("shard"))
    index = as_whole(shard.get("idx"))
    total = as_whole(shard.get("total"))
    if index is not None and total is not None and total > 1:
        words = f"part {index + 1} of {total}, not the whole benchmark (`nel eval merge` puts the parts together)"
        yield Finding("shard", Level.NOTE, words)


def _coverage(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    reasons = subject.run.invalid
    if subject.run.coverage.planned == 0:
        found = FailureClass.CONFIG
    else:
        found = _worst_class(rows)
    for reason in reasons:
        yield Finding("coverage", Level.INVALID, reason, failure_class=found)
    if not len(rows):
        if not reasons:
            yield Finding(
                "coverage",
                Level.INVALID,
                "there is no scored row: the file of rows is empty",
                failure_class=found,
            )
        return
    failed = int((~rows.scored).sum())
    if failed and not reasons:
        share = failed / len(rows)
        level = Level.DEGRADED if share > subject.limits.failed else Level.NOTE
        yield Finding(
            "coverage",
            level,
            f"{failed} of {len(rows)} rows failed ({share:.1%})",
            failure_class=_worst_class(rows),
        )


def _causes(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    analysed = {line.cause: line.examples for line in (*subject.run.failures, *subject.run.flaws)}
    codes, counts = np.unique(rows.cause[~rows.scored], return_counts=True)
    for code, count in sorted(
        zip(codes.tolist(), counts.tolist(), strict=True), key=lambda item: -item[1]
    ):
        cause = rows.causes[code] or "unknown"
        example = " ".join(" ".join(analysed.get(cause, ())[:1]).split())[:_EXAMPLE_CHARS]
        words = f"{cause}: {count}" + (f", such as: {example}" if example else "")
        yield Finding("failures", Level.NOTE, words, failure_class=_class_of(cause))


def _tampering(subject: _Subject) -> Iterator[Finding]:
    """Programs that reached for their judge: the model's own doing, though the mean leaves out every failed row."""
    tampering = tampering_of(subject.rows)
    if tampering is not None:
        level = Level.INVALID if tampering.too_much else Level.DEGRADED
        yield Finding("tamper", level, tampering.words, failure_class=FailureClass.UNKNOWN)


def _accounting(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    written = subject.run.document.get("n_results")
    if isinstance(written, int) and written != len(rows):
        message = f"the bundle counts {counted(written, 'row')}, the file holds {len(rows)}"
        yield Finding("accounting", Level.INVALID, message, failure_class=FailureClass.ACCOUNTING)
    planned = subject.run.coverage.planned or 0
    for holds, message in (
        (rows.repeated, f"{counted(rows.repeated, 'row')} came twice; the later counts"),
        (rows.malformed, counted(rows.malformed, "malformed line")),
        (planned > len(rows), f"{planned - len(rows)} of {planned} planned steps have no row"),
    ):
        if holds:
            yield Finding(
                "accounting", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING
            )


def _repeats(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    if not len(rows):
        return
    problems = by_problem(rows.problem, rows.reward)
    counts = problems.counts
    asked = as_whole(subject.run.benchmark.get("repeats")) or int(counts.max())
    uneven = int((counts != asked).sum())
    if uneven:
        message = f"{uneven} of {len(counts)} problems without {counted(asked, 'row')} each"
        yield Finding("repeats", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING)
    first = rows.content[problems.first]
    if bool((rows.content != 0).all()):
        same = len(first) - len(np.unique(first))
    else:
        same = 0
    if same:
        message = f"{same} problem{'s have' if same > 1 else ' has'} the content of another"
        yield Finding("repeats", Level.NOTE, message)


def _answers(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    limits = subject.limits
    answers = subject.answers
    over_context, over_budget = (
        answers.share(answers.labels[c]) for c in (Cause.CONTEXT_EXCEEDED, Cause.BUDGET)
    )
    # Where a refusal is the right answer, it is no doubt.
    refused = rows.refusal & ~(rows.reward >= 1)
    for name, share, limit, words in (
        (
            "truncated",
            subject.share(rows.truncated),
            limits.truncated,
            "of the answers are cut off",
        ),
        ("context", over_context, limits.truncated, "of the prompts do not fit the context"),
        ("budget", over_budget, limits.truncated, "of the tasks ran out of their budget"),
        (
            "unparsed",
            subject.share(rows.unparsed),
            limits.unparsed,
            "of the answers could not be parsed",
        ),
        ("empty", answers.share(answers.empty), limits.unparsed, "of the answers are empty"),
        (
            "reasoning",
            answers.share(answers.unmatched),
            limits.reasoning,
            "of the answers hold half a reasoning block",
        ),
        (
            "reasoning",
            answers.share(answers.kept),
            1.0,
            "of the answers still hold their reasoning",
        ),
        ("refusals", subject.share(refused), limits.refusals, "of the answers look like refusals"),
    ):
        if share > 0:
            over = share > limit
            said = f"{share:.1%} {words}" + (f" (limit {100 * limit:g}%)" if over else "")
            yield Finding(
                name,
                Level.DEGRADED if over else Level.NOTE,
                said,
                failure_class=FailureClass.UNKNOWN,
            )
    if answers.tripwires:
        words = ", ".join(f"{what} ({count})" for what, count in answers.tripwires.most_common())
        said = f"agents reached for their grading: {words}; {answers.rewarded_trips} of them got a reward"
        level = Level.DEGRADED if answers.rewarded_trips else Level.NOTE
        yield Finding("tripwires", level, said, failure_class=FailureClass.UNKNOWN)
    if answers.share(answers.retried) > limits.retried:
        words = f"{answers.share(answers.retried):.1%} of the steps were tried more than once"
        yield Finding("retries", Level.NOTE, words, failure_class=FailureClass.INFRA)


def _finish_reasons(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    codes, counts = np.unique(rows.finish[rows.scored], return_counts=True)
    table: dict[Any | str, Any] = {}
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        table[rows.finishes[code] or "none"] = count
    unusual = [f"{name}: {n}" for name, n in table.items() if name not in _USUAL_ENDS]
    if unusual:
        yield Finding("finish_reasons", Level.NOTE, ", ".join(unusual))


def _latency(subject: _Subject) -> Iterator[Finding]:
    latency = subject.rows.latency[subject.rows.scored]
    if len(latency) < 20 or not latency.any():
        return
    middle = float(np.median(latency))
    worst = float(latency.max())
    if middle and worst / middle > subject.limits.slow:
        message = (
            f"the slowest answer took {worst / 1000:.1f} s, {worst / middle:.0f} times the median"
        )
        yield Finding("latency", Level.NOTE, message)


def _score(subject: _Subject) -> Iterator[Finding]:
    rows = subject.rows
    scored = rows.scored
    values = {score.name: score.value for score in subject.run.scores}
    usual = {"pass@1", "mean_reward"} & as_dict(subject.run.benchmark.get("scores")).keys()
    if not values or (usual and not usual & values.keys()):
        if scored.any():
            yield Finding(
                "score",
                Level.INVALID,
                "the bundle has no score",
                failure_class=FailureClass.ACCOUNTING,
            )
        return
    # Other harnesses have metrics of their own, which the rows need not give.
    value = values.get("pass@1", values.get("mean_reward"))
    if scored.any() and value is not None:
        again = float(by_problem(rows.problem[scored], rows.reward[scored]).means.mean())
        # Some benchmarks publish their score clipped.
        if min(abs(again - value), abs(min(1.0, max(0.0, again)) - value)) > 1e-3:
            message = f"the bundle says {value:.4f}, the rows give {again:.4f}"
            yield Finding("score", Level.INVALID, message, failure_class=FailureClass.ACCOUNTING)


def _class_of(cause: str) -> FailureClass:
    if cause in list(Cause):
        return _CLASS_OF_CAUSE.get(Cause(cause), FailureClass.UNKNOWN)
    return FailureClass.UNKNOWN


def _worst_class(rows: RowTable) -> FailureClass:
    codes = np.unique(rows.cause[~rows.scored]).tolist()
    found = [_class_of(rows.causes[code]) for code in codes]
    return min(found, key=list(FailureClass).index, default=FailureClass.ACCOUNTING)


def _drift(subject: _Subject) -> Iterator[Finding]:
    """Sessions of one run that were not set up alike: answers of several settings may be mixed."""
    seen = [as_dict(session.get("fingerprints")) for session in sessions(subject.run.files.journal)]
    keys: set[str] = set()
    for prints in seen:
        for key in prints:
            keys.add(key)
    drifted = sorted(key for key in keys if len({prints.get(key) for prints in seen}) > 1)
    if drifted:
        message = f"{', '.join(drifted)} changed between {len(seen)} sessions; answers that no longer fit were redone"
        yield Finding("config", Level.NOTE, message)


def _damaged_records(run: Bundle) -> Iterator[Finding]:
    """Records of the journal that changed after they were written. The score stands on files that are checked apart."""
    found = damage(run.files.journal)
    if found:
        if len(found) > _MOST_NAMED:
            more = f" and {len(found) - _MOST_NAMED} more"
        else:
            more = ""
        words = "; ".join(map(str, found[:_MOST_NAMED]))
        message = f"{words}{more}: `nel eval resume` does these steps again"
        yield Finding("journal", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING)


def _server_trouble(subject: _Subject) -> Iterator[Finding]:
    """Lines in the logs of the servers we started: what they cost is counted elsewhere, this says where to look."""
    for log in sorted((subject.run.path.parent.parent / "logs").glob("server-*.log")):
        with log.open("rb") as file:
            line = next((line for line in file if _TROUBLE.search(line)), None)
        if line is not None:
            words = " ".join(line.decode("utf-8", "replace").split())[:_LINE_CHARS]
            yield Finding(
                "server", Level.NOTE, f"{log.name}: {words}", failure_class=FailureClass.INFRA
            )


_LOOKS: Final[tuple[Callable[[_Subject], Iterator[Finding]], ...]] = (
    _finished,
    _coverage,
    _causes,
    _tampering,
    _accounting,
    _repeats,
    _score,
    _answers,
    _finish_reasons,
    _latency,
    _drift,
    _server_trouble,
)
