"""The rules that turn an interval and a limit into a verdict."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from nemo_evaluator.core.wording import counted
from nemo_evaluator.statistics import Interval


class Verdict(StrEnum):
    """The outcome of a comparison, ordered from best to worst."""

    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    WARN = "WARN"
    BLOCK = "BLOCK"

    @property
    def exit_code(self) -> int:
        """The exit code under ``--strict``."""
        if self is Verdict.PASS:
            return 0
        if self is Verdict.BLOCK:
            return 1
        return 2


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; INCONCLUSIVE when there are none."""
    from_best_to_worst = list(Verdict)
    return max(verdicts, key=from_best_to_worst.index, default=Verdict.INCONCLUSIVE)


class Relation(StrEnum):
    """What a comparison proves about the candidate relative to the baseline."""

    SUPERIOR = "superior"
    EQUIVALENT = "equivalent"
    NON_INFERIOR = "non-inferior"
    INFERIOR = "inferior"
    WORSE = "worse than allowed"
    UNKNOWN = "undecided"


VERDICTS: Final = {
    Relation.SUPERIOR: Verdict.PASS,
    Relation.EQUIVALENT: Verdict.PASS,
    Relation.NON_INFERIOR: Verdict.PASS,
    Relation.INFERIOR: Verdict.WARN,
    Relation.WORSE: Verdict.BLOCK,
    Relation.UNKNOWN: Verdict.INCONCLUSIVE,
}


def relation_of(interval: Interval, max_drop: float) -> Relation:
    """Where the interval of a gain lies, compared with 0 and the limit.

    - Worse than allowed: all of it is below ``-max_drop``.
    - Superior: all of it is above 0.
    - Equivalent: all of it is within ``max_drop`` of 0.
    - Non-inferior: all of it is at or above ``-max_drop``.
    - Inferior: all of it is below 0, and it contains ``-max_drop``.
    - Undecided: anything else.

    Args:
        interval: The interval of candidate minus baseline; positive is better.
        max_drop: The limit.
    """
    if interval.lower is None or interval.upper is None:
        return Relation.UNKNOWN
    if interval.upper < -max_drop:
        return Relation.WORSE
    if interval.lower > 0:
        return Relation.SUPERIOR
    if interval.lower >= -max_drop and interval.upper <= max_drop:
        return Relation.EQUIVALENT
    if interval.lower >= -max_drop:
        return Relation.NON_INFERIOR
    if interval.upper < 0:
        return Relation.INFERIOR
    return Relation.UNKNOWN


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, the relation it follows from, and its reasons."""

    verdict: Verdict
    relation: Relation
    reasons: tuple[str, ...]


def settling(needed: int, available: int | None) -> str:
    """The sentence on how many problems would settle a comparison.

    Args:
        needed: The number of problems.
        available: The number that the benchmark has; None when unknown.
    """
    sentence = f"about {needed:,} problems would settle it"
    if available is None or needed <= available:
        return sentence
    return f"{sentence}, but the benchmark has {available:,}: only more repeats can, if anything"


def judge(
    interval: Interval,
    max_drop: float,
    *,
    needed: int | None = None,
    available: int | None = None,
    better: float = 1.0,
) -> Judgement:
    """The verdict on a mean difference.

    The rule is that of the gate, for one limit: PASS when the whole interval keeps the limit, BLOCK when all of it is
    beyond the limit. Between the two, WARN when a drop is certain, and INCONCLUSIVE when it is not.

    Args:
        interval: Candidate minus baseline.
        max_drop: The limit.
        needed: How many problems would settle an open comparison.
        available: How many problems the benchmark has.
        better: 1 when a higher reward is better, else -1.

    Returns:
        The judgement; INCONCLUSIVE when nothing paired or the interval has no bounds.
    """
    if interval.n == 0:
        reason = "nothing was paired: the runs share no scored problem"
        return Judgement(Verdict.INCONCLUSIVE, Relation.UNKNOWN, (reason,))
    if interval.lower is None or interval.upper is None:
        explanation = "no interval holds for rewards beyond [0, 1] that a stop rule looked at"
        reason = f"{interval.value:+.4f}, but {explanation}"
        return Judgement(Verdict.INCONCLUSIVE, Relation.UNKNOWN, (reason,))
    gain = interval if better > 0 else mirrored(interval)
    relation = relation_of(gain, max_drop)
    bounds = f"[{interval.lower:+.4f}, {interval.upper:+.4f}]"
    difference = f"{interval.value:+.4f} {bounds} over {counted(interval.n, 'problem')}"
    if needed:
        open_difference = f"{difference}; {settling(needed, available)}"
    else:
        open_difference = difference
    reasons = _reasons(
        max_drop,
        loss_word="drop" if better > 0 else "rise",
        loss_is_certain=gain.upper is not None and gain.upper < 0,
        difference=difference,
        open_difference=open_difference,
    )
    return Judgement(VERDICTS[relation], relation, (reasons[relation],))


def _reasons(
    max_drop: float,
    *,
    loss_word: str,
    loss_is_certain: bool,
    difference: str,
    open_difference: str,
) -> dict[Relation, str]:
    """The reason for each relation.

    Args:
        max_drop: The limit.
        loss_word: What a loss is called.
        loss_is_certain: Whether the whole interval is on the side of a loss.
        difference: The difference in words.
        open_difference: The difference in words, with how many problems would settle an open comparison.
    """
    limit_words = f"the limit of {max_drop:g}"
    certain_loss = f" (a small {loss_word} is certain)" if loss_is_certain else ""
    return {
        Relation.WORSE: f"the {loss_word} is more than {limit_words}: {difference}",
        Relation.INFERIOR: f"a {loss_word} is certain, but not that it exceeds {limit_words}: {open_difference}",
        Relation.UNKNOWN: f"a {loss_word} beyond {limit_words} cannot be ruled out: {open_difference}",
        Relation.SUPERIOR: f"the candidate is better: {difference}",
        Relation.EQUIVALENT: f"the difference is within {limit_words} both ways{certain_loss}: {difference}",
        Relation.NON_INFERIOR: f"a {loss_word} beyond {limit_words} is excluded{certain_loss}: {difference}",
    }


def mirrored(interval: Interval) -> Interval:
    """The interval of the opposite difference."""
    lower = None if interval.upper is None else -interval.upper
    upper = None if interval.lower is None else -interval.lower
    return replace(interval, value=-interval.value, lower=lower, upper=upper)


def shifted(interval: Interval, by: float) -> Interval:
    """The interval with ``by`` added to its value and its bounds."""
    lower = None if interval.lower is None else interval.lower + by
    upper = None if interval.upper is None else interval.upper + by
    return replace(interval, value=interval.value + by, lower=lower, upper=upper)
