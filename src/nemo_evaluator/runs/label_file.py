"""Labels that people bring along in a file: ``.csv`` or ``.jsonl`` with a right or wrong, or a grade, per row."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.json_coerce import as_number, as_whole
from nemo_evaluator.runs.labels import Label, Verdict

_RIGHT: Final = ("right", "correct", "true", "pass", "yes", "1", "1.0")
_FORM: Final = ".csv or .jsonl with problem_idx, repeat, and label (right, wrong, unsure) or grade"
_WRONG: Final = ("wrong", "incorrect", "false", "fail", "no", "0", "0.0")


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
    data = {str(key).strip().lower(): value for key, value in line.items()} if isinstance(line, dict) else {}
    problem = as_whole(_number(data.get("problem_idx")))
    word = str(data.get("label", "")).strip().lower()
    grade, reward = _number(data.get("grade")), _number(data.get("reward"))
    if grade is not None:
        reward = (grade - scale[0]) / (scale[1] - scale[0])
    verdict: Verdict | None = "right" if word in _RIGHT else "wrong" if word in _WRONG else None
    if verdict is None and reward is not None:
        verdict = "right" if reward >= 0.5 else "wrong"
    if problem is None or (verdict is None and word != "unsure") or not 0 <= (reward or 0.0) <= 1:
        raise UsageError(f"{where} is not a label", hint=_FORM)
    note, who, when = (str(data.get(name) or "") for name in ("note", "who", "when"))
    return Label(problem, as_whole(_number(data.get("repeat"))) or 0, verdict or "unsure", note, who, when, reward)


def _number(value: object) -> float | None:
    try:
        found = float(value) if isinstance(value, str) else as_number(value)
    except ValueError:
        return None
    return None if found is None or not math.isfinite(found) else found
