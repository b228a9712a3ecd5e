"""The table of fields (``data/fields.yaml``): each field of the launcher is translated, warned of or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict

Outcome = Literal["translated", "warned", "refused"]
_FILE: Final = Path(__file__).parent / "data" / "fields.yaml"


@dataclass(frozen=True, slots=True)
class Translation:
    """What became of one field: where its value went, or why it has no effect."""

    field: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table; its file says what the keys mean."""

    to: str | None = None
    via: str | None = None
    by: str | None = None
    warn: str | None = None
    refuse: str | None = None
    fine: Any = ()
    stage: str | None = None
    setting: str | None = None
    switch: str | None = None

    def needs_nothing(self, value: Any, default: Any) -> bool:
        """Whether a field at this value asks for nothing, so that there is nothing to say of it."""
        empty = value is None or value in ("", {}, [])
        return bool(
            empty or self.fine == "any" or value in (self.fine or ()) or (default is not None and value == default)
        )


@cache
def rules(section: str) -> Mapping[str, Rule]:
    """The rows of one section, by field."""
    return {name: Rule(**row) for name, row in _file()[section].items()}


@cache
def stage_names() -> JsonDict:
    """The launcher's interceptors by name: ours, and the settings that are called otherwise."""
    found: JsonDict = _file()["interceptors"]
    return found


@cache
def _file() -> JsonDict:
    found: JsonDict = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return found


class Draft:
    """A config of ours in the making, and what was said of every field of theirs."""

    def __init__(self) -> None:
        self.out: JsonDict = {}
        self.report: list[Translation] = []

    def say(self, field: str, outcome: Outcome, detail: str) -> None:
        """Report a field; the same thing is reported once."""
        said = Translation(field, outcome, detail)
        if said not in self.report:
            self.report.append(said)

    def put(self, field: str, path: str, value: Any) -> None:
        """Write a value under a dotted path of our config, and report where it went."""
        put_in(self.out, path, value)
        self.say(field, "translated", path)


def put_in(tree: JsonDict, path: str, value: Any) -> None:
    """Write a value under a dotted path; lists and mappings that are there already are added to."""
    *above, last = path.split(".")
    for key in above:
        tree = tree.setdefault(key, {})
    there = tree.get(last)
    if isinstance(there, list) and isinstance(value, list):
        value = [*there, *value]
    elif isinstance(there, dict) and isinstance(value, dict):
        value = {**there, **value}
    tree[last] = value


Apply = Callable[[str, str, Rule, Any], None]


def walk(config: JsonDict, section: str, apply: Apply, refuse: Callable[[str, str], None], prefix: str = "") -> None:
    """Call ``apply(field, row, rule, value)`` for every field that has a row; what has none is refused."""
    table = rules(section)
    for key, value in config.items():
        field = f"{prefix}{key}"
        row = field if field in table else f"{prefix}*"
        if row in table:
            apply(field, row, table[row], value)
        elif isinstance(value, dict) and any(name.startswith(f"{field}.") for name in table):
            walk(value, section, apply, refuse, f"{field}.")
        else:
            siblings = [name[len(prefix) :].partition(".")[0] for name in table if name.startswith(prefix)]
            refuse(field, f"is not a field of the launcher; {did_you_mean(str(key), dict.fromkeys(siblings))}")
