"""The scored rows of a run with the grades of its judges."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import LabelDraw
from nemo_evaluator.runs.labels import Label
from nemo_evaluator.runs.row import Row
from nemo_evaluator.statistics.clusters import usable_clusters
from nemo_evaluator.statistics.groups import Floats, Ints
from nemo_evaluator.statistics.ppi import Labelled

Flags: TypeAlias = NDArray[np.bool_]
# The column of the rewards that make the headline.
HEADLINE: Final = "headline"
# The uncertainty of the most certain grade.
_LEAST_UNCERTAINTY: Final = 0.05
# Begins the entries of scorers among the details of a row.
_SCORER: Final = "scorer:"
# Separates the name of an ensemble from that of its member.
_MEMBER: Final = "/"
# The grades that mean a reward of 0 and of 1 where the rows do not show them.
_UNIT_SCALE: Final = (0.0, 1.0)
# The length of an answer's hash.
_HASH_LENGTH: Final = 16


@dataclass(slots=True)
class JudgedRows:
    """Columns over the scored rows of a run.

    Attributes:
        keys: Problem and repeat of each row.
        content: The hash of its problem.
        clusters: What its problem shares with others; empty for a problem of its own.
        answers: The hash of its answer.
        length: The length of its answer.
        rewards: The rewards of each judge; NaN where a judge gave none.
        unsure: How uncertain the judge was, from 0 to 1.
        position: The judge's bias for the first position, where it compared both orders; else NaN.
        scale: The grades that mean a reward of 0 and of 1, as far as the rows show it.
    """

    keys: list[tuple[int, int]] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    unsure: list[float] = field(default_factory=list)
    position: list[float] = field(default_factory=list)
    scale: tuple[float, float] = _UNIT_SCALE

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
        chance_column: Floats | None = None
        if draw is not None:
            chances = {row.key: row.chance for row in draw.rows}
            chance_column = _mean_for_missing(self._by_row(chances)[graded])
        label_values: dict[tuple[int, int], float | None] = dict.fromkeys(chances, missing)
        for key, label in labels.items():
            is_drawn = draw is None or key in chances
            if is_drawn and label.value is not None:
                label_values[key] = label.value
        human = self._by_row(label_values)[graded]
        return Labelled(
            judge=grades[graded],
            human=human,
            chance=chance_column,
            clusters=self._clusters(graded),
        )

    def _clusters(self, graded: Flags) -> Ints | None:
        """The cluster of each graded row, or its problem; None when every row has a problem of its own."""
        codes: dict[tuple[str, int], int] = {}
        code_of_row: list[int] = []
        for (problem, _), cluster in zip(self.keys, self.clusters, strict=True):
            group = (cluster, 0) if cluster else ("", problem)
            code_of_row.append(codes.setdefault(group, len(codes)))
        graded_codes = np.array(code_of_row, dtype=np.int64)[graded]
        return usable_clusters(graded_codes)

    def _by_row(self, values: Mapping[tuple[int, int], float | None]) -> Floats:
        """A column of values by row, NaN where there is none."""
        column = [values.get(key, math.nan) for key in self.keys]
        return np.array(column, dtype=np.float64)

    def add_row(self, row: Row, rewards: Mapping[str, float], details: JsonDict) -> None:
        """Add a scored row.

        Args:
            row: The row.
            rewards: The reward of each judge that gave one.
            details: The details of the scorer that made the headline.
        """
        self._add_rewards(rewards)
        self.keys.append(row.key)
        self.content.append(row.problem_hash or str(row.problem_idx))
        self.clusters.append(row.cluster)
        # The hash shows whether a label is still about the same answer.
        answer_hash = digest_parts(row.response)[:_HASH_LENGTH]
        self.answers.append(answer_hash)
        self.length.append(len(row.response))
        self.unsure.append(_uncertainty(rewards[HEADLINE], details))
        self.position.append(_position_bias(details))

    def _add_rewards(self, rewards: Mapping[str, float]) -> None:
        """Add one row to the column of each judge; NaN where the judge gave no reward."""
        for judge in rewards:
            if judge not in self.rewards:
                self.rewards[judge] = [math.nan] * len(self)
        for judge, column in self.rewards.items():
            column.append(rewards.get(judge, math.nan))

    def set_scale(self, scale: tuple[float, float]) -> None:
        """Set the scale, and turn the grades of an ensemble's members into rewards; all other columns are rewards.

        Args:
            scale: The grades that mean a reward of 0 and of 1.
        """
        self.scale = scale
        for name, column in self.rewards.items():
            if _MEMBER in name:
                self.rewards[name] = [_reward_of_grade(grade, scale) for grade in column]


def _mean_for_missing(chance: Floats) -> Floats:
    """Replace the unknown probabilities of rows that were not drawn by the mean of the drawn ones."""
    drawn = chance[~np.isnan(chance)]
    mean = float(drawn.mean()) if len(drawn) else 1.0
    return np.nan_to_num(chance, nan=mean)


def read_judged(run: Bundle) -> JudgedRows:
    """Read every scored row of a run.

    Args:
        run: The run.

    Raises:
        UsageError: The run has no scored rows.
    """
    rows = JudgedRows(rewards={HEADLINE: []})
    headline_scorer = f"{_SCORER}{run.config.get('reward_from')}"
    grade_of_reward: dict[float, float] = {}
    for row in run.rows():
        reward = row.reward
        if reward is None:
            continue
        scorer_details = _scorer_details(row)
        headline_details = scorer_details.get(headline_scorer, row.scoring_details)
        rewards = {HEADLINE: reward} | _judge_rewards(row, scorer_details)
        rows.add_row(row, rewards, headline_details)
        grade = _plain_grade(headline_details)
        if grade is not None:
            grade_of_reward[reward] = grade
    if not len(rows):
        raise UsageError(f"{run.results} has no scored rows", hint=f"nel check {run.path.parent}")
    rows.set_scale(_scale(grade_of_reward))
    return rows


def _scorer_details(row: Row) -> dict[str, JsonDict]:
    """The details of the scorers of a row, by ``scorer:<name>``."""
    details: dict[str, JsonDict] = {}
    for name, entry in row.scoring_details.items():
        if name.startswith(_SCORER):
            details[name] = as_dict(entry)
    return details


def _plain_grade(details: JsonDict) -> float | None:
    """The grade of a judge; None if it gave none, or compared both orders, where a grade does not set the reward."""
    compared_both_orders = as_number(details.get("swap_score")) is not None
    if compared_both_orders:
        return None
    return as_number(details.get("score"))


def _position_bias(details: JsonDict) -> float:
    """The judge's bias for the first position; NaN if it did not compare both orders."""
    grade = as_number(details.get("score"))
    swapped_grade = as_number(details.get("swap_score"))
    if grade is None or swapped_grade is None:
        return math.nan
    return grade - swapped_grade


def _reward_of_grade(grade: float, scale: tuple[float, float]) -> float:
    """The reward of a grade, from 0 to 1."""
    grade_of_zero, grade_of_one = scale
    reward = (grade - grade_of_zero) / (grade_of_one - grade_of_zero)
    return min(max(reward, 0.0), 1.0)


def _judge_rewards(row: Row, scorer_details: dict[str, JsonDict]) -> dict[str, float]:
    """The rewards of additional judges, and the grades of the members of an ensemble."""
    rewards: dict[str, float] = {}
    for scorer, value in row.scorer_rewards.items():
        reward = as_number(value)
        if reward is not None:
            rewards[scorer] = reward
    for name, details in scorer_details.items():
        scorer = name.removeprefix(_SCORER)
        reward = as_number(details.get("reward"))
        is_judge = "judge_model" in details
        if is_judge and reward is not None and scorer not in row.scorer_rewards:
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
    middle = 0.0
    if 0 < reward < 1:
        middle = 4 * reward * (1 - reward)
    disagreement = 0.0
    grades = list(_member_grades(details).values())
    if grades:
        grade_range = float(np.ptp(grades))
        disagreement = grade_range / max(max(grades), 1.0)
    inconsistent = details.get("consistent") is False
    order_matters = inconsistent or as_number(details.get("position_bias"))
    swapped = 1.0 if order_matters else 0.0
    return max(middle, disagreement, swapped, _LEAST_UNCERTAINTY)


def _scale(grade_of_reward: dict[float, float]) -> tuple[float, float]:
    """The grades that mean a reward of 0 and of 1, extrapolated from the lowest and the highest reward.

    Args:
        grade_of_reward: A grade for each reward of the run.

    Returns:
        Both grades; 0 and 1 when the rows do not show them.
    """
    if len(grade_of_reward) < 2:
        return _UNIT_SCALE
    lowest_reward = min(grade_of_reward)
    highest_reward = max(grade_of_reward)
    lowest_grade = grade_of_reward[lowest_reward]
    highest_grade = grade_of_reward[highest_reward]
    slope = (highest_grade - lowest_grade) / (highest_reward - lowest_reward)
    if slope <= 0:
        return _UNIT_SCALE
    grade_of_zero = lowest_grade - lowest_reward * slope
    grade_of_one = grade_of_zero + slope
    return round(grade_of_zero, 6), round(grade_of_one, 6)
