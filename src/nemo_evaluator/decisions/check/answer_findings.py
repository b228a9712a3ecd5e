"""Findings about the answers and the score of a run: shares of unusual answers, repeats, and the score of the rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.json_coerce import as_dict, as_whole
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.check.checked_run import CheckedRun
from nemo_evaluator.decisions.check.findings import FailureClass, Finding, Level
from nemo_evaluator.decisions.usability import tampering_of
from nemo_evaluator.statistics import by_problem

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
# The share of empty expected answers above which the score is doubtful.
_MOST_EMPTY: Final = 0.01
# From this share of problems with a shared long text on, the check notes it.
_SHARING: Final = 0.1
# Scores in bundles are rounded.
_ROUNDING: Final = 1e-3


def tampering(subject: CheckedRun) -> Iterator[Finding]:
    """Programs that tampered with their judge; the model did this itself, although failed rows are not in the mean."""
    tampering = tampering_of(subject.rows)
    if tampering is not None:
        level = Level.INVALID if tampering.too_much else Level.DEGRADED
        yield Finding("tamper", level, tampering.words, failure_class=FailureClass.UNKNOWN)


def clusters(subject: CheckedRun) -> Iterator[Finding]:
    """Problems that share a passage, in a run whose rows name no clusters."""
    shared_texts = subject.answers.shared_texts
    groups = shared_texts.groups()
    sharing = sum(groups)
    if sharing < shared_texts.problems * _SHARING:
        return
    if groups:
        message = (
            f"problems share long texts, such as a passage ({counted(len(groups), 'text')}, up to {max(groups)} "
            "problems each), and the intervals treat them as independent; name the column with params.cluster or "
            "@benchmark(cluster=...)"
        )
        yield Finding("clusters", Level.NOTE, message)


def repeats(subject: CheckedRun) -> Iterator[Finding]:
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
    if not bool((rows.content != 0).all()):
        # The content of some rows is not known.
        return
    first_contents = rows.content[problems.first]
    shared_contents = len(first_contents) - len(np.unique(first_contents))
    if shared_contents:
        verb = "problems have" if shared_contents > 1 else "problem has"
        yield Finding("repeats", Level.NOTE, f"{shared_contents} {verb} the content of another")


def no_answers(subject: CheckedRun) -> Iterator[Finding]:
    """Whether no answer of the run can be used: all are empty, cut off or too long, and none has a reward."""
    rows = subject.rows
    scored = rows.scored
    if not scored.any() or bool((rows.reward[scored] > 0).any()):
        return
    observed = subject.answers
    shares = {
        "all answers are empty": observed.share(observed.empty),
        "all answers are cut off, and none is right": subject.share(rows.truncated),
        "no prompt fits the context": observed.share(observed.labels[Cause.CONTEXT_EXCEEDED]),
    }
    for message, share in shares.items():
        if share >= 1:
            yield Finding("answers", Level.INVALID, message, failure_class=FailureClass.UNKNOWN)


def expected_answers(subject: CheckedRun) -> Iterator[Finding]:
    """Whether expected answers are empty although the benchmark compares answers with them."""
    if not subject.run.config.get("compares_target"):
        return
    share = subject.answers.share(subject.answers.unkeyed)
    if share >= 1:
        message = "all expected answers are empty, so no answer could be right"
        yield Finding("expected", Level.INVALID, message, failure_class=FailureClass.CONFIG)
    elif share > _MOST_EMPTY:
        message = f"{share:.1%} of the expected answers are empty (limit {100 * _MOST_EMPTY:g}%)"
        yield Finding("expected", Level.DEGRADED, message, failure_class=FailureClass.CONFIG)


@dataclass(frozen=True, slots=True)
class _AnswerShare:
    """The share of the answers that have a flaw, and the limit above which it degrades the run."""

    name: str
    share: float
    limit: float
    # The flaw, as in "3 % of the answers are cut off".
    description: str


def answers(subject: CheckedRun) -> Iterator[Finding]:
    """Shares of answers that are truncated, unparsed, empty or refusals, and signs of reward hacking."""
    for flaw in _answer_shares(subject):
        if not flaw.share > 0:
            continue
        level = Level.NOTE
        message = f"{flaw.share:.1%} {flaw.description}"
        if flaw.share > flaw.limit:
            level = Level.DEGRADED
            message = f"{message} (limit {100 * flaw.limit:g}%)"
        yield Finding(flaw.name, level, message, failure_class=FailureClass.UNKNOWN)
    observed = subject.answers
    if observed.tripwires:
        entries = [f"{name} ({count})" for name, count in observed.tripwires.most_common()]
        message = (
            f"agents reached for their grading: {', '.join(entries)}; "
            f"{observed.rewarded_trips} of them got a reward"
        )
        level = Level.DEGRADED if observed.rewarded_trips else Level.NOTE
        yield Finding("tripwires", level, message, failure_class=FailureClass.UNKNOWN)
    retried = observed.share(observed.retried)
    if retried > subject.limits.retried:
        message = f"{retried:.1%} of the steps were tried more than once"
        yield Finding("retries", Level.NOTE, message, failure_class=FailureClass.INFRA)


def _answer_shares(subject: CheckedRun) -> Iterator[_AnswerShare]:
    """The shares of the answers with each flaw, in the order of the report."""
    rows = subject.rows
    limits = subject.limits
    observed = subject.answers
    yield _AnswerShare(
        "truncated",
        subject.share(rows.truncated),
        limits.truncated,
        description="of the answers are cut off",
    )
    yield _AnswerShare(
        "context",
        observed.share(observed.labels[Cause.CONTEXT_EXCEEDED]),
        limits.truncated,
        description="of the prompts do not fit the context",
    )
    yield _AnswerShare(
        "budget",
        observed.share(observed.labels[Cause.BUDGET]),
        limits.truncated,
        description="of the tasks ran out of their budget",
    )
    yield _AnswerShare(
        "unparsed",
        subject.share(rows.unparsed),
        limits.unparsed,
        description="of the answers could not be parsed",
    )
    yield _AnswerShare(
        "empty",
        observed.share(observed.empty),
        limits.unparsed,
        description="of the answers are empty",
    )
    yield _AnswerShare(
        "reasoning",
        observed.share(observed.unmatched),
        limits.reasoning,
        description="of the answers hold half a reasoning block",
    )
    yield _AnswerShare(
        "reasoning",
        observed.share(observed.kept),
        1.0,
        description="of the answers still hold their reasoning",
    )
    # A refusal that is the right answer is not a problem.
    refused = rows.refusal & ~(rows.reward >= 1)
    yield _AnswerShare(
        "refusals",
        subject.share(refused),
        limits.refusals,
        description="of the answers look like refusals",
    )


def finish_reasons(subject: CheckedRun) -> Iterator[Finding]:
    """Finish reasons other than the usual ones."""
    rows = subject.rows
    codes, counts = np.unique(rows.finish[rows.scored], return_counts=True)
    unusual: list[str] = []
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        reason = rows.finishes[code] or "none"
        if reason not in _USUAL_ENDS:
            unusual.append(f"{reason}: {count}")
    if unusual:
        yield Finding("finish_reasons", Level.NOTE, ", ".join(unusual))


def latency(subject: CheckedRun) -> Iterator[Finding]:
    """A slowest answer that took far longer than the median."""
    latency = subject.rows.latency[subject.rows.scored]
    if len(latency) < 20 or not latency.any():
        return
    median = float(np.median(latency))
    slowest = float(latency.max())
    if median and slowest / median > subject.limits.slow:
        message = f"the slowest answer took {slowest / 1000:.1f} s, {slowest / median:.0f} times the median"
        yield Finding("latency", Level.NOTE, message)


def score(subject: CheckedRun) -> Iterator[Finding]:
    """Whether the bundle has a score, and the rows give the same one."""
    rows = subject.rows
    scored = rows.scored
    values = {score.name: score.value for score in subject.run.scores}
    recorded_names = as_dict(subject.run.benchmark.get("scores")).keys()
    headline_names = {"pass@1", "mean_reward"} & recorded_names
    headline_is_missing = bool(headline_names) and not headline_names & values.keys()
    if not values or headline_is_missing:
        if scored.any():
            yield Finding(
                "score",
                Level.INVALID,
                "the bundle has no score",
                failure_class=FailureClass.ACCOUNTING,
            )
        return
    # Other harnesses have their own metrics, which cannot be computed from the rows.
    value = values.get("pass@1", values.get("mean_reward"))
    if value is None or not scored.any():
        return
    recomputed = float(by_problem(rows.problem[scored], rows.reward[scored]).means.mean())
    # Some benchmarks publish a clipped score.
    clipped = min(1.0, max(0.0, recomputed))
    deviation = min(abs(recomputed - value), abs(clipped - value))
    if deviation > _ROUNDING:
        message = f"the bundle says {value:.4f}, the rows give {recomputed:.4f}"
        yield Finding("score", Level.INVALID, message, failure_class=FailureClass.ACCOUNTING)
