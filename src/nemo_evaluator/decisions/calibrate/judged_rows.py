"""The scored rows of a run as judges saw them, how sure they were, and which of the rows people should label."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

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
from nemo_evaluator.statistics.ppi import Labelled, expected_half_width

# The column of the rewards that make the headline.
HEADLINE: Final = "headline"
_SURE: Final = 0.05
# Between an ensemble and one of its judges.
_MEMBER: Final = "/"
Method: TypeAlias = Literal["uniform", "stratified", "uncertainty"]
# A usual judge, for saying beforehand how narrow an interval will be: how often it sees a right and a wrong answer.
USUAL_JUDGE = (0.9, 0.85)
_LEVELS = 5
_EVEN = 0.5
# Keeps the draw apart from whatever else was drawn with the same seed.
_STREAM = 0x1ABE1


@dataclass(slots=True)
class JudgedRows:
    """Columns over the scored rows of a run; a judge that said nothing of a row is NaN there."""

    keys: list[tuple[int, int]] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    unsure: list[float] = field(default_factory=list)
    # What the first place is worth to the judge, where it was asked in both orders.
    position: list[float] = field(default_factory=list)
    # The lowest and the highest grade, as far as the rows tell.
    scale: tuple[float, float] = (0.0, 1.0)

    def __len__(self) -> int:
        return len(self.keys)

    def column(self, judge: str) -> Floats:
        return np.array(self.rewards[judge], dtype=np.float64)

    def labelled(
        self, labels: dict[tuple[int, int], Label], draw: LabelDraw | None, judge: str = HEADLINE
    ) -> Labelled:
        """The rows with their labels. Without a draw, labels count as if any row could have been labelled."""
        if draw is not None:
            chances: dict[tuple[int, int], float] = {row.key: row.chance for row in draw.rows}
        else:
            chances = {}
        known: dict[tuple[int, int], float | None] = {}
        for key, label in labels.items():
            if draw is None or key in chances:
                known[key] = label.value
        human = np.array([known.get(key, np.nan) for key in self.keys], dtype=np.float64)
        said = self.column(judge)
        kept = ~np.isnan(said)
        if draw is not None:
            chance: np.ndarray[tuple[Any, ...], np.dtype[Any]] | None = np.array(
                [chances.get(key, np.nan) for key in self.keys]
            )[kept]
        else:
            chance = None
        if chance is not None:
            drawn = chance[~np.isnan(chance)]
            chance = np.nan_to_num(chance, nan=float(drawn.mean()) if len(drawn) else 1.0)
        problem = np.array([problem for problem, _ in self.keys], dtype=np.int64)[kept]
        clusters = problem if len(np.unique(problem)) < len(problem) else None
        return Labelled(said[kept], human[kept], chance, clusters=clusters)


def read_judged(run: Bundle) -> JudgedRows:
    """Every scored row of a run. Raises UsageError when there is none."""
    found = JudgedRows(rewards={HEADLINE: []})
    grades = {}
    for row in run.rows():
        if row.reward is None:
            continue
        details: dict[str, dict[str, Any]] = {}
        for name, one in row.scoring_details.items():
            if name.startswith("scorer:"):
                details[name] = as_dict(one)
        said = {HEADLINE: row.reward} | _judges(row, details)
        for name in {*said, *found.rewards}:
            column = found.rewards.setdefault(name, [float("nan")] * len(found))
            column.append(said.get(name, float("nan")))
        found.keys.append(row.key)
        found.content.append(row.problem_hash or str(row.problem_idx))
        # What tells whether a label still is about the same answer.
        found.answers.append(digest_parts(row.response)[:16])
        found.length.append(len(row.response))
        own = details.get(f"scorer:{run.config.get('reward_from')}", row.scoring_details)
        found.unsure.append(_unsure(row.reward, own))
        score = as_number(own.get("score"))
        other = as_number(own.get("swap_score"))
        found.position.append(
            score - other if score is not None and other is not None else float("nan")
        )
        if score is not None and other is None:
            grades[row.reward] = score
    if not len(found):
        raise UsageError(f"{run.results} has no scored rows", hint=f"nel check {run.path.parent}")
    found.scale = low, high = _scale(grades) or (0.0, 1.0)
    for name, column in found.rewards.items():
        if _MEMBER in name:
            found.rewards[name] = [
                min(max((grade - low) / (high - low), 0.0), 1.0) for grade in column
            ]
    return found


def _judges(row: Row, details: dict[str, JsonDict]) -> dict[str, float]:
    """The rewards of further judges, and of the members of an ensemble."""
    said = {name: as_number(value) for name, value in row.scorer_rewards.items()}
    for name, one in details.items():
        if "judge_model" in one:
            said.setdefault(name.removeprefix("scorer:"), as_number(one.get("reward")))
        for member, told in as_dict(one.get("judges")).items():
            said[f"{name.removeprefix('scorer:')}{_MEMBER}{member}"] = as_number(
                as_dict(told).get("score")
            )
    return {name: value for name, value in said.items() if value is not None}


def _unsure(reward: float, details: JsonDict) -> float:
    """From 0 to 1: a grade in the middle, judges that differ, an order that mattered."""
    grades: list[float | None] = []
    for one in as_dict(details.get("judges")).values():
        grades.append(as_number(as_dict(one).get("score")))
    known = [grade for grade in grades if grade is not None]
    if known:
        apart = float(np.ptp(known)) / max(max(known), 1.0)
    else:
        apart = 0.0
    if as_number(details.get("position_bias")) or details.get("consistent") is False:
        swapped = 1.0
    else:
        swapped = 0.0
    return max(4 * reward * (1 - reward) if 0 < reward < 1 else 0.0, apart, swapped, _SURE)


def _scale(grades: dict[float, float]) -> tuple[float, float] | None:
    """The grades that stand for a reward of 0 and of 1."""
    if len(grades) < 2:
        return None
    (low, first), (high, last) = min(grades.items()), max(grades.items())
    step = (last - first) / (high - low)
    bottom = first - low * step
    if step > 0:
        return (round(bottom, 6), round(bottom + step, 6))
    return None


def draw_rows(
    rows: JudgedRows, labels: int, method: Method = "uniform", seed: int = 0
) -> LabelDraw:
    """Draw rows of a run. Raises UsageError when the run cannot be drawn from like that."""
    rng = np.random.default_rng([seed, _STREAM])
    total = len(rows)
    labels = min(labels, total)
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
    place = {
        (content, key[1]): at
        for at, (content, key) in enumerate(zip(rows.content, rows.keys, strict=True))
    }
    content = dict(zip(other.keys, other.content, strict=True))
    found = [(place.get((content.get(row.key, ""), row.repeat)), row.chance) for row in drawn.rows]
    same = tuple(_row(rows, at, chance) for at, chance in found if at is not None)
    if not same:
        raise UsageError(
            "the two runs share no problem that was drawn",
            hint="leave --like out, or give another run",
        )
    return LabelDraw(drawn.method, drawn.seed, same)


def _row(rows: JudgedRows, at: int, chance: float) -> DrawnRow:
    problem, repeat = rows.keys[at]
    return DrawnRow(problem, repeat, round(chance, 9), answer=rows.answers[at])


def _by_level(rng: np.random.Generator, rewards: Floats, labels: int) -> tuple[Floats, Ints]:
    """Rare verdicts get more than their share: labels by the root of how many rows a level of rewards has."""
    level = np.minimum((rewards * _LEVELS).astype(np.int64), _LEVELS - 1)
    present, sizes = np.unique(level, return_counts=True)
    wanted = np.minimum(
        np.maximum(np.rint(labels * np.sqrt(sizes) / np.sqrt(sizes).sum()), 2), sizes
    ).astype(int)
    chance = np.zeros(len(rewards))
    chosen = []
    for one, size, many in zip(present.tolist(), sizes.tolist(), wanted.tolist(), strict=True):
        chance[level == one] = many / size
        chosen.append(rng.choice(np.flatnonzero(level == one), many, replace=False))
    return chance, np.concatenate(chosen)


def expected_widths(rows: JudgedRows, labels: int) -> tuple[float, float]:
    """How far from its bounds the corrected score will be, with a usual judge; and by the labels alone."""
    mean = min(max(float(np.nanmean(rows.column(HEADLINE))), 0.05), 0.95)
    usual, none = (
        expected_half_width(labels, len(rows), mean, *rates) for rates in (USUAL_JUDGE, (0.5, 0.5))
    )
    return usual, none
