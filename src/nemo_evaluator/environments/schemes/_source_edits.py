"""Change the source of a Python program in place: insert texts, and replace expressions."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Insertion:
    """A text to insert into a source, in place of ``length`` bytes.

    Attributes:
        at: The byte offset.
        text: The inserted text.
        length: The number of bytes that it replaces.
    """

    at: int
    text: str
    length: int = 0


def parse(source: bytes) -> ast.Module | None:
    """Parse a Python program; None if it is not valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class SourceEdits:
    """Collects the changes of one source.

    Args:
        source: The source of the program.
    """

    def __init__(self, source: bytes) -> None:
        self._insertions: list[Insertion] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def result(self) -> bytes | None:
        """Return the changed source; None if nothing is changed, or the result would not be valid."""
        if not self._insertions:
            return None
        changed_source = self._source
        for insertion in sorted(self._insertions, key=lambda item: item.at, reverse=True):
            changed_source = (
                changed_source[: insertion.at]
                + insertion.text.encode()
                + changed_source[insertion.at + insertion.length :]
            )
        if parse(changed_source) is not None:
            return changed_source
        return None

    def insert(self, at: int, text: str) -> None:
        """Insert a text at an offset."""
        self._insertions.append(Insertion(at, text))

    def replace_at(self, at: int, text: str, *, length: int) -> None:
        """Replace some bytes at an offset by a text."""
        self._insertions.append(Insertion(at, text, length))

    def replace(self, node: ast.expr, text: str) -> None:
        """Replace an expression by a text."""
        start = self.start(node)
        self.replace_at(start, text, length=self.end(node) - start)

    def newline_before(self, position: int) -> str:
        """Return the text that lets a line begin at an offset: empty if one begins there already."""
        line_start = max(start for start in self._starts if start <= position)
        return "\n" if self._source[line_start:position].strip() else ""

    def statement_start(self, statement: ast.stmt) -> int:
        """Return the offset at which a statement begins, with its decorators."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        if decorators:
            return self._starts[decorators[0].lineno - 1]
        return self.start(statement)

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Return the offset at which a node begins."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Return the offset at which a node ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr) -> str:
        """Return the source of an expression."""
        return self._source[self.start(node) : self.end(node)].decode()

    def text_between(self, start: int, end: int) -> str:
        """Return a part of the source."""
        return self._source[start:end].decode()

    def line_end(self, statement: ast.stmt) -> int:
        """Return the offset at which the line after a statement begins."""
        return self._starts[statement.end_lineno or statement.lineno]
