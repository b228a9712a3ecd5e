"""Schema errors in the words of the person who wrote the file: path, line, what is wrong, how to mend it."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from nemo_evaluator.config._document import Document, Path, show_path
from nemo_evaluator.config._schema_walk import class_at, field_at, kinds_at, value_at
from nemo_evaluator.config.cross_check import models_to_ask
from nemo_evaluator.core.errors import Problem
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import did_you_mean, nearest
from nemo_evaluator.core.secrets import looks_secret, scrub


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Hints by the word of an error, and homes of keys that are looked for elsewhere; read when something is wrong."""
    file = FilePath(__file__).parent / "data" / "hints.yaml"
    texts: dict[str, dict[str, str]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return texts


def explain(error: ValidationError, document: Document, root: type[BaseModel]) -> list[Problem]:
    """One Problem per schema error, in the order of the file."""
    problems = []
    for item in error.errors(include_url=False):
        if item["type"] != "references":
            found = _Explainer(item, document, root)
            message, hint = found.words()
            problems.append(document.problem(found.path, message, hint))
    # A value that may be of several types fails once for each; one word about it is enough.
    distinct = list({problem.path: problem for problem in reversed(problems)}.values())
    return sorted(distinct, key=lambda problem: (problem.line is None, problem.line or 0))


def kind_of(value: Any) -> str:
    """What a value is, in plain words."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the switch {'true' if value else 'false'}"
    words: dict[type, str] = {
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return words.get(type(value), f"a {type(value).__name__}")


class _Explainer:
    def __init__(self, item: Any, document: Document, root: type[BaseModel]) -> None:
        self.kind: str = item["type"]
        self.message: str = item["msg"]
        self.context: dict[str, Any] = item.get("ctx", {})
        self.document = document
        self.root = root
        self.path = _yaml_path(item["loc"], document.value)
        self.value = value_at(document.value, self.path)

    def words(self) -> tuple[str, str]:
        """What is wrong, and how to mend it; may move ``path`` to the key that is meant."""
        if self.kind in _WORDS:
            return _WORDS[self.kind](self)
        if "hint" in self.context:
            return scrub(self.message), self.context["hint"]
        texts = _texts()
        if self.kind in texts["expected"]:
            what, _, hint = texts["expected"][self.kind].partition("; ")
            return f"{what} is expected, found {self._found()}", hint
        if self.kind in texts["hints"]:
            return self.message, texts["hints"][self.kind]
        message = scrub(self.message)
        return message if message[:2].isupper() else message[:1].lower() + message[
            1:
        ], self._fallback()

    def extra(self) -> tuple[str, str]:
        if self.path:
            name = str(self.path[-1])
        else:
            name = ""
        owner = class_at(self.root, self.path[:-1], self.document.value)
        if owner:
            known = sorted(owner.model_fields)
        else:
            known = []
        home = _texts()["homes"].get(name)
        if home and home not in self.path:
            return f"unknown key {name!r}", f"it belongs under {home}:"
        return f"unknown key {name!r}", did_you_mean(name, known, f"known keys: {', '.join(known)}")

    def missing(self) -> tuple[str, str]:
        if self.path:
            name = str(self.path[-1])
        else:
            name = ""
        field = field_at(self.root, self.path, self.document.value)
        if field and field.description:
            about = f" ({field.description.rstrip('.')})"
        else:
            about = ""
        siblings = as_dict(value_at(self.document.value, self.path[:-1]))
        owner = class_at(self.root, self.path[:-1], self.document.value)
        close = nearest(name, [key for key in siblings if owner and key not in owner.model_fields])
        if close:
            hint = f"is {close!r} a misspelling of it?"
        else:
            hint = self._add(name)
        return f"the key {name!r} is missing{about}", hint

    def _add(self, name: str) -> str:
        """How to add a key that is missing, with the choices where the file has them."""
        if name in ("solver", "service"):
            models = models_to_ask(self.document.value)
        else:
            models = []
        place = show_path(self.path[:-1])
        if name == "solver" and models:
            return f"add solver: {{type: simple, service: NAME}} under {place}; models: {', '.join(models)}"
        return f"add {name}: under {place}" + (f"; models: {', '.join(models)}" if models else "")

    def no_tag(self) -> tuple[str, str]:
        known = ", ".join(kinds_at(self.root, self.path, self.document.value))
        if isinstance(self.value, dict):
            return "the key 'type' is missing", f"add type: one of {known}"
        return (
            f"a mapping with a type is expected, found {self._found()}",
            f"write type: and its keys; types: {known}",
        )

    def bad_tag(self) -> tuple[str, str]:
        known = list(kinds_at(self.root, self.path, self.document.value))
        word = str(self.context.get("tag", ""))
        self.path = (*self.path, "type")
        return f"unknown type {_shorten(word)!r}", did_you_mean(
            word, known, also=f"types: {', '.join(known)}"
        )

    def literal(self) -> tuple[str, str]:
        expected = str(self.context.get("expected", ""))
        known = re.findall(r"'([^']*)'", expected) or [expected]
        if isinstance(self.value, str):
            words = known
        else:
            words = []
        hint = did_you_mean(str(self.value), words, also=f"choices: {', '.join(known)}")
        return f"{self._found()} is not one of the choices", hint

    def text(self) -> tuple[str, str]:
        message = f"text is expected, found {self._found()}"
        if not isinstance(self.value, bool | int | float):
            return message, self._fallback()
        if isinstance(self.value, bool):
            written = str(self.value).lower()
        else:
            written = str(self.value)[:40]
        return message, "put it in quotes" if self._secret() else f'put it in quotes: "{written}"'

    def mapping(self) -> tuple[str, str]:
        if kinds_at(self.root, self.path, self.document.value):
            return self.no_tag()
        return (
            f"a mapping is expected, found {self._found()}",
            "write indented 'key: value' lines under it",
        )

    def bound(self) -> tuple[str, str]:
        words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
        limit = next(
            (f"{words[name]} {self.context[name]}" for name in words if name in self.context),
            "smaller",
        )
        return f"{self._found()} is out of range", f"the value must be {limit}"

    def short(self) -> tuple[str, str]:
        if self.kind == "string_too_short":
            return "must not be empty", self._fallback()
        least = self.context.get("min_length", 1)
        return f"needs at least {least} {'entry' if least == 1 else 'entries'}", self._fallback()

    def unknown_sandbox(self) -> tuple[str, str]:
        data = self.document.value
        known = [str(name) for name in as_dict(as_dict(data).get("sandboxes"))]
        if str(self.value) in kinds_at(self.root, self.path, data):
            return (
                self.message,
                f"for a sandbox of that type, write sandbox: {{type: {self.value}}}",
            )
        otherwise = None if known else "known: none; add one under sandboxes:"
        return self.message, did_you_mean(str(self.value), known, otherwise)

    def _secret(self) -> bool:
        return any(isinstance(key, str) and looks_secret(key) for key in self.path)

    def _found(self) -> str:
        """The value as the file has it, never as it came from the environment, never a secret."""
        value = self.value
        secret = self._secret()
        if secret or isinstance(value, dict | list) or value is None or value == "":
            if value == "" and not secret:
                return "empty text"
            return kind_of(value)
        shown = _shorten(scrub(str(value)))
        if isinstance(value, str):
            return repr(shown)
        return str(shown).lower()

    def _fallback(self) -> str:
        path = self.path
        while path and isinstance(path[-1], int):
            path = path[:-1]
        field = field_at(self.root, path, self.document.value)
        if field is not None and field.description:
            return f"{path[-1]}: {field.description}"
        return "see `nel config schema` or docs/configuration.md"


_WORDS: dict[str, Callable[[_Explainer], tuple[str, str]]] = {
    "extra_forbidden": _Explainer.extra,
    "missing": _Explainer.missing,
    "union_tag_not_found": _Explainer.no_tag,
    "union_tag_invalid": _Explainer.bad_tag,
    "literal_error": _Explainer.literal,
    "unknown_sandbox": _Explainer.unknown_sandbox,
    "finite_number": lambda _: ("a finite number is expected", "write a plain number"),
    **dict.fromkeys(("string_type", "string_sub_type"), _Explainer.text),
    **dict.fromkeys(("too_short", "string_too_short"), _Explainer.short),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "mapping_type"), _Explainer.mapping
    ),
    **dict.fromkeys(
        ("greater_than", "greater_than_equal", "less_than", "less_than_equal"), _Explainer.bound
    ),
}


def _shorten(text: str) -> str:
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."


def _yaml_path(loc: tuple[str | int, ...], data: Any) -> Path:
    """The path in the file: a schema location without the tags of kinds and the names of validators."""
    path: Path = ()
    tagged = False
    for number, key in enumerate(loc):
        if isinstance(data, dict):
            if not tagged and data.get("type") == key:
                tagged = True
                continue
            if key in data:
                path = (*path, key)
                data = data[key]
                tagged = False
                continue
            if key == "[key]":
                continue
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            path = (*path, key)
            data = data[key]
            tagged = False
            continue
        if (
            number + 1 == len(loc)
            and isinstance(data, dict)
            and isinstance(key, str)
            and key.isidentifier()
        ):
            return (*path, key)
    return path
