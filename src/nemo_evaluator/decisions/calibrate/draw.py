"""Which rows people should label: drawn by chance, each with the probability it had."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions.calibrate.judged_rows import HEADLINE, JudgedRows
from nemo_evaluator.metrics.groups import Floats, Ints
from nemo_evaluator.metrics.ppi import expected_half_width
from nemo_evaluator.runs.calibration import DrawnRow, LabelDraw

Method: TypeAlias = Literal["uniform", "stratified", "uncertainty"]
# A usual judge, for saying beforehand how narrow an interval will be: how often it sees a right and a wrong answer.
USUAL_JUDGE = (0.9, 0.85)
_LEVELS = 5
_EVEN = 0.5
# Keeps the draw apart from whatever else was drawn with the same seed.
_STREAM = 0x1ABE1


def draw_rows(rows: JudgedRows, labels: int, method: Method = "uniform", seed: int = 0) -> LabelDraw:
    """Draw rows of a run. Raises UsageError when the run cannot be drawn from like that."""
    if labels >= len(rows):
        labels = len(rows)
    rng, total = np.random.default_rng([seed, _STREAM]), len(rows)
    chosen: Ints
    if method == "uniform":
        chance = np.full(total, labels / total)
        chosen = np.asarray(rng.choice(total, labels, replace=False), np.int64)
    elif method == "stratified":
        chance, chosen = _by_level(rng, rows.column(HEADLINE), labels)
    else:
        unsure = np.array(rows.unsure)
        if float(np.ptp(unsure)) == 0.0:
            raise UsageError(
                "this judge is equally sure of every row: it gives no grades in between, and no second opinion",
                hint="use --method uniform or stratified; a graded rubric, swap_check or an ensemble_judge tells more",
            )
        # Even the surest rows keep half of an equal chance, so that no label stands for very many rows.
        chance = np.clip(labels * ((1 - _EVEN) * unsure / unsure.sum() + _EVEN / total), 0.0, 1.0)
        chosen = np.flatnonzero(rng.random(total) < chance)
    order = rng.permutation(chosen).tolist()
    drawn = [_row(rows, at, float(chance[at])) for at in order]
    return LabelDraw(method, seed, tuple(drawn))


def draw_like(rows: JudgedRows, other: JudgedRows, drawn: LabelDraw) -> LabelDraw:
    """The same problems as another run drew, with the same chances, so that the two can be compared in pairs."""
    place = {(content, key[1]): at for at, (content, key) in enumerate(zip(rows.content, rows.keys, strict=True))}
    content = dict(zip(other.keys, other.content, strict=True))
    found = [(place.get((content.get(row.key, ""), row.repeat)), row.chance) for row in drawn.rows]
    same = tuple(_row(rows, at, chance) for at, chance in found if at is not None)
    if not same:
        raise UsageError("the two runs share no problem that was drawn", hint="leave --like out, or give another run")
    return LabelDraw(drawn.method, drawn.seed, same)


def _row(rows: JudgedRows, at: int, chance: float) -> DrawnRow:
    problem, repeat = rows.keys[at]
    return DrawnRow(problem, repeat, round(chance, 9), rows.answers[at])


def _by_level(rng: np.random.Generator, rewards: Floats, labels: int) -> tuple[Floats, Ints]:
    """Rare verdicts get more than their share: labels by the root of how many rows a level of rewards has."""
    level = np.minimum((rewards * _LEVELS).astype(np.int64), _LEVELS - 1)
    present, sizes = np.unique(level, return_counts=True)
    wanted = np.minimum(np.maximum(np.rint(labels * np.sqrt(sizes) / np.sqrt(sizes).sum()), 2), sizes).astype(int)
    chance, chosen = np.zeros(len(rewards)), []
    for one, size, many in zip(present.tolist(), sizes.tolist(), wanted.tolist(), strict=True):
        chance[level == one] = many / size
        chosen.append(rng.choice(np.flatnonzero(level == one), many, replace=False))
    return chance, np.concatenate(chosen)


def expected_widths(rows: JudgedRows, labels: int) -> tuple[float, float]:
    """How far from its bounds the corrected score will be, with a usual judge; and by the labels alone."""
    mean = min(max(float(np.nanmean(rows.column(HEADLINE))), 0.05), 0.95)
    return (
        expected_half_width(labels, len(rows), mean, *USUAL_JUDGE),
        expected_half_width(labels, len(rows), mean, 0.5, 0.5),
    )
