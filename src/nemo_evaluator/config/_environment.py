"""``${NAME}`` and ``${NAME:-default}``: values of the environment, strict about variables that are not set."""

import re
from collections.abc import Mapping
from typing import Any

from nemo_evaluator.config._document import Document, Path
from nemo_evaluator.core.errors import Problem
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.core.secrets import remember_named

# `$${` is a literal `${`, left for a shell on another machine.
_OPENING = re.compile(r"\$(?P<escaped>\$\{(?=\.|\w+(?::-|\})))|\$\{(?P<name>\w+)(?P<end>:-|\})")
# Stands where the author has to give a value.
MISSING = "???"
_REFERENCE = re.compile(r"\$\{(?=\.|\w+(?::-|\}))")


def escape(text: str) -> str:
    """The text written so that expansion gives it back as it is."""
    return _REFERENCE.sub("$${", text)


def expand_environment(document: Document, environment: Mapping[str, str]) -> tuple[Any, list[Problem]]:
    """The value with every variable replaced, and a problem for each one that is not set and has no default.

    A variable that is set, also to nothing, is taken as it is; what it holds is not expanded again.
    """
    expander = _Expander(document, environment)
    return expander.expand(document.value, ()), expander.problems


class _Expander:
    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self.document = document
        self.environment = environment
        self.problems: list[Problem] = []

    def expand(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.expand(item, (*path, number)) for number, item in enumerate(value)]
        if value == MISSING:
            name = ".".join(map(str, path))
            hint = f"fill it in, or give it: -O {name}=VALUE (null leaves it out)"
            self.problems.append(self.document.problem(path, "a value is missing (???)", hint))
        return self._text(value, path) if isinstance(value, str) and "$" in value else value

    def _text(self, text: str, path: Path) -> str:
        parts: list[str] = []
        place = 0
        while match := _OPENING.search(text, place):
            parts.append(text[place : match.start()])
            if match["escaped"]:
                parts.append("${")
                place = match.end()
                continue
            default: str | None = None
            place = match.end()
            if match["end"] == ":-":
                default, place = _default(text, place)
                if default is None:
                    parts.append(match.group())
                    continue
            parts.append(self._variable(match["name"], default, path))
        parts.append(text[place:])
        return "".join(parts)

    def _variable(self, name: str, default: str | None, path: Path) -> str:
        value = self.environment.get(name)
        if value is not None:
            remember_named({name: value})
            return value
        if default is not None:
            return self._text(default, path)
        names = {known.lower(): known for known in self.environment}
        close = nearest(name, list(names))
        meant = f"did you mean ${{{names[close]}}}? or " if close else ""
        hint = f"{meant}export {name}=..., or give a default: ${{{name}:-value}}"
        self.problems.append(self.document.problem(path, f"the environment variable {name} is not set", hint))
        return ""


def _default(text: str, start: int) -> tuple[str | None, int]:
    """The default that begins at ``start``, braces inside it balanced, and the place after its closing brace."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place], place + 1
    end = text.find("}", start)
    return (None, start) if end < 0 else (text[start:end], end + 1)
