"""How much more data would settle an open question, if the difference seen so far is about the true one."""

from __future__ import annotations

import math
from typing import Final

from nemo_evaluator.decisions.gate_report import Remedy
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.decisions.rows import Rows
from nemo_evaluator.decisions.thresholds import Limit
from nemo_evaluator.metrics import Spread, paired_power, problems_needed, variance_components

_POWER: Final = 0.8
_MOST_REPEATS: Final = 1024


def remedy_for(pairing: Pairing, rows: tuple[Rows, Rows], limits: list[Limit], *, alpha: float) -> Remedy:
    """Problems at the present repeats, or repeats at the present problems, that settle the hardest of ``limits``."""
    hardest = min(limits, key=lambda limit: abs(limit.margin.value))
    margin, n = abs(hardest.margin.value), len(pairing)
    sd = float(hardest.values.std(ddof=1)) if n > 1 else 0.0
    if margin == 0.0 or sd == 0.0:
        words = "the estimate lies on the limit: no amount of data is sure to settle it" if sd else "more problems"
        return Remedy(None, None, words)
    problems = problems_needed(margin, sd, power=_POWER, alpha=alpha)
    if problems is not None:
        problems = max(problems, n + 1)
    repeats = _repeats_needed(pairing, rows, margin, sd, alpha)
    now = float(pairing.baseline.answers.mean())
    parts = [] if problems is None else [f"about {problems:,} paired problems (now {n:,})"]
    if repeats is not None:
        parts.append(f"about {repeats} repeats of the same problems (now {now:.0f})")
    side = "kept" if hardest.margin.value > 0 else "exceeded"
    words = " or ".join(parts) if parts else "more data than is practical"
    return Remedy(problems, repeats, f"{words} would show that {hardest.name} is {side}, with {_POWER:.0%} chance")


def _repeats_needed(pairing: Pairing, rows: tuple[Rows, Rows], margin: float, sd: float, alpha: float) -> int | None:
    spread = observed_spread(pairing, rows, sd)
    if spread is None or spread.noise <= 0:
        return None
    n, repeats = len(pairing), max(1, math.ceil(float(pairing.baseline.answers.mean())))
    while repeats <= _MOST_REPEATS:
        if paired_power(margin, spread.sd(repeats), n, alpha=alpha) >= _POWER:
            return repeats
        repeats = math.ceil(repeats * 1.2)
    return None


def observed_spread(pairing: Pairing, rows: tuple[Rows, Rows], sd: float) -> Spread | None:
    """The spread of differences split into what repeats can shrink and what they cannot; needs repeats to tell."""
    noise = 0.0
    for side in rows:
        scored = side.scored
        parts = variance_components(side.problem[scored], side.reward[scored])
        if math.isnan(parts.within):
            return None
        noise += parts.within
    repeats = float(pairing.baseline.answers.mean())
    return Spread(true=max(sd * sd - noise / repeats, 0.0), noise=noise)
