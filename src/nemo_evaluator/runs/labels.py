"""What people say of rows: ``labels.jsonl`` in a benchmark's folder, append-only; of several on a row the last counts.
People bring labels along, too: a ``.csv`` or ``.jsonl`` with a right or wrong, or a grade, per row.

::

    {"problem_idx": 3, "repeat": 0, "label": "wrong", "note": "off by 1", "who": "ada", "when": "2026-11-17T02:40:00Z"}
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, iter_jsonl, scrub_json
from nemo_evaluator.core.json_coerce import as_number, as_whole
from nemo_evaluator.store.layout import TaskPaths

Verdict = Literal["right", "wrong", "unsure", ""]
VERDICTS: Final[tuple[str, ...]] = get_args(Verdict)
_FORM: Final = ".csv or .jsonl with problem_idx, repeat, and label (right, wrong, unsure) or grade"
_RIGHT: Final = ("right", "correct", "true", "pass", "yes", "1", "1.0")
_WRONG: Final = ("wrong", "incorrect", "false", "fail", "no", "0", "0.0")


@dataclass(frozen=True, slots=True)
class Label:
    """A person's word on one row; an empty ``label`` takes an earlier one back."""

    problem_idx: int
    repeat: int
    label: Verdict
    note: str = ""
    who: str = ""
    when: str = ""
    # A grade as a reward from 0 to 1, where people grade rather than tell right from wrong.
    reward: float | None = None

    @property
    def value(self) -> float | None:
        """What the answer is worth by this label; None when the person was not sure."""
        if self.reward is not None:
            return self.reward
        return {"right": 1.0, "wrong": 0.0}.get(self.label)

    @property
    def key(self) -> tuple[int, int]:
        """The row it is about."""
        return self.problem_idx, self.repeat


def all_labels(folder: Path) -> Iterator[Label]:
    """Every label of a benchmark's folder in the order of writing; lines that are none are passed over."""
    path = TaskPaths(folder).labels
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                label = _read(orjson.loads(line))
            except orjson.JSONDecodeError:
                # A last line that was cut off: the next one starts on a line of its own.
                continue
            if label is not None:
                yield label


def read_labels(folder: Path) -> dict[tuple[int, int], Label]:
    """The label of each labelled row of a benchmark's folder, by problem and repeat."""
    last = {label.key: label for label in all_labels(folder)}
    return {key: label for key, label in last.items() if label.label}


def append_label(folder: Path, label: Label) -> Label:
    """Add a label, with the time where it has none; on disk when this returns. Raises UsageError where it cannot be."""
    if label.label not in VERDICTS or label.problem_idx < 0 or label.repeat < 0:
        raise UsageError(
            f"{label.label!r} is not a label", hint=f"known: {', '.join(VERDICTS[:-1])}"
        )
    stamped = replace(label, when=label.when or f"{datetime.now(UTC):%FT%TZ}")
    path = TaskPaths(folder).labels
    try:
        with path.open("ab+") as file:
            line = scrub_json(dumps(asdict(stamped))) + b"\n"
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) == b"\n":
                    line = line
                else:
                    line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="may you write in that folder?"
        ) from error
    return stamped


def _read(data: Any) -> Label | None:
    if not isinstance(data, dict):
        return None
    texts = [data.get(name, "") for name in ("label", "note", "who", "when")]
    numbers = [data.get("problem_idx"), data.get("repeat", 0)]
    reward = data.get("reward")
    fits = all(type(number) is int for number in numbers) and all(
        isinstance(text, str) for text in texts
    )
    fits = fits and (reward is None or (type(reward) in (int, float) and 0 <= reward <= 1))
    if fits and texts[0] in VERDICTS:
        return replace(Label(*numbers, *texts), reward=reward)
    return None


def read_label_file(file: Path, scale: tuple[float, float]) -> dict[tuple[int, int], Label]:
    """The labels of a .csv or .jsonl; ``scale`` has the grades of a reward of 0 and 1. Raises UsageError."""
    try:
        if file.suffix.lower() == ".csv":
            with file.open(newline="", encoding="utf-8-sig") as text:
                lines: list[Any] = list(csv.DictReader(text))
        else:
            lines = list(iter_jsonl(file))
    except (csv.Error, UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise UsageError(f"{file} is not a file of labels: {error}", hint=_FORM) from error
    found = [_label(line, scale, f"{file}, entry {at}") for at, line in enumerate(lines, 1)]
    return {label.key: label for label in found}


def _label(line: Any, scale: tuple[float, float], where: str) -> Label:
    if isinstance(line, dict):
        data: dict[str, Any] = {str(key).strip().lower(): value for key, value in line.items()}
    else:
        data = {}
    problem = as_whole(_number_of(data.get("problem_idx")))
    word = str(data.get("label", "")).strip().lower()
    grade = _number_of(data.get("grade"))
    reward = _number_of(data.get("reward"))
    if grade is not None:
        reward = (grade - scale[0]) / (scale[1] - scale[0])
    if word in _RIGHT:
        verdict: Verdict | None = "right"
    elif word in _WRONG:
        verdict = "wrong"
    else:
        verdict = None
    if verdict is None and reward is not None:
        verdict = "right" if reward >= 0.5 else "wrong"
    if problem is None or (verdict is None and word != "unsure") or not 0 <= (reward or 0.0) <= 1:
        raise UsageError(f"{where} is not a label", hint=_FORM)
    note, who, when = (str(data.get(name) or "") for name in ("note", "who", "when"))
    return Label(
        problem,
        as_whole(_number_of(data.get("repeat"))) or 0,
        verdict or "unsure",
        note=note,
        who=who,
        when=when,
        reward=reward,
    )


def _number_of(value: object) -> float | None:
    try:
        if isinstance(value, str):
            found: float | None = float(value)
        else:
            found = as_number(value)
    except ValueError:
        return None
    if found is None or not math.isfinite(found):
        return None
    return found
