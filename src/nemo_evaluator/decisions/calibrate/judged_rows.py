"""The scored rows of a run with the grades of its judges, and the random draw of rows for labelling."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import DrawnRow, LabelDraw
from nemo_evaluator.runs.labels import Label
from nemo_evaluator.runs.row import Row
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.judge_error import expected_half_width
from nemo_evaluator.statistics.ppi import Labelled

# The column of the rewards that make the headline.
HEADLINE: Final = "headline"
# The uncertainty of the most certain grade.
_LEAST_UNCERTAINTY: Final = 0.05
# Separates the name of an ensemble from that of its member.
_MEMBER: Final = "/"
Method: TypeAlias = Literal["uniform", "stratified", "uncertainty"]
# Sensitivity and specificity of a typical judge, for planning.
USUAL_JUDGE = (0.9, 0.85)
# Sensitivity and specificity of a judge that guesses.
_USELESS_JUDGE = (0.5, 0.5)
# Number of reward levels of a stratified draw.
_LEVELS = 5
# The part of the labels that an uncertainty draw spreads evenly.
_EVEN = 0.5
# Separates this random stream from other uses of the same seed.
_STREAM = 0x1ABE1


@dataclass(slots=True)
class JudgedRows:
    """Columns over the scored rows of a run.

    Attributes:
        keys: Problem and repeat of each row.
        content: The hash of its problem.
        answers: The hash of its answer.
        length: The length of its answer.
        rewards: The rewards of each judge; NaN where a judge gave none.
        unsure: How uncertain the judge was, from 0 to 1.
        position: The judge's bias for the first position, where it compared both orders; else NaN.
        scale: The grades that mean a reward of 0 and of 1, as far as the rows show it.
    """

    keys: list[tuple[int, int]] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    unsure: list[float] = field(default_factory=list)
    position: list[float] = field(default_factory=list)
    scale: tuple[float, float] = (0.0, 1.0)

    def __len__(self) -> int:
        return len(self.keys)

    def column(self, judge: str) -> Floats:
        """The rewards of one judge."""
        return np.array(self.rewards[judge], dtype=np.float64)

    def labelled(
        self,
        labels: dict[tuple[int, int], Label],
        draw: LabelDraw | None,
        judge: str = HEADLINE,
        *,
        missing: float | None = None,
    ) -> Labelled:
        """The grades of one judge with the labels.

        Args:
            labels: The labels by row.
            draw: The drawn rows with their probabilities; None treats the labels as a simple random sample.
            judge: The judge.
            missing: The label of drawn rows that people left out or were not sure of; None leaves them out.
        """
        grades = self.column(judge)
        graded = ~np.isnan(grades)
        chances: dict[tuple[int, int], float] = {}
        chance: Floats | None = None
        if draw is not None:
            chances = {row.key: row.chance for row in draw.rows}
            chance = self._by_row(chances)[graded]
            chance = _mean_for_missing(chance)
        label_values: dict[tuple[int, int], float | None] = dict.fromkeys(chances, missing)
        for key, label in labels.items():
            is_drawn = draw is None or key in chances
            if is_drawn and label.value is not None:
                label_values[key] = label.value
        human = self._by_row(label_values)[graded]
        problem = np.array([problem for problem, _ in self.keys], dtype=np.int64)[graded]
        repeated = len(np.unique(problem)) < len(problem)
        return Labelled(grades[graded], human, chance, clusters=problem if repeated else None)

    def _by_row(self, values: Mapping[tuple[int, int], float | None]) -> Floats:
        """A column of values by row, NaN where there is none."""
        return np.array([values.get(key, math.nan) for key in self.keys], dtype=np.float64)


def _mean_for_missing(chance: Floats) -> Floats:
    """Replace the unknown probabilities of rows that were not drawn by the mean of the drawn ones."""
    drawn = chance[~np.isnan(chance)]
    mean = float(drawn.mean()) if len(drawn) else 1.0
    return np.nan_to_num(chance, nan=mean)


def read_judged(run: Bundle) -> JudgedRows:
    """Read every scored row of a run.

    Raises:
        UsageError: The run has no scored rows.
    """
    rows = JudgedRows(rewards={HEADLINE: []})
    reward_scorer = f"scorer:{run.config.get('reward_from')}"
    grade_of_reward: dict[float, float] = {}
    for row in run.rows():
        reward = row.reward
        if reward is None:
            continue
        scorer_details: dict[str, JsonDict] = {}
        for name, entry in row.scoring_details.items():
            if name.startswith("scorer:"):
                scorer_details[name] = as_dict(entry)
        _add_rewards(rows, {HEADLINE: reward} | _judge_rewards(row, scorer_details))
        rows.keys.append(row.key)
        rows.content.append(row.problem_hash or str(row.problem_idx))
        # The hash shows whether a label is still about the same answer.
        rows.answers.append(digest_parts(row.response)[:16])
        rows.length.append(len(row.response))
        details = scorer_details.get(reward_scorer, row.scoring_details)
        rows.unsure.append(_uncertainty(reward, details))
        rows.position.append(_position_bias(details))
        grade = as_number(details.get("score"))
        compared_both_orders = as_number(details.get("swap_score")) is not None
        if grade is not None and not compared_both_orders:
            grade_of_reward[reward] = grade
    if not len(rows):
        raise UsageError(f"{run.results} has no scored rows", hint=f"nel check {run.path.parent}")
    rows.scale = _scale(grade_of_reward) or (0.0, 1.0)
    # The members of an ensemble give grades; all other columns are rewards already.
    for name, column in rows.rewards.items():
        if _MEMBER in name:
            rows.rewards[name] = [_reward_of_grade(grade, rows.scale) for grade in column]
    return rows


def _position_bias(details: JsonDict) -> float:
    """The judge's bias for the first position; NaN if it did not compare both orders."""
    grade = as_number(details.get("score"))
    swapped_grade = as_number(details.get("swap_score"))
    if grade is None or swapped_grade is None:
        return math.nan
    return grade - swapped_grade


def _add_rewards(rows: JudgedRows, rewards: dict[str, float]) -> None:
    """Add one row to the column of each judge; NaN where the judge gave no reward."""
    for judge in {*rewards, *rows.rewards}:
        column = rows.rewards.setdefault(judge, [math.nan] * len(rows))
        column.append(rewards.get(judge, math.nan))


def _reward_of_grade(grade: float, scale: tuple[float, float]) -> float:
    """The reward of a grade, from 0 to 1."""
    low, high = scale
    return min(max((grade - low) / (high - low), 0.0), 1.0)


def _judge_rewards(row: Row, scorer_details: dict[str, JsonDict]) -> dict[str, float]:
    """The rewards of additional judges, and the grades of the members of an ensemble."""
    rewards: dict[str, float] = {}
    for name, value in row.scorer_rewards.items():
        reward = as_number(value)
        if reward is not None:
            rewards[name] = reward
    for name, details in scorer_details.items():
        scorer = name.removeprefix("scorer:")
        reward = as_number(details.get("reward"))
        if "judge_model" in details and reward is not None and scorer not in row.scorer_rewards:
            rewards[scorer] = reward
        for member, grade in _member_grades(details).items():
            rewards[f"{scorer}{_MEMBER}{member}"] = grade
    return rewards


def _member_grades(details: JsonDict) -> dict[str, float]:
    """The grades of the members of an ensemble, by member."""
    grades: dict[str, float] = {}
    for member, entry in as_dict(details.get("judges")).items():
        grade = as_number(as_dict(entry).get("score"))
        if grade is not None:
            grades[member] = grade
    return grades


def _uncertainty(reward: float, details: JsonDict) -> float:
    """How uncertain a grade is, from 0 to 1.

    It is the largest of three signs: a grade in the middle, members that disagree, an order that changes the verdict.
    """
    middle = 4 * reward * (1 - reward) if 0 < reward < 1 else 0.0
    grades = list(_member_grades(details).values())
    disagreement = 0.0
    if grades:
        disagreement = float(np.ptp(grades)) / max(max(grades), 1.0)
    order_matters = details.get("consistent") is False or as_number(details.get("position_bias"))
    swapped = 1.0 if order_matters else 0.0
    return max(middle, disagreement, swapped, _LEAST_UNCERTAINTY)


def _scale(grade_of_reward: dict[float, float]) -> tuple[float, float] | None:
    """The grades that mean a reward of 0 and of 1, extrapolated from the lowest and the highest reward."""
    if len(grade_of_reward) < 2:
        return None
    low = min(grade_of_reward)
    high = max(grade_of_reward)
    slope = (grade_of_reward[high] - grade_of_reward[low]) / (high - low)
    if slope <= 0:
        return None
    grade_of_zero = grade_of_reward[low] - low * slope
    return round(grade_of_zero, 6), round(grade_of_zero + slope, 6)


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

    Raises:
        UsageError: An uncertainty draw of rows that are all equally uncertain.
    """
    rng = np.random.default_rng([seed, _STREAM])
    total = len(rows)
    labels = min(labels, total)
    chosen: Ints
    if method == "uniform":
        chance = np.full(total, labels / total)
        chosen = np.asarray(rng.choice(total, labels, replace=False), np.int64)
    elif method == "stratified":
        chance, chosen = _stratified_draw(rng, rows.column(HEADLINE), labels)
    else:
        unsure = np.array(rows.unsure)
        if float(np.ptp(unsure)) == 0.0:
            raise UsageError(
                "this judge is equally certain of every row: it gives no grades in between and no second opinion",
                hint="use --method uniform or stratified; or judge with a graded rubric, swap_check or ensemble_judge",
            )
        # Even the most certain rows keep half of an equal probability, so that no label represents very many rows.
        share = (1 - _EVEN) * unsure / unsure.sum() + _EVEN / total
        chance = np.clip(labels * share, 0.0, 1.0)
        chosen = np.flatnonzero(rng.random(total) < chance)
    order = rng.permutation(chosen).tolist()
    drawn = [_drawn_row(rows, position, float(chance[position])) for position in order]
    return LabelDraw(method, seed, tuple(drawn))


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
    for position, (content, (_, repeat)) in enumerate(zip(rows.content, rows.keys, strict=True)):
        position_of[content, repeat] = position
    other_content = dict(zip(other.keys, other.content, strict=True))
    shared: list[DrawnRow] = []
    for row in drawn.rows:
        content = other_content.get(row.key, "")
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
    problem, repeat = rows.keys[position]
    return DrawnRow(problem, repeat, round(chance, 9), answer=rows.answers[position])


def _stratified_draw(rng: np.random.Generator, rewards: Floats, labels: int) -> tuple[Floats, Ints]:
    """Draw by reward level, with labels in proportion to the square root of a level's size: rare levels get more.

    Returns:
        The probability of each row, and the positions of the drawn rows.
    """
    level_of_row = np.minimum((rewards * _LEVELS).astype(np.int64), _LEVELS - 1)
    levels, sizes = np.unique(level_of_row, return_counts=True)
    root_sizes = np.sqrt(sizes)
    proportional = np.rint(labels * root_sizes / root_sizes.sum())
    quotas = np.minimum(np.maximum(proportional, 2), sizes).astype(int)
    chance = np.zeros(len(rewards))
    chosen: list[Ints] = []
    for level, size, quota in zip(levels.tolist(), sizes.tolist(), quotas.tolist(), strict=True):
        in_level = level_of_row == level
        chance[in_level] = quota / size
        chosen.append(rng.choice(np.flatnonzero(in_level), quota, replace=False))
    return chance, np.concatenate(chosen)


def expected_widths(rows: JudgedRows, labels: int) -> tuple[float, float]:
    """The expected half width of the corrected interval with a typical judge, and with the labels alone."""
    mean = min(max(float(np.nanmean(rows.column(HEADLINE))), 0.05), 0.95)
    total = len(rows)
    usual_sensitivity, usual_specificity = USUAL_JUDGE
    sensitivity, specificity = _USELESS_JUDGE
    with_judge = expected_half_width(
        labels, total, mean, sensitivity=usual_sensitivity, specificity=usual_specificity
    )
    labels_alone = expected_half_width(
        labels, total, mean, sensitivity=sensitivity, specificity=specificity
    )
    return with_judge, labels_alone
