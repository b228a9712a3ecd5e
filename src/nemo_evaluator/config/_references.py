"""References in a config: ``${.path}`` to a value of the same config, ``${NAME}`` to an environment variable."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from nemo_evaluator.config._document import Document, Path, map_texts, show_path
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.core.secrets import remember_named

_OWN = re.compile(r"(?<!\$)\$\{\.([A-Za-z0-9_.\-\[\]]+)\}")
# `$${` is a literal `${`, for a shell on another machine.
_OPENING = re.compile(r"\$(?P<escaped>\$\{(?=\.|\w+(?::-|\})))|\$\{(?P<name>\w+)(?P<end>:-|\})")
_REFERENCE = re.compile(r"\$\{(?=\.|\w+(?::-|\}))")
# The placeholder of a value that the user has to fill in.
MISSING = "???"


def escape(text: str) -> str:
    """Escape the references in a text, so that expansion returns the text unchanged."""
    return _REFERENCE.sub("$${", text)


def resolve_self_references(document: Document) -> Document:
    """Replace every ``${.path}`` in a document.

    A string that consists of one reference becomes the referenced value, with its type.

    Raises:
        ConfigError: With all references that are unknown or circular.
    """
    resolver = _Resolver(document)
    value = map_texts(document.value, resolver.text)
    if resolver.problems:
        raise ConfigError(resolver.problems)
    return Document(value, document.marks)


def expand_environment(
    document: Document, environment: Mapping[str, str]
) -> tuple[Any, list[Problem]]:
    """Replace every environment variable in a document.

    A variable that is set, even to an empty text, is used as it is; its value is not expanded again.

    Returns:
        The value, and a problem for each variable that is not set and has no default.
    """
    expander = _Expander(document, environment)
    return map_texts(document.value, expander.text), expander.problems


class _Replacer:
    """Replaces the texts of a document, and collects the problems."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def report(self, path: Path, message: str, hint: str) -> None:
        """Add a problem, unless it has already been reported."""
        problem = self.document.problem(path, message, hint)
        if problem not in self.problems:
            self.problems.append(problem)


class _Resolver(_Replacer):
    """Replaces references to other values of the config."""

    def text(self, text: str, path: Path, chain: tuple[Path, ...] = ()) -> Any:
        """Return a text with its references resolved; ``chain`` is the references that led to it."""
        if "${." not in text:
            return text
        only_reference = _OWN.fullmatch(text)
        if only_reference:
            return self._follow(only_reference[1], path, chain)
        return _OWN.sub(lambda match: _as_text(self._follow(match[1], path, chain)), text)

    def _follow(self, name: str, path: Path, chain: tuple[Path, ...]) -> Any:
        """Return the value of the reference ``${.name}`` at ``path``; None after reporting a problem."""
        target: Path = ()
        value = self.document.value
        dotted_name = name.replace("[", ".").replace("]", "")
        for part in dotted_name.split("."):
            key: str | int = part
            if isinstance(value, list) and part.isdigit():
                key = int(part)
            if not _contains(value, key):
                message = f"${{.{name}}} does not exist in this config"
                self.report(path, message, _known_there(value, target, part))
                return None
            target = (*target, key)
            value = value[key]
        refers_to_itself = path[: len(target)] == target
        if target in chain or refers_to_itself:
            cycle = " -> ".join(show_path(step) for step in (*chain, target))
            message = f"references form a circle: {cycle}"
            self.report(path, message, "give one of them a plain value")
            return None
        resolve_text = partial(self.text, chain=(*chain, target))
        return map_texts(value, resolve_text, target)


def _contains(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, dict) and key in value


def _known_there(container: Any, path: Path, part: str) -> str:
    """Return a hint for a reference whose ``part`` is not in the container at ``path``."""
    keys = [str(key) for key in container] if isinstance(container, dict) else []
    similar_key = nearest(part, keys)
    if similar_key:
        return f"did you mean ${{.{show_path((*path, similar_key))}}}?"
    return f"known there: {', '.join(keys[:12]) or 'nothing'}; write $${{ for a literal ${{"


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return str(value)


class _Expander(_Replacer):
    """Replaces references to environment variables."""

    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        super().__init__(document)
        self.environment = environment

    def text(self, text: str, path: Path) -> str:
        """Return a text with its variables replaced; report a ``???`` placeholder."""
        if text == MISSING:
            dotted_path = ".".join(map(str, path))
            hint = f"fill it in, or give it: -O {dotted_path}=VALUE (null leaves it out)"
            self.report(path, "a value is missing (???)", hint)
        if "$" in text:
            return self._expanded(text, path)
        return text

    def _expanded(self, text: str, path: Path) -> str:
        """Replace the variables of a text, and unescape ``$${``."""
        pieces: list[str] = []
        position = 0
        while match := _OPENING.search(text, position):
            pieces.append(text[position : match.start()])
            position = match.end()
            default: str | None = None
            if match["end"] == ":-":
                default, position = _default(text, position)
            if match["escaped"]:
                pieces.append("${")
            elif match["end"] == ":-" and default is None:
                pieces.append(match.group())
            else:
                pieces.append(self._variable(match["name"], default, path))
        return "".join([*pieces, text[position:]])

    def _variable(self, name: str, default: str | None, path: Path) -> str:
        """Return the value of a variable, or its default; report it if there is neither."""
        value = self.environment.get(name)
        if value is not None:
            remember_named({name: value})
            return value
        if default is not None:
            return self._expanded(default, path)
        names = {variable.lower(): variable for variable in self.environment}
        similar_name = nearest(name, list(names))
        hint = f"export {name}=..., or give a default: ${{{name}:-value}}"
        if similar_name:
            hint = f"did you mean ${{{names[similar_name]}}}? or {hint}"
        self.report(path, f"the environment variable {name} is not set", hint)
        return ""


def _default(text: str, start: int) -> tuple[str | None, int]:
    """Find the default value that begins at ``start``; braces in it are balanced if possible.

    Returns:
        The default, or None if no brace closes it, and the position after the closing brace.
    """
    depth = 1
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
        if depth == 0:
            return text[start:position], position + 1
    end = text.find("}", start)
    if end < 0:
        return None, start
    return text[start:end], end + 1
