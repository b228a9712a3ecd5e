"""Converts schema errors to messages for users: the path, the line, what is wrong, and the fix."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

from nemo_evaluator.config._document import Document, show_path
from nemo_evaluator.config._error_path import error_path
from nemo_evaluator.config._schema_walk import class_at, field_at, kinds_at, value_at
from nemo_evaluator.config.cross_check import models_to_ask
from nemo_evaluator.core.errors import Problem
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import did_you_mean, nearest
from nemo_evaluator.core.secrets import looks_secret, scrub

_LONGEST_VALUE = 60
# How pydantic names the limits of a number, and how an error states them.
_LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_KIND_NAMES: dict[type, str] = {
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


class Explanation(NamedTuple):
    """What is wrong, and how to fix it."""

    message: str
    hint: str


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Return hints by error type, and the right section of keys that are often misplaced; read on the first error."""
    file = FilePath(__file__).parent / "data" / "hints.yaml"
    texts: dict[str, dict[str, str]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return texts


def explain(error: ValidationError, document: Document, root: type[BaseModel]) -> list[Problem]:
    """Explain the errors of one validation.

    Args:
        error: What pydantic raised.
        document: The document as the user wrote it, with its line numbers.
        root: The schema that refused the document.

    Returns:
        One problem per wrong place, in the order of the file. Wrong references (``cross_check``) are left out.
    """
    problems: dict[str, Problem] = {}
    for item in error.errors(include_url=False):
        if item["type"] == "references":
            continue
        explainer = _Explainer(item, document, root)
        message, hint = explainer.explanation()
        problem = document.problem(explainer.path, message, hint)
        # A value that may be of several types fails once for each; the first message is enough.
        problems.setdefault(problem.path, problem)
    # On the same line, the problem that pydantic reported last comes first.
    newest_first = list(reversed(problems.values()))
    return sorted(newest_first, key=lambda problem: (problem.line is None, problem.line or 0))


def kind_of(value: Any) -> str:
    """Name the type of a value in plain words, such as ``a list``."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the switch {str(value).lower()}"
    return _KIND_NAMES.get(type(value), f"a {type(value).__name__}")


class _Explainer:
    """Explains one error.

    Attributes:
        path: What the error is about. ``explanation`` may move it to a key inside.
        value: The value at the path, or the key if the key itself is wrong.
    """

    def __init__(self, item: Any, document: Document, root: type[BaseModel]) -> None:
        """Locate an error in the document.

        Args:
            item: The error as pydantic describes it.
            document: The document as the user wrote it.
            root: The schema that refused it.
        """
        self.error_type: str = item["type"]
        self.message: str = item["msg"]
        self.context: dict[str, Any] = item.get("ctx", {})
        self.document = document
        self.root = root
        location = item["loc"]
        self.path = error_path(self.error_type, location, root, document.value)
        # For a missing or unknown key, the location ends in it.
        self.key = str(location[-1]) if location else ""
        self.about_key = self.key == "[key]" and bool(self.path)
        self.value = self.path[-1] if self.about_key else value_at(document.value, self.path)

    def explanation(self) -> Explanation:
        """Explain the error, by its type, by the hint that it carries, or by the tables of texts."""
        if self.error_type in _EXPLAIN:
            return _EXPLAIN[self.error_type](self)
        if "hint" in self.context:
            return Explanation(scrub(self.message), self.context["hint"])
        texts = _texts()
        if self.error_type in texts["expected"]:
            expected, _, hint = texts["expected"][self.error_type].partition("; ")
            return Explanation(f"{expected} is expected, found {self._shown_value()}", hint)
        if self.error_type in texts["hints"]:
            return Explanation(self.message, texts["hints"][self.error_type])
        message = scrub(self.message)
        # An acronym at the start keeps its capitals.
        if not message[:2].isupper():
            message = message[:1].lower() + message[1:]
        return Explanation(message, self._field_description())

    def unknown_key(self) -> Explanation:
        """Suggest the right section or spelling of an unknown key."""
        message = f"unknown key {self.key!r}"
        owner = class_at(self.root, self.path[:-1], self.document.value)
        known_keys = sorted(owner.model_fields) if owner else []
        longer_names = [name for name in known_keys if self.key in name.split("_")]
        if len(longer_names) > 1:
            return Explanation(
                message, f"write {' and '.join(f'{name}:' for name in longer_names)}"
            )
        right_section = _texts()["homes"].get(self.key)
        if right_section and right_section not in self.path:
            return Explanation(message, f"it belongs under {right_section}:")
        return Explanation(
            message, did_you_mean(self.key, known_keys, f"known keys: {', '.join(known_keys)}")
        )

    def missing_key(self) -> Explanation:
        """Say what a missing key is for, and whether an unknown key may be a misspelling of it."""
        data = self.document.value
        field = field_at(self.root, self.path, data)
        purpose = ""
        if field and field.description:
            purpose = f" ({field.description.rstrip('.')})"
        message = f"the key {self.key!r} is missing{purpose}"
        owner = class_at(self.root, self.path[:-1], data)
        unknown_keys: list[str] = []
        missing_keys: list[str] = []
        if owner is not None:
            siblings = as_dict(value_at(data, self.path[:-1]))
            unknown_keys = [key for key in siblings if key not in owner.model_fields]
            for name, known_field in owner.model_fields.items():
                if known_field.is_required() and name not in siblings:
                    missing_keys.append(name)
        misspelling = nearest(self.key, unknown_keys)
        # One key cannot be a misspelling of two.
        rivals = [name for name in missing_keys if nearest(name, unknown_keys) == misspelling]
        if misspelling and len(rivals) <= 1:
            return Explanation(message, f"is {misspelling!r} a misspelling of it?")
        return Explanation(message, self._how_to_add())

    def _how_to_add(self) -> str:
        """Return a hint on how to add the missing key; for a solver or service, with the models to choose from."""
        section = show_path(self.path[:-1])
        models: list[str] = []
        if self.key in ("solver", "service"):
            models = models_to_ask(self.document.value)
        if not models:
            return f"add {self.key}: under {section}"
        addition = (
            "solver: {type: simple, service: NAME}" if self.key == "solver" else f"{self.key}:"
        )
        return f"add {addition} under {section}; models: {', '.join(models)}"

    def no_type(self) -> Explanation:
        """List the types to choose from if ``type`` is missing."""
        known_types = ", ".join(kinds_at(self.root, self.path, self.document.value))
        if isinstance(self.value, dict):
            return Explanation("the key 'type' is missing", f"add type: one of {known_types}")
        message = f"a mapping with a type is expected, found {self._shown_value()}"
        return Explanation(message, f"write type: and its keys; types: {known_types}")

    def unknown_type(self) -> Explanation:
        """Suggest the nearest known type."""
        known_types = list(kinds_at(self.root, self.path, self.document.value))
        name = str(self.context.get("tag", ""))
        self.path = (*self.path, "type")
        hint = did_you_mean(name, known_types, also=f"types: {', '.join(known_types)}")
        return Explanation(f"unknown type {_shorten(name)!r}", hint)

    def unknown_choice(self) -> Explanation:
        """Suggest the nearest valid choice."""
        expected = str(self.context.get("expected", ""))
        choices = re.findall(r"'([^']*)'", expected) or [expected]
        candidates = choices if isinstance(self.value, str) else []
        hint = did_you_mean(str(self.value), candidates, also=f"choices: {', '.join(choices)}")
        return Explanation(f"{self._shown_value()} is not one of the choices", hint)

    def not_text(self) -> Explanation:
        """Suggest quotes around a value that YAML reads as a number or a boolean."""
        message = f"text is expected, found {self._shown_value()}"
        if not isinstance(self.value, bool | int | float):
            return Explanation(message, self._field_description())
        if self._is_secret():
            return Explanation(message, "put it in quotes")
        text = str(self.value)[:40]
        if isinstance(self.value, bool):
            text = text.lower()
        return Explanation(message, f'put it in quotes: "{text}"')

    def not_mapping(self) -> Explanation:
        """Ask for a mapping, or for a ``type`` if the field accepts several."""
        if kinds_at(self.root, self.path, self.document.value):
            return self.no_type()
        message = f"a mapping is expected, found {self._shown_value()}"
        return Explanation(message, "write indented 'key: value' lines under it")

    def out_of_range(self) -> Explanation:
        """State the limit of a number."""
        limit = "smaller"
        for name, relation in _LIMITS.items():
            if name in self.context:
                limit = f"{relation} {self.context[name]}"
                break
        message = f"{self._shown_value()} is out of range"
        return Explanation(message, f"the value must be {limit}")

    def too_short(self) -> Explanation:
        """State how many entries a list needs, or that a text must not be empty."""
        if self.error_type == "string_too_short":
            return Explanation("must not be empty", self._field_description())
        minimum = self.context.get("min_length", 1)
        noun = "entry" if minimum == 1 else "entries"
        return Explanation(f"needs at least {minimum} {noun}", self._field_description())

    def unknown_sandbox(self) -> Explanation:
        """Suggest a defined sandbox, or the block for a sandbox of that type."""
        data = self.document.value
        name = str(self.value)
        if name in kinds_at(self.root, self.path, data):
            hint = f"for a sandbox of that type, write sandbox: {{type: {name}}}"
            return Explanation(self.message, hint)
        known_names = [str(sandbox) for sandbox in as_dict(as_dict(data).get("sandboxes"))]
        fallback_hint = None if known_names else "known: none; add one under sandboxes:"
        return Explanation(self.message, did_you_mean(name, known_names, fallback_hint))

    def not_finite(self) -> Explanation:
        """Ask for a finite number."""
        return Explanation("a finite number is expected", "write a plain number")

    def _is_secret(self) -> bool:
        return any(isinstance(key, str) and looks_secret(key) for key in self.path)

    def _shown_value(self) -> str:
        """Return the value as written in the file: with variables unexpanded, and never a secret."""
        value = self.value
        if self._is_secret() and not self.about_key:
            return kind_of(value)
        if value == "":
            return "empty text"
        if value is None or isinstance(value, dict | list):
            return kind_of(value)
        shortened = _shorten(scrub(str(value)))
        return repr(shortened) if isinstance(value, str) else shortened.lower()

    def _field_description(self) -> str:
        """Return the description of the field at the path, for errors without a better hint."""
        path = self.path
        while path and isinstance(path[-1], int):
            path = path[:-1]
        field = field_at(self.root, path, self.document.value)
        if field is not None and field.description:
            return f"{path[-1]}: {field.description}"
        return "see `nel config schema` or docs/configuration.md"


_EXPLAIN: dict[str, Callable[[_Explainer], Explanation]] = {
    "extra_forbidden": _Explainer.unknown_key,
    "missing": _Explainer.missing_key,
    "union_tag_not_found": _Explainer.no_type,
    "union_tag_invalid": _Explainer.unknown_type,
    "literal_error": _Explainer.unknown_choice,
    "unknown_sandbox": _Explainer.unknown_sandbox,
    "finite_number": _Explainer.not_finite,
    "string_type": _Explainer.not_text,
    "string_sub_type": _Explainer.not_text,
    "too_short": _Explainer.too_short,
    "string_too_short": _Explainer.too_short,
    "dict_type": _Explainer.not_mapping,
    "model_type": _Explainer.not_mapping,
    "model_attributes_type": _Explainer.not_mapping,
    "mapping_type": _Explainer.not_mapping,
    "greater_than": _Explainer.out_of_range,
    "greater_than_equal": _Explainer.out_of_range,
    "less_than": _Explainer.out_of_range,
    "less_than_equal": _Explainer.out_of_range,
}


def _shorten(text: str) -> str:
    if len(text) <= _LONGEST_VALUE:
        return text
    return f"{text[: _LONGEST_VALUE - 3]}..."
