"""How much more data would settle an open question, if the difference seen so far is about the true one."""

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
# The normal quantile of that chance.
_SPARE: Final = 0.8416
_MOST_REPEATS: Final = 1024
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
    """Problems at the present repeats, or repeats at the present problems, that settle a benchmark. A pass needs all
    ``limits`` to be kept, so the hardest counts; a breach needs one, so the easiest. ``breach_alpha`` is what the
    correction for many benchmarks leaves for a breach, ``available`` how many problems there are."""
    exceeded = [limit for limit in limits if limit.margin.value < 0]
    if not pairing.bounded and not limits[0].ruler.spending.last:
        return Remedy(
            None,
            None,
            "no amount of data: rewards beyond [0, 1] cannot be judged while they are looked at",
        )
    if any(limit.margin.value == 0 for limit in limits):
        return Remedy(
            None, None, "the estimate lies on a limit: no amount of data is sure to settle it"
        )
    level = breach_alpha if exceeded else alpha
    choose = min if exceeded else max
    deciding, problems = choose(
        ((limit, _problems_needed(limit, level)) for limit in exceeded or limits),
        key=lambda one: one[1] or math.inf,
    )
    n = len(pairing)
    if problems is not None:
        problems = max(problems, n + 1)
    repeats = _repeats_needed(pairing, rows, deciding, alpha=level)
    now = float(pairing.baseline.answers.mean())
    short = problems is not None and available is not None and problems > available
    now_n = f"now {n:,}" + (f", and the benchmark has only {available:,}" if short else "")
    if problems is None:
        parts: list[str] = []
    else:
        parts = [f"about {problems:,} paired problems ({now_n})"]
    if repeats is not None:
        parts.append(f"about {repeats:,} repeats of the same problems (now {now:.0f})")
    side = "exceeded" if exceeded else "kept"
    if parts:
        words = " or ".join(parts)
    else:
        words = "more data than is practical"
    if pairing.alike(deciding.ruler.gain):
        how = "if all go on to differ alike"
    else:
        how = f"with {_POWER:.0%} chance"
    return Remedy(problems, repeats, f"{words} would show that {deciding.name} is {side}, {how}")


def _problems_needed(limit: Limit, alpha: float) -> int | None:
    ruler = limit.ruler
    spending = limit.ruler.spending

    def equal_prove(n: int) -> bool:
        found = replace(ruler, gain=np.full(n, float(ruler.gain[0])), contrast=None).limit()
        return min(found.p_pass, found.p_breach) <= alpha

    if ruler.pairing.alike(ruler.gain):
        return first(equal_prove, len(ruler.gain) + 1, _MOST_EQUAL)
    if not spending.last:
        return _betting_needed(limit, alpha * spending.looking)
    return problems_needed(
        abs(limit.margin.value), ruler.sd, power=_POWER, alpha=alpha * spending.last
    )


def _betting_needed(limit: Limit, alpha: float) -> int | None:
    """Problems until a bet is won: its log wealth grows by ``rate`` a problem and must reach log(1 / alpha)."""
    reach = limit.ruler.reach
    values = (limit.ruler.gain + reach) / (2 * reach)
    bound = (reach - limit.ruler.allowed) / (2 * reach)
    if limit.margin.value < 0:
        values = 1 - values
        bound = 1 - bound
    if bound <= 0:
        return None
    growth: list[Floats] = [np.log1p(share * (values / bound - 1)) for share in SHARES]
    best = math.inf
    for steps, weight in zip(growth, LOG_WEIGHTS.tolist(), strict=True):
        rate = float(steps.mean())
        spread = float(steps.std(ddof=1))
        if rate > 0:
            # rate x n - _SPARE x spread x sqrt(n) = log(1 / alpha) - weight, solved for sqrt(n).
            half = _SPARE * spread / (2 * rate)
            best = min(
                best, (half + math.sqrt(half * half + (math.log(1 / alpha) - weight) / rate)) ** 2
            )
    if math.isfinite(best):
        return math.ceil(best)
    return None


def _repeats_needed(
    pairing: Pairing, rows: tuple[RowTable, RowTable], limit: Limit, alpha: float
) -> int | None:
    gain = limit.ruler.gain
    last = limit.ruler.spending.last
    if not last or len(gain) < 2:
        return None
    spread = observed_spread(pairing, rows, limit.ruler.sd)
    if spread is None or spread.noise <= 0:
        return None
    n = len(pairing)
    margin = abs(limit.margin.value)
    repeats = math.floor(float(pairing.baseline.answers.mean())) + 1
    while repeats <= _MOST_REPEATS:
        if paired_power(margin, spread.sd(repeats), n, alpha=alpha * last) >= _POWER:
            return repeats
        repeats = math.ceil(repeats * 1.2)
    return None


def observed_spread(pairing: Pairing, rows: tuple[RowTable, RowTable], sd: float) -> Spread | None:
    """The spread of differences split into what repeats can shrink and what they cannot; needs repeats to tell."""
    noise = seen = 0.0
    for side, paired in zip(rows, pairing.sides, strict=True):
        parts = variance_components(side.problem[side.scored], side.reward[side.scored])
        if math.isnan(parts.within):
            return None
        noise += parts.within
        # The sides may have been asked a different number of times.
        seen += parts.within / float(paired.answers.mean())
    return Spread(true=max(sd * sd - seen, 0.0), noise=noise)
