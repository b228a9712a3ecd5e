"""Check whether a finished run is fit to be used: every problem has a name and a class before anyone sees the score."""

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

# Finish reasons that are normal, or that the share of truncated answers covers; `none` is an answer without a model.
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
    """The share of answers from which a problem degrades the run; below it the problem is only a note.

    Attributes:
        truncated: Truncated answers; also prompts that exceed the context and tasks that ran out of budget.
        unparsed: Answers that could not be parsed; also empty answers.
        failed: Failed rows.
        refusals: Answers that look like refusals without being right.
        reasoning: Answers with an unmatched reasoning tag.
        retried: Retried steps; above the limit they are noted, never more.
        slow: How many times slower than the median the slowest answer must be to be noted.
    """

    truncated: float = 0.05
    unparsed: float = 0.05
    failed: float = 0.005
    refusals: float = 0.10
    reasoning: float = 0.05
    retried: float = 0.05
    slow: float = 20.0


def check_path(path: Path | str, limits: CheckLimits | None = None) -> list[RunCheck]:
    """Check every run under a path.

    Args:
        path: The folder, or one run.
        limits: The limits to apply; None for the defaults.

    Returns:
        One check per finished run, then one INVALID check for each benchmark that did not produce a bundle.
    """
    checks = []
    for run in find_runs(Path(path)):
        checks.append(check_run(run, limits))
        checks[-1].findings += _damaged_records(run)
    for unfinished in find_unfinished(Path(path)):
        if unfinished.cause is None:
            failure_class = FailureClass.INFRA
        else:
            failure_class = _class_of(unfinished.cause)
        finding = Finding("finished", Level.INVALID, unfinished.reason, failure_class=failure_class)
        checks.append(
            RunCheck(
                unfinished.name, "", str(unfinished.folder), rows=0, problems=0, findings=[finding]
            )
        )
    return checks


def check_run(
    run: Bundle, limits: CheckLimits | None = None, written: WrittenRows | None = None
) -> RunCheck:
    """Check one run.

    Args:
        run: The run.
        limits: The limits to apply; None for the defaults.
        written: The rows that were just written, to save reading the file again.

    Returns:
        The check. Rows that cannot be read make the run INVALID instead of raising an error.
    """
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
        unreadable = Finding(
            "accounting", Level.INVALID, error.message, failure_class=FailureClass.ACCOUNTING
        )
        return RunCheck(
            run.name, run.run_id, str(run.path), rows=0, problems=0, findings=[unreadable]
        )
    subject = _Subject(run, rows, limits or CheckLimits(), answers=answers)
    # Keyed by message: a problem stated in the bundle is often found again in its rows.
    findings = list(
        {finding.message: finding for check in _LOOKS for finding in check(subject)}.values()
    )
    problems = len(by_problem(rows.problem, rows.reward))
    return RunCheck(
        run.name, run.run_id, str(run.path), rows=len(rows), problems=problems, findings=findings
    )


def settle_status(
    task: TaskPaths, document: JsonDict, written: WrittenRows | None = None
) -> JsonDict:
    """Store the status of the check in a bundle that was just written, so that every reader gets the same status.

    Args:
        task: The task's folder.
        document: The bundle; its ``validity`` is replaced.
        written: The rows that were just written.

    Returns:
        The same document.
    """
    path = task.root / f"{document['run_id']}.json"
    check = check_run(Bundle(path, document), written=written)
    validity = {"status": str(check.status), "reasons": check.reasons}
    if validity != document["validity"]:
        document["validity"] = validity
        write_json(path, document)
        update_sums(task.root, [path])
    return document


@dataclass(frozen=True, slots=True)
class _Subject:
    """The run under check: its rows, the limits, and what its answers look like."""

    run: Bundle
    rows: RowTable
    limits: CheckLimits
    answers: Answers

    def share(self, flags: np.ndarray) -> float:
        """The share of scored rows for which a flag is set; 0 without scored rows."""
        scored = self.rows.scored
        if scored.any():
            return float(flags[scored].mean())
        return 0.0


def _finished(subject: _Subject) -> Iterator[Finding]:
    """Whether the run ended early, failed, or is only one shard."""
    stopped = subject.run.stopped
    stop_kind = str(stopped.get("kind") or "")
    if stop_kind == "rule":
        yield Finding("finished", Level.NOTE, f"stopped early by its rule: {stopped.get('reason')}")
    elif stop_kind:
        message = f"not finished, stopped by {stop_kind}: {stopped.get('reason')}"
        cause = stopped.get("cause")
        # A budget ends a run as intended: the answers up to then are complete.
        level = Level.DEGRADED if stop_kind == "budget" else Level.INVALID
        yield Finding(
            "finished",
            level,
            message,
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
        note = f"part {index + 1} of {total}, not the whole benchmark (`nel eval merge` puts the parts together)"
        yield Finding("shard", Level.NOTE, note)


def _coverage(subject: _Subject) -> Iterator[Finding]:
    """Whether enough of the planned rows have a score."""
    rows = subject.rows
    reasons = subject.run.invalid
    if subject.run.coverage.planned == 0:
        worst_class = FailureClass.CONFIG
    else:
        worst_class = _worst_class(rows)
    for reason in reasons:
        yield Finding("coverage", Level.INVALID, reason, failure_class=worst_class)
    if not len(rows):
        if not reasons:
            yield Finding(
                "coverage",
                Level.INVALID,
                "there is no scored row: the file of rows is empty",
                failure_class=worst_class,
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
    """One note per cause of failed rows, the most frequent first, each with an example."""
    rows = subject.rows
    analysed = {
        cause_group.cause: cause_group.examples
        for cause_group in (*subject.run.failures, *subject.run.flaws)
    }
    codes, counts = np.unique(rows.cause[~rows.scored], return_counts=True)
    for code, count in sorted(
        zip(codes.tolist(), counts.tolist(), strict=True), key=lambda item: -item[1]
    ):
        cause = rows.causes[code] or "unknown"
        example = " ".join(" ".join(analysed.get(cause, ())[:1]).split())[:_EXAMPLE_CHARS]
        message = f"{cause}: {count}" + (f", such as: {example}" if example else "")
        yield Finding("failures", Level.NOTE, message, failure_class=_class_of(cause))


def _tampering(subject: _Subject) -> Iterator[Finding]:
    """Programs that tampered with their judge; the model did this itself, although failed rows are not in the mean."""
    tampering = tampering_of(subject.rows)
    if tampering is not None:
        level = Level.INVALID if tampering.too_much else Level.DEGRADED
        yield Finding("tamper", level, tampering.words, failure_class=FailureClass.UNKNOWN)


def _accounting(subject: _Subject) -> Iterator[Finding]:
    """Whether the numbers of planned, counted and stored rows agree."""
    rows = subject.rows
    counted_rows = subject.run.document.get("n_results")
    if isinstance(counted_rows, int) and counted_rows != len(rows):
        message = f"the bundle counts {counted(counted_rows, 'row')}, the file holds {len(rows)}"
        yield Finding("accounting", Level.INVALID, message, failure_class=FailureClass.ACCOUNTING)
    planned = subject.run.coverage.planned or 0
    for applies, message in (
        (rows.repeated, f"{counted(rows.repeated, 'row')} came twice; the later counts"),
        (rows.malformed, counted(rows.malformed, "malformed line")),
        (planned > len(rows), f"{planned - len(rows)} of {planned} planned steps have no row"),
    ):
        if applies:
            yield Finding(
                "accounting", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING
            )


def _repeats(subject: _Subject) -> Iterator[Finding]:
    """Problems without the planned number of repeats, and problems with the same content."""
    rows = subject.rows
    if not len(rows):
        return
    problems = by_problem(rows.problem, rows.reward)
    counts = problems.counts
    planned_repeats = as_whole(subject.run.benchmark.get("repeats")) or int(counts.max())
    uneven = int((counts != planned_repeats).sum())
    if uneven:
        message = (
            f"{uneven} of {len(counts)} problems without {counted(planned_repeats, 'row')} each"
        )
        yield Finding("repeats", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING)
    first_contents = rows.content[problems.first]
    if bool((rows.content != 0).all()):
        shared_contents = len(first_contents) - len(np.unique(first_contents))
    else:
        shared_contents = 0
    if shared_contents:
        message = f"{shared_contents} problem{'s have' if shared_contents > 1 else ' has'} the content of another"
        yield Finding("repeats", Level.NOTE, message)


def _answers(subject: _Subject) -> Iterator[Finding]:
    """Shares of answers that are truncated, unparsed, empty or refusals, and signs of reward hacking."""
    rows = subject.rows
    limits = subject.limits
    answers = subject.answers
    over_context, over_budget = (
        answers.share(answers.labels[cause]) for cause in (Cause.CONTEXT_EXCEEDED, Cause.BUDGET)
    )
    # A refusal that is the right answer is not a problem.
    refused = rows.refusal & ~(rows.reward >= 1)
    for name, share, limit, description in (
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
            over_limit = share > limit
            message = f"{share:.1%} {description}" + (
                f" (limit {100 * limit:g}%)" if over_limit else ""
            )
            yield Finding(
                name,
                Level.DEGRADED if over_limit else Level.NOTE,
                message,
                failure_class=FailureClass.UNKNOWN,
            )
    if answers.tripwires:
        description = ", ".join(
            f"{tripwire} ({count})" for tripwire, count in answers.tripwires.most_common()
        )
        message = f"agents reached for their grading: {description}; {answers.rewarded_trips} of them got a reward"
        level = Level.DEGRADED if answers.rewarded_trips else Level.NOTE
        yield Finding("tripwires", level, message, failure_class=FailureClass.UNKNOWN)
    if answers.share(answers.retried) > limits.retried:
        description = f"{answers.share(answers.retried):.1%} of the steps were tried more than once"
        yield Finding("retries", Level.NOTE, description, failure_class=FailureClass.INFRA)


def _finish_reasons(subject: _Subject) -> Iterator[Finding]:
    """Finish reasons other than the usual ones."""
    rows = subject.rows
    codes, counts = np.unique(rows.finish[rows.scored], return_counts=True)
    count_of_reason: dict[Any | str, Any] = {}
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        count_of_reason[rows.finishes[code] or "none"] = count
    unusual = [
        f"{name}: {answers}" for name, answers in count_of_reason.items() if name not in _USUAL_ENDS
    ]
    if unusual:
        yield Finding("finish_reasons", Level.NOTE, ", ".join(unusual))


def _latency(subject: _Subject) -> Iterator[Finding]:
    """A slowest answer that took far longer than the median."""
    latency = subject.rows.latency[subject.rows.scored]
    if len(latency) < 20 or not latency.any():
        return
    median = float(np.median(latency))
    slowest = float(latency.max())
    if median and slowest / median > subject.limits.slow:
        message = f"the slowest answer took {slowest / 1000:.1f} s, {slowest / median:.0f} times the median"
        yield Finding("latency", Level.NOTE, message)


def _score(subject: _Subject) -> Iterator[Finding]:
    """Whether the bundle has a score, and the rows give the same one."""
    rows = subject.rows
    scored = rows.scored
    value_of_score = {score.name: score.value for score in subject.run.scores}
    headline_names = {"pass@1", "mean_reward"} & as_dict(subject.run.benchmark.get("scores")).keys()
    if not value_of_score or (headline_names and not headline_names & value_of_score.keys()):
        if scored.any():
            yield Finding(
                "score",
                Level.INVALID,
                "the bundle has no score",
                failure_class=FailureClass.ACCOUNTING,
            )
        return
    # Other harnesses have their own metrics, which cannot be computed from the rows.
    value = value_of_score.get("pass@1", value_of_score.get("mean_reward"))
    if scored.any() and value is not None:
        recomputed = float(by_problem(rows.problem[scored], rows.reward[scored]).means.mean())
        # Some benchmarks publish a clipped score.
        if min(abs(recomputed - value), abs(min(1.0, max(0.0, recomputed)) - value)) > 1e-3:
            message = f"the bundle says {value:.4f}, the rows give {recomputed:.4f}"
            yield Finding("score", Level.INVALID, message, failure_class=FailureClass.ACCOUNTING)


def _class_of(cause: str) -> FailureClass:
    """The failure class of a cause of failure."""
    if cause in list(Cause):
        return _CLASS_OF_CAUSE.get(Cause(cause), FailureClass.UNKNOWN)
    return FailureClass.UNKNOWN


def _worst_class(rows: RowTable) -> FailureClass:
    """The class of failed rows that comes first in order of precedence."""
    codes = np.unique(rows.cause[~rows.scored]).tolist()
    classes = [_class_of(rows.causes[code]) for code in codes]
    return min(classes, key=list(FailureClass).index, default=FailureClass.ACCOUNTING)


def _drift(subject: _Subject) -> Iterator[Finding]:
    """Settings that changed between the sessions of one run: its answers may mix several settings."""
    recorded = [
        as_dict(session.get("fingerprints")) for session in sessions(subject.run.files.journal)
    ]
    keys: set[str] = set()
    for fingerprints in recorded:
        for key in fingerprints:
            keys.add(key)
    drifted = sorted(
        key for key in keys if len({fingerprints.get(key) for fingerprints in recorded}) > 1
    )
    if drifted:
        note = f"{', '.join(drifted)} changed between {len(recorded)} sessions; answers that no longer fit were redone"
        yield Finding("config", Level.NOTE, note)


def _damaged_records(run: Bundle) -> Iterator[Finding]:
    """Journal records that changed after they were written. The files that the score rests on have their own check."""
    damaged = damage(run.files.journal)
    if damaged:
        if len(damaged) > _MOST_NAMED:
            rest_words = f" and {len(damaged) - _MOST_NAMED} more"
        else:
            rest_words = ""
        listed = "; ".join(map(str, damaged[:_MOST_NAMED]))
        message = f"{listed}{rest_words}: `nel eval resume` does these steps again"
        yield Finding("journal", Level.DEGRADED, message, failure_class=FailureClass.ACCOUNTING)


def _server_trouble(subject: _Subject) -> Iterator[Finding]:
    """Errors in the logs of servers that nel started. Their cost is counted elsewhere; this shows where to look."""
    for log in sorted((subject.run.path.parent.parent / "logs").glob("server-*.log")):
        with log.open("rb") as file:
            line = next((line for line in file if _TROUBLE.search(line)), None)
        if line is not None:
            shown_line = " ".join(line.decode("utf-8", "replace").split())[:_LINE_CHARS]
            yield Finding(
                "server", Level.NOTE, f"{log.name}: {shown_line}", failure_class=FailureClass.INFRA
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
