"""Parses YAML to a Document: values with line numbers, and all problems at once. Input is bounded and runs no code."""

import codecs
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from nemo_evaluator.config import _document
from nemo_evaluator.config._document import WHOLE_FILE, Document, SourcePosition
from nemo_evaluator.core.errors import ConfigError, Problem

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON")
_FALSE = ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF")
_WORDS: Final = dict.fromkeys(NULLS) | dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+)"
)
# YAML 1.1 reads 010 as 8.
_OLD_OCTAL = re.compile(r"0[0-7]+")
# Python parses longer hexadecimal numbers, but refuses to print them.
_MOST_DIGITS: Final = 3_500
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    special_number = _INFINITE.fullmatch(text)
    if special_number:
        if special_number.group(2) is None:
            return float("nan")
        return float(f"{special_number.group(1)}inf")
    return text


def _integer(text: str) -> int | str:
    """Parse an integer of any base; return the text if it is too long or invalid."""
    number_text = text.replace("_", "")
    digits = number_text.lstrip("+-")
    if len(digits) > _MOST_DIGITS:
        return text
    # Base 0: Python reads the base from the prefix 0b, 0o or 0x.
    base = 8 if _OLD_OCTAL.fullmatch(digits) else 0
    try:
        return int(number_text, base)
    except ValueError:
        return text


MAX_DEPTH: Final = 64
MAX_NODES: Final = 200_000
MAX_BYTES: Final = 10_000_000
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_TAGS = {"null", "bool", "int", "float", "str", "map", "seq"}
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_document(path: Path) -> Document:
    """Read a YAML or JSON file.

    Raises:
        ConfigError: With every problem found.
    """
    return parse_document(_read_text(path), str(path))


def parse_document(text: str, source: str) -> Document:
    """Parse a YAML or JSON text.

    Args:
        text: The text.
        source: Its file name, for messages.

    Raises:
        ConfigError: With every problem found.
    """
    builder = _Builder(source)
    try:
        document = builder.build(yaml.parse(text, Loader=_PARSER))
    except yaml.YAMLError as error:
        raise ConfigError(
            [*builder.problems, _syntax_problem(error, source, text)], source=source
        ) from None
    if builder.problems:
        raise ConfigError(builder.problems, source=source)
    return document


def _read_text(path: Path) -> str:
    """Read a file of limited size.

    Raises:
        ConfigError: If it is missing, unreadable, a folder or too large.
    """
    source = str(path)
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise _whole(source, "is a folder, not a file", "name the YAML file inside it")
        if size > MAX_BYTES:
            raise _whole(
                source, f"is too large for a config ({size} bytes)", "is this the file you meant?"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise _whole(source, "file not found", _similar_file(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _whole(
            source, f"cannot be read: {reason}", "check the path and its permissions"
        ) from None
    return _decode(data, source)


def _decode(data: bytes, source: str) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark; raise ConfigError for anything else."""
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(
            WHOLE_FILE, "is not text in UTF-8", "save the file as UTF-8", line=line, source=source
        )
        raise ConfigError([problem], source=source) from None
    if "\x00" in text:
        raise _whole(
            source, "holds zero bytes: it is not a text file", "save the file as UTF-8 text"
        )
    return text


def _similar_file(path: Path) -> str:
    for ending in (".yaml", ".yml", ".json"):
        if path.with_name(path.name + ending).is_file():
            return f"did you mean {path.name + ending!r}?"
    return "check the path; it is taken relative to the current folder"


def _whole(source: str, message: str, hint: str) -> ConfigError:
    return ConfigError(
        [Problem(WHOLE_FILE, message, hint, line=None, source=source)], source=source
    )


def _syntax_problem(error: yaml.YAMLError, source: str, text: str) -> Problem:
    """Convert a YAML error to a problem, with a hint for the most common mistakes."""
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
    line: int | None = None
    source_line = ""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        line = mark.line + 1
        lines = text.splitlines()
        if mark.line < len(lines):
            source_line = lines[mark.line]
    hint = _syntax_hint(source_line, str(reason))
    return Problem(WHOLE_FILE, f"is not valid YAML: {reason}", hint, line=line, source=source)


def _syntax_hint(source_line: str, reason: str) -> str:
    """Return how to fix the line where the parser stopped."""
    if "\t" in source_line:
        return "indent with spaces; YAML does not allow tabs"
    if "${" in source_line and "{" in source_line.replace("${", ""):
        return "inside { } put quotes around ${...}"
    if source_line and "mapping values" in reason:
        return "put quotes around a value that holds a colon"
    return "check indentation, colons and quotes around this line"


_Trail: TypeAlias = list[tuple[_document.Path, SourcePosition]]


class _Builder:
    """Builds values from parser events. Depth and size are limited, so that a hostile file cannot exhaust memory."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        # Positions in the order of the file; if a path occurs twice (a key and its value), the first counts.
        self._trail: _Trail = [((), SourcePosition(source, 1))]
        self._anchors: dict[str, tuple[Any, _Trail]] = {}
        self._nodes = 0

    def build(self, events: Iterator[Any]) -> Document:
        """Build the document from the parser's events."""
        value = None
        document_count = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                document_count += 1
                if document_count > 1:
                    self._report(
                        (),
                        event,
                        "holds more than one YAML document",
                        hint="keep one; remove the --- line",
                    )
                    break
            elif isinstance(event, yaml.NodeEvent):
                value = self._node(event, events, ())
        return Document(value, dict(reversed(self._trail)))

    def _node(self, event: Any, events: Iterator[Any], path: _document.Path) -> Any:
        """Build the value that begins with an event, and record its anchor."""
        self._nodes += 1
        if self._nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem="nested too deeply or too large", problem_mark=event.start_mark
            )
        self._mark(path, event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        trail_start = len(self._trail)
        value = self._value(event, events, path)
        if event.anchor:
            inner_marks: _Trail = []
            for full_path, mark in self._trail[trail_start:]:
                inner_marks.append((full_path[len(path) :], mark))
            self._anchors[event.anchor] = (value, inner_marks)
        return value

    def _value(self, event: Any, events: Iterator[Any], path: _document.Path) -> Any:
        """Build a scalar, list or mapping, reporting tags that are not allowed."""
        tag = event.tag or ""
        self._check_tag(tag, event, path)
        if isinstance(event, yaml.ScalarEvent):
            is_quoted = not event.implicit[0]
            if tag.endswith(":str") or (is_quoted and not tag):
                return event.value
            return plain_scalar(event.value)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(events, path)
        return self._mapping(events, path)

    def _check_tag(self, tag: str, event: Any, path: _document.Path) -> None:
        if tag in ("", "!") or tag.removeprefix(_TAG_PREFIX) in _TAGS:
            return
        short_tag = tag.replace(_TAG_PREFIX, "!!")
        self._report(
            path,
            event,
            f"YAML tag {short_tag} is not allowed",
            hint="remove the tag; plain values only",
        )

    def _list(self, events: Iterator[Any], path: _document.Path) -> list[Any]:
        """Build the list whose first item is the next event."""
        items: list[Any] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._node(event, events, (*path, len(items))))
        return items

    def _mapping(self, events: Iterator[Any], path: _document.Path) -> dict[str, Any]:
        """Build the mapping whose first key is the next event, and apply its merge keys.

        Keys that are not scalars or occur twice are reported.
        """
        own_values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key in events:
            if isinstance(key, yaml.MappingEndEvent):
                break
            if not isinstance(key, yaml.ScalarEvent):
                self._report(path, key, "a key must be a plain word", hint="quote the key")
                self._node(key, events, path)
                self._node(next(events), events, path)
                continue
            name = key.value
            value_path = (*path, name)
            if name in own_values:
                message = f"the key {name!r} occurs twice"
                self._report(value_path, key, message, hint="keep one of the two")
            self._mark(value_path, key)
            value = self._node(next(events), events, value_path)
            is_merge_key = name == "<<" and key.implicit[0]
            if is_merge_key:
                merged = {**self._merge_key(value, key, path), **merged}
            else:
                own_values[name] = value
        return {**merged, **own_values}

    def _merge_key(self, value: Any, event: Any, path: _document.Path) -> dict[str, Any]:
        """Return the merged mappings of a ``<<`` key; the first of a list takes precedence."""
        mappings = value if isinstance(value, list) else [value]
        merged: dict[str, Any] = {}
        for mapping in reversed(mappings):
            if isinstance(mapping, dict):
                merged.update(mapping)
            else:
                self._report(path, event, "<< must name a mapping", hint="write <<: *anchor")
        return merged

    def _alias(self, event: Any, path: _document.Path) -> Any:
        """Return a copy of the value of an anchor, and record the positions of its parts."""
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            self._report(
                path,
                event,
                f"nothing is called *{event.anchor}",
                hint=f"put &{event.anchor} before the value",
            )
            return None
        value, inner_marks = anchored
        self._nodes += len(inner_marks)
        self._trail += [(path + inner_path, mark) for inner_path, mark in inner_marks]
        return copy.deepcopy(value)

    def _mark(self, path: _document.Path, event: Any) -> None:
        self._trail.append((path, SourcePosition(self.source, event.start_mark.line + 1)))

    def _report(self, path: _document.Path, event: Any, message: str, hint: str) -> None:
        line = event.start_mark.line + 1
        self.problems.append(
            Problem(_document.show_path(path), message, hint, line=line, source=self.source)
        )
