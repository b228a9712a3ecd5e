"""The table of fields (``data/fields.yaml``): each field is translated, warned about or refused."""

import copy
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import yaml

from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict

Outcome = Literal["translated", "warned", "refused"]
_DATA: Final = Path(__file__).parent / "data"
_BARE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


# Conversions of a single value; rows of the table name them (``via``).
def _sbatch_flags(flags: JsonDict) -> dict[str, str]:
    """Flags of sbatch: true means a flag without a value, false and null mean no flag."""
    texts: dict[str, str] = {}
    for name, flag in flags.items():
        if flag is True:
            texts[name] = "true"
        elif flag not in (None, False):
            texts[name] = str(flag)
    return texts


def _mounts(inside_of_host: dict[str, str]) -> list[str]:
    """Mounts as ``HOST:INSIDE``."""
    return [f"{host}:{inside}" for host, inside in inside_of_host.items()]


# Conversions of a single value; rows of the table name them (``via``).
_FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "sbatch_flags": _sbatch_flags,
    "mounts": _mounts,
    "words": shlex.split,
}


@dataclass(frozen=True, slots=True)
class Translation:
    """The outcome of one field: where its value went, or why it has no effect."""

    field: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A row of the table of fields; ``data/fields.yaml`` explains the columns."""

    to: str | None = None
    via: str | None = None
    by: str | None = None
    note: str | None = None
    warn: str | None = None
    refuse: str | None = None
    fine: Any = ()
    form: Any = None
    value: Any = None
    among: Any = ()
    stage: str | None = None
    setting: str | None = None
    switch: str | None = None

    @property
    def complains(self) -> bool:
        """Whether the row has a warning or a refusal."""
        return bool(self.warn or self.refuse)

    def worth(self, given: Any) -> Any:
        """Convert a field's value to its form in nel's config; None when the field is not written."""
        if self.value is not None:
            return self.value if given else None
        if given is None:
            return None
        if isinstance(self.form, list):
            parts: list[str] = []
            for part in self.form:
                parts.append(part % given if "%" in part else part)
            return parts
        if self.form is not None:
            return self.form % given
        if self.via:
            return _FORMS[self.via](given)
        return given


@cache
def read_data(name: str) -> Mapping[str, Any]:
    """Parse a YAML file of this package's data folder."""
    data: JsonDict = yaml.safe_load((_DATA / name).read_text(encoding="utf-8"))
    return data


def table() -> Mapping[str, Any]:
    """Return the table of fields."""
    return read_data("fields.yaml")


@cache
def rules(section: str) -> Mapping[str, FieldRule]:
    """Return the rows of one section of the table, by field."""
    return {name: FieldRule(**row) for name, row in table()[section].items()}


class Translated:
    """A config of nel, complete or under construction, and the outcome of every field of the launcher's config."""

    def __init__(self) -> None:
        self.config: JsonDict = {}
        self.report: list[Translation] = []

    def say(self, field: str, outcome: Outcome, detail: str) -> None:
        """Add the outcome of a field to the report, unless the report already has it."""
        translation = Translation(field, outcome, detail)
        if translation not in self.report:
            self.report.append(translation)

    def of(self, outcome: str) -> list[Translation]:
        """Return the fields that had one outcome."""
        return [translation for translation in self.report if translation.outcome == outcome]

    @property
    def origins(self) -> dict[str, str]:
        """The launcher's fields by the path in nel's config; the first field if several share a path."""
        field_of_path: dict[str, str] = {}
        for translation in self.of("translated"):
            field_of_path.setdefault(translation.detail, translation.field)
        return field_of_path

    def blamed(self, error: ConfigError, source: str) -> ConfigError:
        """Rewrite an error about nel's config to name the launcher's fields, which the user wrote.

        Args:
            error: The error about nel's config.
            source: The launcher's file.
        """
        problems: list[Problem] = []
        for problem in error.problems:
            field = self._field(problem.path)
            problems.append(replace(problem, path=field, line=None, source=None))
        return ConfigError(problems, source=source)

    def _field(self, path: str) -> str:
        """Return the launcher's field behind a path of nel's config; if there is none, the path itself."""
        # Services for tasks with other request settings are copies of the first.
        parts = re.split(r"(?=[.\[])", re.sub(r"^services\.model_\d+", "services.model", path))
        field_of_path = self.origins
        for size in range(len(parts), 0, -1):
            field = field_of_path.get("".join(parts[:size]))
            if field is not None:
                return f"{field} ({path})"
        if path.startswith("benchmarks["):
            index = int(parts[1][1:-1])
            number = self.config["benchmarks"][index]["id"].rpartition(".")[2]
            return f"evaluation.tasks[{number}] ({path})"
        return path

    def check(self, source: str | None = None) -> None:
        """Raise ConfigError if any field was refused."""
        problems = [Problem(refusal.field, refusal.detail) for refusal in self.of("refused")]
        if problems:
            raise ConfigError(problems, source=source)


def put_in(tree: JsonDict, path: str, value: Any) -> None:
    """Write a copy of a value under a dotted path; a list or mapping is merged with an existing one.

    The copy keeps the table unchanged when the config changes later.

    Args:
        tree: The mapping to change.
        path: The dotted path in it.
        value: The value.
    """
    *parent_keys, last_key = path.split(".")
    for key in parent_keys:
        tree = tree.setdefault(key, {})
    current = tree.get(last_key)
    if isinstance(current, list) and isinstance(value, list):
        value = [*current, *value]
    elif isinstance(current, dict) and isinstance(value, dict):
        value = {**current, **value}
    tree[last_key] = copy.deepcopy(value)


def _names_under(prefix: str, rows: Mapping[str, FieldRule]) -> list[str]:
    """Return the names of the fields that the table knows under a path, each once."""
    names: list[str] = []
    for field in rows:
        if field.startswith(prefix):
            name = field.removeprefix(prefix).partition(".")[0]
            names.append(name)
    return list(dict.fromkeys(names))


class TableSection:
    """A part of the launcher's config, translated by one section of the table.

    A row with ``by: NAME`` is handled by the method ``_NAME``.

    Args:
        draft: The config of nel under construction, with the report.
    """

    section: ClassVar[str]
    #: Beginnings of the fields that the launcher checks; by default all of them.
    strict: ClassVar[tuple[str, ...]] = ("",)

    def __init__(self, draft: Translated) -> None:
        self.draft = draft

    def place(self, field: str) -> str:
        """Return the field as the user knows it."""
        return field

    def say(self, field: str, outcome: Outcome, detail: str) -> None:
        """Report the outcome of a field."""
        self.draft.say(self.place(field), outcome, detail)

    def put(self, field: str, path: str, value: Any) -> None:
        """Write a value into the draft, and report the field as translated.

        Args:
            field: The launcher's field.
            path: The dotted path in nel's config.
            value: The value.
        """
        put_in(self.draft.config, path, value)
        self.say(field, "translated", path)

    def default(self, field: str) -> Any:
        """Return the value that a packaged group has for a field."""
        return None

    def translate(self, fields: JsonDict, prefix: str = "") -> None:
        """Apply the row of every field; a field without a row is refused.

        Args:
            fields: The fields of a section of the launcher's config.
            prefix: Their common path, with a dot at its end.
        """
        rows = rules(self.section)
        for key, value in fields.items():
            field = f"{prefix}{key}"
            rule = rows.get(field) or rows.get(f"{prefix}*")
            if rule is not None:
                self.apply(field, rule, value)
            elif isinstance(value, dict) and any(name.startswith(f"{field}.") for name in rows):
                self.translate(value, f"{field}.")
            else:
                self._unknown(field, did_you_mean(str(key), _names_under(prefix, rows)))

    def refuses_unknown(self, field: str) -> bool:
        """Return whether the launcher itself stops at an unknown field; it ignores all others."""
        return field.startswith(self.strict)

    def _unknown(self, field: str, hint: str) -> None:
        """Report a field that the launcher does not have: as an error if the launcher stops at it, or as a warning."""
        if self.refuses_unknown(field):
            self.say(field, "refused", f"is not a field of the launcher; {hint}")
        else:
            self.say(field, "warned", f"is not a field of the launcher, and has no effect; {hint}")

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """Apply the row of a field: the first of its columns that fits decides the outcome."""
        if rule.among and value not in (*rule.among, None):
            hint = did_you_mean(str(value), rule.among)
            self.say(field, "refused", f"{value!r} is not supported; {hint}")
            return
        if rule.by is not None:
            getattr(self, f"_{rule.by}")(field, value)
            return
        translated_value = rule.worth(value)
        is_empty = translated_value is None or translated_value in ("", {}, [])
        has_no_effect = is_empty or (self._is_harmless(field, rule, value) and rule.complains)
        if has_no_effect:
            self.say(field, "translated", "needs nothing")
        elif rule.to is not None:
            path = rule.to.replace("*", field.rpartition(".")[2])
            self.put(field, path, translated_value)
        elif rule.note is not None:
            self.say(field, "translated", rule.note)
        elif rule.warn:
            self.say(field, "warned", str(rule.warn))
        else:
            self.say(field, "refused", str(rule.refuse))

    def _is_harmless(self, field: str, rule: FieldRule, value: Any) -> bool:
        """Return whether a value needs no warning: the row lists it, or it is the default."""
        if rule.fine == "any" or value in (rule.fine or ()):
            return True
        return bool(value == self.default(field))


def shell(value: str) -> str:
    """Escape shell text, so that nel does not expand its variables."""
    return value.replace("${", "$${")


def variable(name: str, text: Any) -> tuple[str | None, str]:
    """Translate a value of ``env_vars``.

    Returns:
        The value in nel's config, None when nel does not set the variable, and a remark.

    Raises:
        ValueError: For any other form of the value.
    """
    kind, colon, content = str(text).partition(":")
    if colon and kind in ("host", "lit"):
        return (f"${{{content}}}" if kind == "host" else shell(content)), ""
    if colon and kind == "runtime" and content == name:
        return None, "inherited from the runtime environment"
    if colon and kind == "runtime":
        raise ValueError(
            f"nel cannot rename a variable of the runtime environment; call it {content}, or write host:{content}"
        )
    if _BARE.fullmatch(str(text)):
        return f"${{{text}}}", f"a bare name is the old spelling of host:{text}"
    raise ValueError(
        f"write host:NAME for a variable of this machine, or lit:VALUE for the value of {name} itself"
    )
