"""The run-to-run noise of a comparison, from the flip rates that ``nel noise`` measured on its servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from nemo_evaluator.core.json_coerce import as_dict, as_number, as_whole
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import tie
from nemo_evaluator.statistics.run_noise import FlipRate, NoisySide, self_difference

_SIDES: Final = ("the baseline", "the candidate")


@dataclass(frozen=True, slots=True)
class RunNoise:
    """How far two runs of the compared size differ without any difference between the models.

    Attributes:
        bound: The largest such difference of the mean rewards, at the confidence level of the comparison.
        words: The sentence about it.
    """

    bound: float
    words: str

    def covers(self, difference: float) -> bool:
        """Whether noise alone explains a difference."""
        return abs(difference) <= self.bound


def run_noise(runs: tuple[Bundle, Bundle], pairing: Pairing, confidence: float) -> RunNoise | None:
    """Derive the noise for the paired problems and the repeats of a comparison.

    Args:
        runs: Baseline and candidate.
        pairing: Their paired problems.
        confidence: The confidence level of the comparison.

    Returns:
        The noise; None if it was not measured for either side. A side without a measurement gets that of the other.
    """
    baseline_rate, candidate_rate = (measured_rate(run) for run in runs)
    if not len(pairing):
        return None
    known_rate = baseline_rate or candidate_rate
    if known_rate is None:
        return None
    sides = (
        NoisySide(baseline_rate or known_rate, float(pairing.baseline.answers.mean())),
        NoisySide(candidate_rate or known_rate, float(pairing.candidate.answers.mean())),
    )
    bound = self_difference(sides, len(pairing), confidence)
    rates: list[str] = []
    for side_name, rate in zip(_SIDES, (baseline_rate, candidate_rate), strict=True):
        if rate is None:
            rates.append(f"not measured for {side_name}")
            continue
        lower, upper = rate.bounds()
        rates.append(f"{rate.value:.1%} for {side_name} [{lower:.1%}, {upper:.1%}]")
    size = counted(len(pairing), "problem")
    words = (
        f"by run-to-run noise alone, two runs over {size} differ by up to {100 * bound:.1f} points "
        f"(flip rate {', '.join(rates)})"
    )
    return RunNoise(bound, words)


def measured_rate(run: Bundle) -> FlipRate | None:
    """The flip rate that ``nel noise`` measured for the settings of a run; None without a usable measurement."""
    entry = as_dict(run.noise.get("flip_rate"))
    value = as_number(entry.get("value"))
    problems = as_whole(entry.get("problems"))
    unit = as_number(entry.get("unit"))
    if _is_stale(run) or value is None or not problems or not unit:
        return None
    return FlipRate(value, problems, unit)


def noise_notes(side_name: str, run: Bundle) -> Iterator[str]:
    """The note about a measurement that cannot be used."""
    if not run.noise:
        return
    if _is_stale(run):
        yield f"{side_name}: its noise was measured on other settings and is left out; run `nel noise` again"
    elif measured_rate(run) is None:
        yield f"{side_name}: its noise.json has no flip rate and is left out; run `nel noise` again"


def _is_stale(run: Bundle) -> bool:
    """Whether the noise was measured on other settings than those of the run."""
    return bool(run.noise) and run.noise.get("measured_by") != tie(
        as_dict(run.config.get("fingerprints"))
    )
