"""The canonical score of every benchmark of a run, with its scale and its standard error."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nemo_evaluator.assistant.recipes import recipes
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import read_table
from nemo_evaluator.runs.scores import Score
from nemo_evaluator.statistics.intervals import cluster_spread

_AVERAGE: Final = re.compile(r"avg-of-(\d+)")
_OF_ROWS: Final = ("mean_reward", "pass@1")
_WIDTH_OF_95: Final = 2 * 1.959964


@dataclass(frozen=True, slots=True)
class Harvested:
    """The canonical score of one benchmark.

    Attributes:
        scale: The highest possible score: 1 or 100.
        percent: The score in percent, whatever its scale.
        coverage: Share of the planned samples that were scored.
        corrected: The headline score corrected by human labels (`nel judge calibrate`), with its interval.
        tampered: Number of rows that tampered with their own grading; None if there are none.
        score_tampered_as_0: The mean reward if those rows count as 0.
    """

    benchmark: str
    model: str
    status: str
    metric: str | None
    score: float | None
    scale: int | None
    percent: float | None
    standard_error: float | None
    n: int | None
    repeats: int
    coverage: float | None
    corrected: float | None = None
    corrected_lower: float | None = None
    corrected_upper: float | None = None
    tampered: int | None = None
    score_tampered_as_0: float | None = None


def harvest(path: Path) -> list[Harvested]:
    """Return the score of every finished benchmark under a path, including INVALID ones (see ``status``)."""
    return [_line(bundle) for bundle in find_runs(path)]


def _line(bundle: Bundle) -> Harvested:
    """Collect the canonical score of one bundle."""
    score = _canonical(bundle)
    corrected_score = bundle.corrected
    tampering = bundle.tampering
    scale = None if score is None else 1 if abs(score.value) <= 1 else 100
    return Harvested(
        benchmark=bundle.path.parent.name,
        model=bundle.model,
        status=bundle.status,
        metric=score.name if score else None,
        score=score.value if score else None,
        scale=scale,
        percent=round(score.value * 100 / scale, 4) if score and scale else None,
        standard_error=_error(bundle, score) if score else None,
        n=bundle.samples or None,
        repeats=bundle.repeats,
        coverage=bundle.coverage.share,
        corrected=corrected_score.value if corrected_score else None,
        corrected_lower=corrected_score.ci_lower if corrected_score else None,
        corrected_upper=corrected_score.ci_upper if corrected_score else None,
        tampered=tampering.tampered if tampering else None,
        score_tampered_as_0=tampering.score if tampering else None,
    )


def _canonical(bundle: Bundle) -> Score | None:
    """Return the score that the benchmark's recipe names, else the headline score."""
    benchmark_names = (bundle.path.parent.name, bundle.name)
    recipe = next(
        (
            candidate
            for candidate in recipes().values()
            if {candidate.name, candidate.benchmark["name"]} & set(benchmark_names)
        ),
        None,
    )
    uncorrected = [score for score in bundle.scores if score is not bundle.corrected]
    matching = [score for score in uncorrected if recipe and re.search(recipe.metric, score.name)]
    exact = [score for score in matching if recipe and score.name == recipe.metric]
    ranked = sorted(
        exact or matching, key=lambda score: int((_AVERAGE.search(score.name) or (0, 0))[1])
    )
    return ranked[-1] if ranked else bundle.headline


def _error(bundle: Bundle, score: Score) -> float | None:
    """Return the standard error of a score.

    For a mean over rows it is cluster-robust, with problems as clusters; for other scores it follows from the interval.
    """
    if score.name in _OF_ROWS and bundle.results.is_file():
        rows = read_table(bundle.results)
        if rows.scored.any() and len(set(rows.problem[rows.scored])) > 1:
            return math.sqrt(
                cluster_spread(rows.reward[rows.scored], rows.problem[rows.scored]).variance
            )
    if score.ci_lower is not None and score.ci_upper is not None:
        return (score.ci_upper - score.ci_lower) / _WIDTH_OF_95
    return None
