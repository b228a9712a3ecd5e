"""The canonical score of every benchmark of a run, with its scale and its standard error."""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from nemo_evaluator.assistant.recipes import Recipe, recipes
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import read_table
from nemo_evaluator.runs.scores import Score
from nemo_evaluator.statistics.clusters import cluster_spread

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
        corrected_standard_error: Its standard error, from the interval; None without bounds.
        run: The folder of the run.
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
    corrected_standard_error: float | None = None
    tampered: int | None = None
    score_tampered_as_0: float | None = None
    run: str = ""


def harvest(path: Path) -> list[Harvested]:
    """Return the score of every finished benchmark under a path, including INVALID ones (see ``status``)."""
    return [_harvested(bundle) for bundle in find_runs(path)]


def _harvested(bundle: Bundle) -> Harvested:
    """Collect the canonical score of one bundle."""
    facts = Harvested(
        benchmark=bundle.path.parent.name,
        model=bundle.model,
        status=bundle.status,
        metric=None,
        score=None,
        scale=None,
        percent=None,
        standard_error=None,
        n=bundle.samples or None,
        repeats=bundle.repeats,
        coverage=bundle.coverage.share,
        run=str(bundle.path.parent.parent),
    )
    score = _canonical(bundle)
    if score is not None:
        scale = _scale(bundle, score)
        facts = replace(
            facts,
            metric=score.name,
            score=score.value,
            scale=scale,
            percent=round(score.value * 100 / scale, 4),
            standard_error=_error(bundle, score),
        )
    corrected = bundle.corrected
    if corrected is not None:
        facts = replace(
            facts,
            corrected=corrected.value,
            corrected_lower=corrected.ci_lower,
            corrected_upper=corrected.ci_upper,
            corrected_standard_error=_error_of_interval(corrected),
        )
    tampering = bundle.tampering
    if tampering is not None:
        facts = replace(facts, tampered=tampering.tampered, score_tampered_as_0=tampering.score)
    return facts


def _scale(bundle: Bundle, score: Score) -> int:
    """Return the highest possible value of a score: 1 or 100.

    A low score in percent looks like a share, so one value does not show the scale. The scale of nel's own scores
    follows from the largest reward of the run, that of other scores from all scores of the same kind.
    """
    values = [score.value]
    if score.name in _OF_ROWS:
        scores = as_dict(bundle.benchmark.get("scores"))
        largest_reward = as_number(as_dict(scores.get("summary")).get("max"))
        if largest_reward is not None:
            values.append(largest_reward)
    else:
        kind = _kind_of(score)
        for other_score in bundle.scores:
            if _kind_of(other_score) == kind:
                values.append(other_score.value)
                values.append(other_score.ci_upper or 0.0)
    if max(map(abs, values)) > 1:
        return 100
    return 1


def _kind_of(score: Score) -> tuple[str, str]:
    """Return the first and the last part of a score's name, which ``a/pass@1/x`` and ``a/pass@8/x`` share."""
    parts = score.name.split("/")
    return parts[0], parts[-1]


def _canonical(bundle: Bundle) -> Score | None:
    """Return the score that the benchmark's recipe names, else the headline score."""
    recipe = _recipe_of(bundle)
    if recipe is None:
        return bundle.headline
    matching: list[Score] = []
    for score in bundle.scores:
        if score is bundle.corrected:
            continue
        if score.name == recipe.metric:
            return score
        if re.search(recipe.metric, score.name):
            matching.append(score)
    if not matching:
        return bundle.headline
    # The average over the most repeats; of several, the last one.
    return sorted(matching, key=_averaged_repeats)[-1]


def _recipe_of(bundle: Bundle) -> Recipe | None:
    """Return the recipe of a bundle's benchmark; None if it has none."""
    names = {bundle.path.parent.name, bundle.name}
    for recipe in recipes().values():
        if recipe.name in names or recipe.benchmark["name"] in names:
            return recipe
    return None


def _averaged_repeats(score: Score) -> int:
    """Return over how many repeats a score is averaged, according to its name; 0 if the name does not say."""
    match = _AVERAGE.search(score.name)
    return int(match[1]) if match else 0


def _error(bundle: Bundle, score: Score) -> float | None:
    """Return the standard error of a score.

    For a mean over rows it is cluster-robust, with problems as clusters; for other scores it follows from the interval.
    """
    if score.name in _OF_ROWS and bundle.results.is_file():
        rows = read_table(bundle.results)
        rewards = rows.reward[rows.scored]
        problems = rows.problem[rows.scored]
        if len(set(problems)) > 1:
            return math.sqrt(cluster_spread(rewards, problems).variance)
    return _error_of_interval(score)


def _error_of_interval(score: Score) -> float | None:
    """Return the standard error that a 95 % interval stands for; None without bounds."""
    if score.ci_lower is None or score.ci_upper is None:
        return None
    return (score.ci_upper - score.ci_lower) / _WIDTH_OF_95
