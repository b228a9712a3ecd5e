"""``${.path.to.value}``: a value of the same config. A string that is one reference takes the value with its type."""

import re
from typing import Any

from nemo_evaluator.config._document import Document, Path, show_path
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.registry import nearest

_REFERENCE = re.compile(r"(?<!\$)\$\{\.([A-Za-z0-9_.\-\[\]]+)\}")


def resolve_self_references(document: Document) -> Document:
    """The document with every reference replaced; unknown ones and circles are errors, all reported together."""
    resolver = _Resolver(document)
    value = resolver.resolve(document.value, (), ())
    if resolver.problems:
        raise ConfigError(resolver.problems)
    return Document(value, document.marks)


class _Resolver:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def resolve(self, value: Any, path: Path, chain: tuple[Path, ...]) -> Any:
        if isinstance(value, dict):
            return {key: self.resolve(item, (*path, key), chain) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, (*path, number), chain) for number, item in enumerate(value)]
        if not isinstance(value, str) or "${." not in value:
            return value
        whole = _REFERENCE.fullmatch(value)
        if whole:
            return self._follow(whole.group(1), path, chain)
        return _REFERENCE.sub(lambda match: _text(self._follow(match.group(1), path, chain)), value)

    def _follow(self, name: str, path: Path, chain: tuple[Path, ...]) -> Any:
        target, value, found = self._lookup(name)
        if not found:
            self._report(path, f"${{.{name}}} names nothing in this config", self._hint(target))
            return None
        if target in chain or path[: len(target)] == target:
            steps = " -> ".join(show_path(step) for step in (*chain, target))
            self._report(path, f"references go in a circle: {steps}", "give one of them a plain value")
            return None
        return self.resolve(value, target, (*chain, target))

    def _lookup(self, name: str) -> tuple[Path, Any, bool]:
        target: Path = ()
        value = self.document.value
        for part in name.replace("[", ".").replace("]", "").split("."):
            key: str | int = int(part) if isinstance(value, list) and part.isdigit() else part
            if isinstance(value, dict) and key in value:
                value = value[str(key)]
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                return (*target, key), None, False
            target = (*target, key)
        return target, value, True

    def _hint(self, target: Path) -> str:
        parent = self.document.value
        for key in target[:-1]:
            parent = parent[key]
        words = [str(key) for key in parent] if isinstance(parent, dict) else []
        close = nearest(str(target[-1]), words)
        if close:
            return f"did you mean ${{.{show_path((*target[:-1], close))}}}?"
        return f"known there: {', '.join(words[:12]) or 'nothing'}; write $${{ for a literal ${{"

    def _report(self, path: Path, message: str, hint: str) -> None:
        problem = self.document.problem(path, message, hint)
        if problem not in self.problems:
            self.problems.append(problem)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
