"""How much more data would settle an open benchmark, assuming that the observed difference is the true one."""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from nemo_evaluator.decisions.gate.report import Remedy
from nemo_evaluator.decisions.gate.thresholds import Limit
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.runs.row_table import Floats, RowTable
from nemo_evaluator.statistics import Spread, paired_power, problems_needed, variance_components
from nemo_evaluator.statistics.power import first
from nemo_evaluator.statistics.sequential import LOG_WEIGHTS, SHARES

_POWER: Final = 0.8
# The normal quantile of that power.
_Z_POWER: Final = 0.8416
_MOST_REPEATS: Final = 1024
# Equal differences are tried up to this number of problems.
_MOST_EQUAL: Final = 1_000_000


def remedy_for(
    pairing: Pairing,
    rows: tuple[RowTable, RowTable],
    limits: list[Limit],
    *,
    alpha: float,
    breach_alpha: float,
    available: int | None = None,
) -> Remedy:
    """Problems at the present repeats, or repeats of the present problems, that would settle a benchmark.

    A pass needs every limit to be kept, so the hardest one decides; a breach needs one limit, so the easiest decides.

    Args:
        pairing: The paired problems.
        rows: The rows of both runs.
        limits: The limits that are not proved to be kept.
        alpha: The level of a pass.
        breach_alpha: The level that the correction for many benchmarks leaves for a breach.
        available: Number of problems that the benchmark has; None when unknown.
    """
    if not pairing.bounded and not limits[0].ruler.spending.last:
        unbounded_words = (
            "no amount of data: rewards beyond [0, 1] cannot be judged under repeated looking"
        )
        return Remedy(None, None, unbounded_words)
    if any(limit.margin.value == 0 for limit in limits):
        on_limit_words = "the estimate lies on a limit: no amount of data is certain to settle it"
        return Remedy(None, None, on_limit_words)
    exceeded = [limit for limit in limits if limit.margin.value < 0]
    if exceeded:
        level = breach_alpha
        deciding, problems = _easiest(exceeded, level)
    else:
        level = alpha
        deciding, problems = _hardest(limits, level)
    if problems is not None:
        problems = max(problems, len(pairing) + 1)
    repeats = _repeats_needed(pairing, rows, deciding, alpha=level)
    data = _data_words(pairing, problems, repeats, available=available)
    outcome = "exceeded" if exceeded else "kept"
    if pairing.alike(deciding.ruler.gain):
        condition = "if all further problems differ alike"
    else:
        condition = f"with {_POWER:.0%} power"
    sentence = f"{data} would show that {deciding.name} is {outcome}, {condition}"
    return Remedy(problems, repeats, sentence)


def _easiest(limits: list[Limit], alpha: float) -> tuple[Limit, int | None]:
    """The limit that needs the fewest problems, and their number; None is more than any number."""
    needs = [(limit, _problems_needed(limit, alpha)) for limit in limits]
    return min(needs, key=_problems_or_infinity)


def _hardest(limits: list[Limit], alpha: float) -> tuple[Limit, int | None]:
    """The limit that needs the most problems, and their number; None is more than any number."""
    needs = [(limit, _problems_needed(limit, alpha)) for limit in limits]
    return max(needs, key=_problems_or_infinity)


def _problems_or_infinity(need: tuple[Limit, int | None]) -> float:
    """The number of problems, infinite for None, so that needs can be sorted."""
    _, problems = need
    return problems or math.inf


def _data_words(
    pairing: Pairing, problems: int | None, repeats: int | None, *, available: int | None
) -> str:
    """The problems or repeats that are needed, beside what there is now."""
    ways: list[str] = []
    if problems is not None:
        present = f"now {len(pairing):,}"
        if available is not None and problems > available:
            present += f", and the benchmark has only {available:,}"
        ways.append(f"about {problems:,} paired problems ({present})")
    if repeats is not None:
        present_repeats = float(pairing.baseline.answers.mean())
        ways.append(f"about {repeats:,} repeats of the same problems (now {present_repeats:.0f})")
    if not ways:
        return "more data than is practical"
    return " or ".join(ways)


def _problems_needed(limit: Limit, alpha: float) -> int | None:
    """Problems that settle one limit at the level ``alpha``; None when no practical number does."""
    ruler = limit.ruler
    spending = ruler.spending
    if ruler.pairing.alike(ruler.gain):
        common_gain = float(ruler.gain[0])

        def settled_by(problems: int) -> bool:
            """Whether so many problems with the same gain settle the limit."""
            equal_gains = np.full(problems, common_gain)
            outcome = replace(ruler, gain=equal_gains, contrast=None).limit()
            return min(outcome.p_pass, outcome.p_breach) <= alpha

        return first(settled_by, len(ruler.gain) + 1, _MOST_EQUAL)
    if not spending.last:
        return _betting_needed(limit, alpha * spending.looking)
    distance = abs(limit.margin.value)
    independent = problems_needed(distance, ruler.sd, power=_POWER, alpha=alpha * spending.last)
    return None if independent is None else math.ceil(independent * ruler.design_effect)


def _betting_needed(limit: Limit, alpha: float) -> int | None:
    """Problems until a bet of ``MeanSequence`` wins.

    The log capital of a stake grows by ``rate`` per problem on average and must reach log(1 / alpha).
    """
    reach = limit.ruler.reach
    values = (limit.ruler.gain + reach) / (2 * reach)
    bound = (reach - limit.ruler.allowed) / (2 * reach)
    if limit.margin.value < 0:
        values = 1 - values
        bound = 1 - bound
    if bound <= 0:
        return None
    fewest = math.inf
    for stake, log_weight in zip(SHARES, LOG_WEIGHTS.tolist(), strict=True):
        growth: Floats = np.log1p(stake * (values / bound - 1))
        rate = float(growth.mean())
        if rate <= 0:
            continue
        # rate n - _Z_POWER sd sqrt(n) = log(1 / alpha) - log_weight, solved for sqrt(n).
        noise_term = _Z_POWER * float(growth.std(ddof=1)) / (2 * rate)
        noiseless_problems = (math.log(1 / alpha) - log_weight) / rate
        root_of_needed = noise_term + math.sqrt(noise_term * noise_term + noiseless_problems)
        fewest = min(fewest, root_of_needed**2)
    return math.ceil(fewest) if math.isfinite(fewest) else None


def _repeats_needed(
    pairing: Pairing, rows: tuple[RowTable, RowTable], limit: Limit, alpha: float
) -> int | None:
    """Repeats of the present problems that settle a limit; None when repeats cannot."""
    last = limit.ruler.spending.last
    if not last or len(limit.ruler.gain) < 2:
        return None
    spread = observed_spread(pairing, rows, limit.ruler.sd)
    if spread is None or spread.noise <= 0:
        return None
    distance = abs(limit.margin.value)
    repeats = math.floor(float(pairing.baseline.answers.mean())) + 1
    independent_problems = len(pairing) / limit.ruler.design_effect
    while repeats <= _MOST_REPEATS:
        power = paired_power(distance, spread.sd(repeats), independent_problems, alpha=alpha * last)
        if power >= _POWER:
            return repeats
        repeats = math.ceil(repeats * 1.2)
    return None


def observed_spread(pairing: Pairing, rows: tuple[RowTable, RowTable], sd: float) -> Spread | None:
    """Split the variance of the differences into the part that repeats reduce and the part that they do not.

    Args:
        pairing: The paired problems.
        rows: The rows of both runs.
        sd: Standard deviation of a problem's difference.

    Returns:
        The components; None for runs without repeats.
    """
    noise = 0.0
    noise_of_means = 0.0
    for side, paired in zip(rows, pairing.sides, strict=True):
        components = variance_components(side.problem[side.scored], side.reward[side.scored])
        if math.isnan(components.within):
            return None
        noise += components.within
        # The sides may have different numbers of repeats.
        noise_of_means += components.within / float(paired.answers.mean())
    return Spread(true=max(sd * sd - noise_of_means, 0.0), noise=noise)
