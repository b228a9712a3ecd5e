"""The results of a run's labels: the draw they belong to (``label_draw.json``), and the calibration in the bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import asdict, dataclass, replace
from nemo_evaluator.runs.scores import Score, read_score
from nemo_evaluator.store.layout import TaskPaths

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import MeasuredBy

# The key of the calibration in the benchmark part of a bundle.
PLACE: Final = "calibration"
# Before the name of the score that a calibration corrects.
_PREFIX: Final = "corrected "
# Why a calibration no longer holds, by what has changed.
_EXPLANATIONS: Final = {
    "scorer": "the judge, its prompt, its rubric or the extraction changed",
    "scored": "rows were added",
}


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """A row drawn for labelling, with the probability of drawing it and a digest of its answer."""

    problem_idx: int
    repeat: int
    chance: float
    answer: str

    @property
    def key(self) -> tuple[int, int]:
        """The row's problem and repeat."""
        return self.problem_idx, self.repeat


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """The rows of a run that were drawn for labelling, in the order in which people see them."""

    method: str
    seed: int
    rows: tuple[DrawnRow, ...]

    def save(self, folder: Path) -> None:
        """Write the draw to the folder of its benchmark."""
        write_json(TaskPaths(folder).label_draw, {"version": 1, **asdict(self)})


def read_draw(folder: Path) -> LabelDraw | None:
    """Return the draw in a benchmark's folder, or None if there is none.

    Raises:
        UsageError: The file is not a draw.
    """
    path = TaskPaths(folder).label_draw
    if not path.is_file():
        return None
    try:
        document: Any = read_json(path)
        rows = tuple(DrawnRow(**row) for row in document["rows"])
        return LabelDraw(document["method"], seed=int(document["seed"]), rows=rows)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is not a draw of labels: {error}", hint="draw again: nel judge sample RUN"
        ) from error


@dataclass(frozen=True, slots=True)
class Calibration:
    """A stored corrected score; ``stale`` says why it no longer holds and is empty while it does."""

    score: Score
    note: str
    document: JsonDict
    stale: str = ""


def tie(prints: Mapping[str, Any]) -> MeasuredBy:
    """Return the fingerprints that a measurement of a run depends on: those of the model, the solver and the scorer."""
    return {
        "scorer": prints.get("scorer"),
        "service": prints.get("service"),
        "solver": prints.get("solver"),
        "template": prints.get("template"),
    }


def measured_by(config: JsonDict, scored: int | None) -> MeasuredBy:
    """Return what a calibration depends on: the fingerprints, and the number of scored rows."""
    return tie(as_dict(config.get("fingerprints"))) | {"scored": scored}


def read_calibration(
    document: JsonDict, bound: Mapping[str, Any], headline: str
) -> Calibration | None:
    """Read the calibration of a bundle.

    Args:
        document: The calibration as it was stored.
        bound: What it depends on, in the bundle's current state.
        headline: The name of the score that it corrects.

    Returns:
        The calibration, or None if there is none.
    """
    corrected = as_dict(document.get("corrected"))
    score = read_score(_PREFIX + headline, corrected, samples=0)
    recorded = as_dict(document.get("measured_by"))
    if score is None:
        return None
    if not score.ci_method:
        score = replace(score, ci_method="ppi")
    note = str(document.get("note") or "")
    return Calibration(score, note, document, stale=_why_stale(recorded, bound))


def _why_stale(recorded: Mapping[str, Any], bound: Mapping[str, Any]) -> str:
    """Explain why a calibration no longer holds; empty if it does.

    Args:
        recorded: What it depended on when it was measured.
        bound: What it depends on now.
    """
    # A dict, because several fingerprints have the same explanation.
    explanations: dict[str, None] = {}
    for name, value in bound.items():
        if recorded.get(name) != value:
            explanations[_EXPLANATIONS.get(name, "the answers changed")] = None
    return "; ".join(explanations)
