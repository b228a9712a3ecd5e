"""People's labels of rows: ``labels.jsonl`` in a benchmark's folder, append-only; the last label of a row counts.

Labels can also come from a ``.csv`` or ``.jsonl`` file with a verdict or a grade per row.

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
from nemo_evaluator.core.files import dumps, iter_jsonl, lines_from, scrub_json
from nemo_evaluator.core.json_coerce import as_number, as_whole
from nemo_evaluator.store.layout import TaskPaths

Verdict = Literal["right", "wrong", "unsure", ""]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
_VERDICTS_BY_TEXT: Final[dict[str, Verdict]] = {verdict: verdict for verdict in VERDICTS}
_FORM: Final = ".csv or .jsonl with problem_idx, repeat, and label (right, wrong, unsure) or grade"
_RIGHT: Final = ("right", "correct", "true", "pass", "yes", "1", "1.0")
_WRONG: Final = ("wrong", "incorrect", "false", "fail", "no", "0", "0.0")


@dataclass(frozen=True, slots=True)
class Label:
    """A person's verdict on one row; an empty ``label`` withdraws an earlier one."""

    problem_idx: int
    repeat: int
    label: Verdict
    note: str = ""
    who: str = ""
    when: str = ""
    # A grade as a reward from 0 to 1, if people gave grades instead of verdicts.
    reward: float | None = None

    @property
    def value(self) -> float | None:
        """The reward that this label gives the answer; None if the person was not sure."""
        if self.reward is not None:
            return self.reward
        return {"right": 1.0, "wrong": 0.0}.get(self.label)

    @property
    def key(self) -> tuple[int, int]:
        """The problem and repeat of the row."""
        return self.problem_idx, self.repeat

    @property
    def words(self) -> str:
        """The verdict or the grade, and who gave it."""
        verdict = self.label if self.reward is None else f"{self.label} ({self.reward:g})"
        return f"{verdict} by {self.who}" if self.who else verdict

    def agrees_with(self, other: Label) -> bool:
        """Whether another label of the row gives it the same verdict and grade."""
        return (self.label, self.reward) == (other.label, other.reward)


def all_labels(folder: Path) -> Iterator[Label]:
    """Yield every label in a benchmark's folder, in the order of writing; invalid lines are skipped."""
    path = TaskPaths(folder).labels
    if not path.is_file():
        return
    for _, line in lines_from(path):
        try:
            label = _read(orjson.loads(line))
        except orjson.JSONDecodeError:
            # The line was cut off; the next label starts on a new line.
            continue
        if label is not None:
            yield label


def read_labels(folder: Path) -> dict[tuple[int, int], Label]:
    """Return the current label of each labelled row in a benchmark's folder, by problem and repeat."""
    last_labels = {label.key: label for label in all_labels(folder)}
    return {key: label for key, label in last_labels.items() if label.label}


def disputed_rows(folder: Path) -> list[tuple[int, int]]:
    """Return the rows that several people labelled differently; of each person, the last label counts."""
    labels_of_row: dict[tuple[int, int], dict[str, Label]] = {}
    for label in all_labels(folder):
        by_person = labels_of_row.setdefault(label.key, {})
        by_person[label.who] = label
    disputed: list[tuple[int, int]] = []
    for key, by_person in labels_of_row.items():
        given = [label for label in by_person.values() if label.label]
        if any(not label.agrees_with(given[0]) for label in given):
            disputed.append(key)
    return disputed


def append_label(folder: Path, label: Label) -> Label:
    """Add a label and sync the file; a label without a time gets the current one.

    Returns:
        The label as it was written.

    Raises:
        UsageError: The label is invalid, or the file cannot be written.
    """
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
                if file.read(1) != b"\n":
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
    """Return the label in a line of ``labels.jsonl``, or None if it is invalid."""
    if not isinstance(data, dict):
        return None
    problem = data.get("problem_idx")
    repeat = data.get("repeat", 0)
    if type(problem) is not int or type(repeat) is not int:
        return None
    texts: dict[str, str] = {}
    for name in ("label", "note", "who", "when"):
        text = data.get(name, "")
        if not isinstance(text, str):
            return None
        texts[name] = text
    verdict = _VERDICTS_BY_TEXT.get(texts["label"])
    reward = data.get("reward")
    if verdict is None or not _is_reward(reward):
        return None
    return Label(
        problem_idx=problem,
        repeat=repeat,
        label=verdict,
        note=texts["note"],
        who=texts["who"],
        when=texts["when"],
        reward=reward,
    )


def _is_reward(value: Any) -> bool:
    """Return whether a value is a reward from 0 to 1, or None."""
    if value is None:
        return True
    return type(value) in (int, float) and 0 <= value <= 1


def read_label_file(file: Path, scale: tuple[float, float]) -> dict[tuple[int, int], Label]:
    """Read labels from a .csv or .jsonl file.

    Args:
        file: The file.
        scale: The grades that mean a reward of 0 and of 1.

    Returns:
        The label of each row, by problem and repeat.

    Raises:
        UsageError: The file or one of its entries is invalid, or two entries contradict each other.
    """
    try:
        if file.suffix.lower() == ".csv":
            with file.open(newline="", encoding="utf-8-sig") as csv_file:
                entries: list[Any] = list(csv.DictReader(csv_file))
        else:
            entries = list(iter_jsonl(file))
    except (csv.Error, UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise UsageError(f"{file} is not a file of labels: {error}", hint=_FORM) from error
    labels: dict[tuple[int, int], Label] = {}
    for number, entry in enumerate(entries, 1):
        label = _label(entry, scale, f"{file}, entry {number}")
        earlier_label = labels.get(label.key)
        if earlier_label is not None and not label.agrees_with(earlier_label):
            raise UsageError(
                f"{file} labels problem {label.problem_idx}, repeat {label.repeat} as {earlier_label.words} and as "
                f"{label.words}",
                hint="decide which of them is right, or make the row unsure, and keep one entry per row",
            )
        labels[label.key] = label
    return labels


def _label(line: Any, scale: tuple[float, float], where: str) -> Label:
    """Return the label in an entry of a label file.

    Raises:
        UsageError: The entry is invalid.
    """
    data: dict[str, Any] = {}
    if isinstance(line, dict):
        for key, value in line.items():
            data[str(key).strip().lower()] = value
    problem = as_whole(_number_of(data.get("problem_idx")))
    reward = _number_of(data.get("reward"))
    grade = _number_of(data.get("grade"))
    if grade is not None:
        lowest_grade, highest_grade = scale
        reward = (grade - lowest_grade) / (highest_grade - lowest_grade)
    verdict = _verdict(str(data.get("label", "")), reward)
    if problem is None or verdict is None or not 0 <= (reward or 0.0) <= 1:
        raise UsageError(f"{where} is not a label", hint=_FORM)
    return Label(
        problem_idx=problem,
        repeat=as_whole(_number_of(data.get("repeat"))) or 0,
        label=verdict,
        note=str(data.get("note") or ""),
        who=str(data.get("who") or ""),
        when=str(data.get("when") or ""),
        reward=reward,
    )


def _verdict(text: str, reward: float | None) -> Verdict | None:
    """Return the verdict that a text means, else that of the reward; None if neither is known."""
    text = text.strip().lower()
    if text in _RIGHT:
        return "right"
    if text in _WRONG:
        return "wrong"
    if reward is not None:
        return "right" if reward >= 0.5 else "wrong"
    if text == "unsure":
        return "unsure"
    return None


def _number_of(value: object) -> float | None:
    """Return a finite number, or None for any other value."""
    try:
        number = float(value) if isinstance(value, str) else as_number(value)
    except ValueError:
        return None
    if number is None or not math.isfinite(number):
        return None
    return number
