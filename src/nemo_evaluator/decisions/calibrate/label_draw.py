"""The random draw of rows for labelling, and how narrow an interval its labels can be expected to give."""

from typing import Final, Literal, TypeAlias

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.calibrate.judged_rows import HEADLINE, JudgedRows
from nemo_evaluator.runs.calibration import DrawnRow, LabelDraw
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.judge_error import expected_half_width

Method: TypeAlias = Literal["uniform", "stratified", "uncertainty"]
# Sensitivity and specificity of a typical judge, for planning.
USUAL_JUDGE: Final = (0.9, 0.85)
# Sensitivity and specificity of a judge that guesses.
_USELESS_JUDGE: Final = (0.5, 0.5)
# A planned score this far from 0 and 1 leaves a judge something to explain.
_LEAST_PLANNED_SCORE: Final = 0.05
# Number of reward levels of a stratified draw, and the labels that each level gets at least.
_LEVELS: Final = 5
_LEAST_QUOTA: Final = 2
# The part of the labels that an uncertainty draw spreads evenly.
_EVEN: Final = 0.5
# Separates this random stream from other uses of the same seed.
_STREAM: Final = 0x1ABE1


def draw_rows(
    rows: JudgedRows, labels: int, method: Method = "uniform", seed: int = 0
) -> LabelDraw:
    """Draw rows for labelling.

    Args:
        rows: The rows of the run.
        labels: Number of rows to draw; an uncertainty draw gets about so many.
        method: "uniform" gives every row the same probability, "stratified" gives rare rewards more, "uncertainty"
            gives more to rows that the judge was uncertain about.
        seed: Seed of the random numbers.

    Returns:
        The drawn rows in a random order, each with its probability.

    Raises:
        UsageError: An uncertainty draw of rows that are all equally uncertain.
    """
    rng = np.random.default_rng([seed, _STREAM])
    labels = min(labels, len(rows))
    if method == "uniform":
        chances, positions = _uniform_draw(rng, len(rows), labels)
    elif method == "stratified":
        chances, positions = _stratified_draw(rng, rows.column(HEADLINE), labels)
    else:
        chances, positions = _uncertainty_draw(rng, np.array(rows.unsure), labels)
    drawn: list[DrawnRow] = []
    for position in rng.permutation(positions).tolist():
        chance = float(chances[position])
        drawn.append(_drawn_row(rows, position, chance))
    return LabelDraw(method, seed, tuple(drawn))


def _uniform_draw(rng: np.random.Generator, total: int, labels: int) -> tuple[Floats, Ints]:
    """Draw every row with the same probability.

    Returns:
        The probability of each row, and the positions of the drawn rows.
    """
    chances = np.full(total, labels / total)
    positions = rng.choice(total, labels, replace=False)
    return chances, np.asarray(positions, dtype=np.int64)


def _stratified_draw(rng: np.random.Generator, rewards: Floats, labels: int) -> tuple[Floats, Ints]:
    """Draw by reward level, with labels in proportion to the square root of a level's size: rare levels get more.

    Returns:
        The probability of each row, and the positions of the drawn rows.
    """
    levels_from_zero = (rewards * _LEVELS).astype(np.int64)
    level_of_row = np.minimum(levels_from_zero, _LEVELS - 1)
    levels, sizes = np.unique(level_of_row, return_counts=True)
    root_sizes = np.sqrt(sizes)
    proportional_quotas = np.rint(labels * root_sizes / root_sizes.sum())
    quotas = np.maximum(proportional_quotas, _LEAST_QUOTA)
    quotas = np.minimum(quotas, sizes).astype(int)
    chances = np.zeros(len(rewards))
    positions: list[Ints] = []
    for level, size, quota in zip(levels.tolist(), sizes.tolist(), quotas.tolist(), strict=True):
        in_level = level_of_row == level
        chances[in_level] = quota / size
        positions_in_level = np.flatnonzero(in_level)
        positions.append(rng.choice(positions_in_level, quota, replace=False))
    return chances, np.concatenate(positions)


def _uncertainty_draw(rng: np.random.Generator, unsure: Floats, labels: int) -> tuple[Floats, Ints]:
    """Draw each row by itself, with a probability that grows with the judge's uncertainty.

    Returns:
        The probability of each row, and the positions of the drawn rows.

    Raises:
        UsageError: All rows are equally uncertain.
    """
    if float(np.ptp(unsure)) == 0.0:
        raise UsageError(
            "this judge is equally certain of every row: it gives no grades in between and no second opinion",
            hint="use --method uniform or stratified; or judge with a graded rubric, swap_check or ensemble_judge",
        )
    total = len(unsure)
    # Even the most certain rows keep half of an equal probability, so that no label represents very many rows.
    even_share = _EVEN / total
    uncertain_shares = (1 - _EVEN) * unsure / unsure.sum()
    chances = np.clip(labels * (uncertain_shares + even_share), 0.0, 1.0)
    is_drawn = rng.random(total) < chances
    return chances, np.flatnonzero(is_drawn)


def draw_like(rows: JudgedRows, other: JudgedRows, drawn: LabelDraw) -> LabelDraw:
    """Draw the same problems as another run, with the same probabilities, so that the labels pair.

    Args:
        rows: The rows of this run.
        other: The rows of the other run.
        drawn: The other run's draw.

    Raises:
        UsageError: This run has none of the drawn problems.
    """
    position_of: dict[tuple[str, int], int] = {}
    for position, key in enumerate(rows.keys):
        _, repeat = key
        position_of[rows.content[position], repeat] = position
    content_of_other = dict(zip(other.keys, other.content, strict=True))
    shared: list[DrawnRow] = []
    for row in drawn.rows:
        content = content_of_other.get(row.key, "")
        shared_position = position_of.get((content, row.repeat))
        if shared_position is not None:
            shared.append(_drawn_row(rows, shared_position, row.chance))
    if not shared:
        raise UsageError(
            "the two runs share none of the drawn problems",
            hint="leave --like out, or name another run",
        )
    return LabelDraw(drawn.method, drawn.seed, tuple(shared))


def _drawn_row(rows: JudgedRows, position: int, chance: float) -> DrawnRow:
    """The row at a position, as the file of the draw has it."""
    problem, repeat = rows.keys[position]
    return DrawnRow(problem, repeat, round(chance, 9), answer=rows.answers[position])


def expected_widths(rows: JudgedRows, labels: int) -> tuple[float, float]:
    """The expected half width of the corrected interval with a typical judge, and with the labels alone.

    Args:
        rows: The rows of the run.
        labels: Number of labels.
    """
    mean = float(np.nanmean(rows.column(HEADLINE)))
    planned_score = min(max(mean, _LEAST_PLANNED_SCORE), 1 - _LEAST_PLANNED_SCORE)
    with_judge = _expected_width(labels, rows, planned_score, USUAL_JUDGE)
    labels_alone = _expected_width(labels, rows, planned_score, _USELESS_JUDGE)
    return with_judge, labels_alone


def _expected_width(
    labels: int, rows: JudgedRows, planned_score: float, judge: tuple[float, float]
) -> float:
    """The expected half width with a judge of some sensitivity and specificity."""
    sensitivity, specificity = judge
    return expected_half_width(
        labels,
        len(rows),
        planned_score,
        sensitivity=sensitivity,
        specificity=specificity,
    )
