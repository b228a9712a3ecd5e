"""What comes of a run's labels: the draw they answer to (``label_draw.json``), and the calibration in the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import asdict, dataclass, replace
from nemo_evaluator.runs.scores import Score, read_score
from nemo_evaluator.store.layout import TaskPaths

# Where a bundle has its calibration, among what it says of its benchmark.
PLACE: Final = "calibration"
_PREFIX: Final = "corrected "


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """A row to be labelled: the chance it was drawn with, and a digest of the answer that is meant."""

    problem_idx: int
    repeat: int
    chance: float
    answer: str

    @property
    def key(self) -> tuple[int, int]:
        """What names the row."""
        return self.problem_idx, self.repeat


@dataclass(frozen=True, slots=True)
class LabelDraw:
    """Which rows of a run were drawn to be labelled, in the order in which people see them."""

    method: str
    seed: int
    rows: tuple[DrawnRow, ...]

    def save(self, folder: Path) -> None:
        """Write it beside the rows."""
        write_json(TaskPaths(folder).label_draw, {"version": 1, **asdict(self)})


def read_draw(folder: Path) -> LabelDraw | None:
    """The draw of a benchmark's folder; None without one. Raises UsageError when the file is not one."""
    path = TaskPaths(folder).label_draw
    if not path.is_file():
        return None
    try:
        data: Any = read_json(path)
        return LabelDraw(
            data["method"], int(data["seed"]), tuple(DrawnRow(**row) for row in data["rows"])
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is not a draw of labels: {error}", hint="draw again: nel judge sample RUN"
        ) from error


@dataclass(frozen=True, slots=True)
class Calibration:
    """The corrected score as it was stored; ``stale`` says why it no longer holds, empty when it does."""

    score: Score
    note: str
    document: JsonDict
    stale: str = ""


def tie(prints: JsonDict) -> JsonDict:
    """What a measurement of a run is tied to: who answers and who judges, by what and how."""
    return {name: prints.get(name) for name in ("scorer", "service", "solver", "template")}


def measured_by(config: JsonDict, scored: int | None) -> JsonDict:
    """What a calibration is tied to: the same, and how many answers there are."""
    return tie(as_dict(config.get("fingerprints"))) | {"scored": scored}


def read_calibration(document: JsonDict, bound: JsonDict, headline: str) -> Calibration | None:
    """The calibration of a bundle; None where there is none."""
    found = as_dict(document.get("corrected"))
    score = read_score(_PREFIX + headline, found, samples=0)
    was = as_dict(document.get("measured_by"))
    if score is None:
        return None
    changed = [name for name in bound if was.get(name) != bound[name]]
    words = {
        "scorer": "the judge, its prompt, its rubric or the extraction changed",
        "scored": "rows were added",
    }
    stale = "; ".join(dict.fromkeys(words.get(name, "the answers changed") for name in changed))
    score = replace(score, ci_method=score.ci_method or "ppi")
    return Calibration(score, str(document.get("note") or ""), document, stale=stale)
