"""From an interval and a limit to a word: what a comparison allows to say."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from nemo_evaluator.core.wording import counted
from nemo_evaluator.statistics import Interval


class Verdict(StrEnum):
    """The outcome of a comparison, from best to worst."""

    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    WARN = "WARN"
    BLOCK = "BLOCK"

    @property
    def exit_code(self) -> int:
        """The exit code under ``--strict``."""
        return {Verdict.PASS: 0, Verdict.BLOCK: 1}.get(self, 2)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several; nothing to judge is INCONCLUSIVE."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.INCONCLUSIVE)


class Relation(StrEnum):
    """What is proved about candidate and baseline."""

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
    """Superior: surely above. Equivalent: surely within the limit both ways. Non-inferior: surely not below it."""
    if interval.lower is None or interval.upper is None:
        return Relation.UNKNOWN
    if interval.upper < -max_drop:
        return Relation.WORSE
    if interval.lower > 0:
        return Relation.SUPERIOR
    if interval.lower >= -max_drop:
        if interval.upper <= max_drop:
            return Relation.EQUIVALENT
        return Relation.NON_INFERIOR
    return Relation.INFERIOR if interval.upper < 0 else Relation.UNKNOWN


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with its reasons."""

    verdict: Verdict
    relation: Relation
    reasons: tuple[str, ...]


def settling(needed: int, available: int | None) -> str:
    """How many problems would settle a comparison, and what if the benchmark does not have them."""
    words = f"about {needed:,} problems would settle it"
    if available is None or needed <= available:
        return words
    return f"{words}, but the benchmark has {available:,}: only more repeats can, if anything"


def judge(
    interval: Interval,
    max_drop: float,
    *,
    needed: int | None = None,
    available: int | None = None,
    better: float = 1.0,
) -> Judgement:
    """The verdict on a mean difference; ``needed`` is how many problems would settle it, of ``available`` ones that the
    benchmark has; ``better`` is the good sign. The rule is the gate's, limit by limit: PASS where the whole interval
    keeps the limit, BLOCK where all of it is beyond. Anything between is not proved: WARN when a drop is certain,
    INCONCLUSIVE when not even that."""
    if interval.n == 0:
        return Judgement(
            Verdict.INCONCLUSIVE, Relation.UNKNOWN, ("nothing was paired, so nothing can be said",)
        )
    if interval.lower is None or interval.upper is None:
        why = "no interval holds for rewards beyond [0, 1] that a stop rule looked at"
        return Judgement(
            Verdict.INCONCLUSIVE, Relation.UNKNOWN, (f"{interval.value:+.4f}, but {why}",)
        )
    if better > 0:
        gain = interval
    else:
        gain = mirrored(interval)
    relation = relation_of(gain, max_drop)
    drop = "drop" if better > 0 else "rise"
    limit = f"the limit of {max_drop:g}"
    bounds = f"[{interval.lower:+.4f}, {interval.upper:+.4f}]"
    found = f"{interval.value:+.4f} {bounds} over {counted(interval.n, 'problem')}"
    if needed:
        more = f"; {settling(needed, available)}"
    else:
        more = ""
    if gain.upper is not None and gain.upper < 0:
        small = f" (a small {drop} is certain)"
    else:
        small = ""
    words = {
        Relation.WORSE: f"the {drop} is more than {limit}: {found}",
        Relation.INFERIOR: f"a {drop} is certain, but not that it exceeds {limit}: {found}{more}",
        Relation.UNKNOWN: f"a {drop} beyond {limit} cannot be ruled out: {found}{more}",
        Relation.SUPERIOR: f"the candidate is better: {found}",
        Relation.EQUIVALENT: f"the difference is within {limit} both ways{small}: {found}",
        Relation.NON_INFERIOR: f"a {drop} beyond {limit} is excluded{small}: {found}",
    }[relation]
    return Judgement(VERDICTS[relation], relation, (words,))


def mirrored(interval: Interval) -> Interval:
    """The interval of the opposite difference."""
    lower, upper = (None if end is None else -end for end in (interval.upper, interval.lower))
    return replace(interval, value=-interval.value, lower=lower, upper=upper)


def shifted(interval: Interval, by: float) -> Interval:
    lower, upper = (None if end is None else end + by for end in (interval.lower, interval.upper))
    return replace(interval, value=interval.value + by, lower=lower, upper=upper)
