"""Prompt templates, and the worked examples before a problem.

``{column}`` is replaced by the column's value, every other brace is text.

``{{`` and ``}}`` still mean literal braces, so templates written for ``str.format`` keep their meaning; JSON, LaTeX
and code need no doubling. A ``{word}`` that names no column is an error at load, which lists the columns.
"""

import random
import re
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.datasets import Rows

_FILES: Final = (".txt", ".md", ".jinja")
_FIELD: Final = re.compile(
    r"\{\{|\}\}|\{(?P<name>[^\W\d]\w*)(?P<path>(?:\.\w+|\[[^\[\]{}]+\])*)(?P<how>(?:![rsa])?(?::[^{}\s\"']*)?)\}"
)
# `\frac{a}{b}`, `x^{n}`: a brace right after a command, a script or another group is LaTeX.
_LATEX_BEFORE: Final = re.compile(r"(?:\\[A-Za-z]+|[\^_}\]])$")
_FORMATTER: Final = string.Formatter()


class PromptTemplate:
    """A template compiled once for the columns of a dataset; ``also`` are fields besides the columns."""

    def __init__(
        self, text: str, columns: set[str], where: str, also: frozenset[str] = frozenset()
    ) -> None:
        self.columns: set[str] = set()
        self._where = where
        # Each field, and the literal text that follows it; the first text has no field before it.
        pieces: list[tuple[str, str | None, list[str]]] = [("", None, [])]
        at = 0
        for found in _FIELD.finditer(text):
            literal = pieces[-1][2]
            word = found["name"]
            literal.append(text[at : found.start()])
            at = found.end()
            if word is None:
                literal.append(found[0][0])
            elif word in columns or word in also:
                self.columns.add(word)
                pieces.append((word, found[0] if found["path"] or found["how"] else None, []))
            else:
                self._refuse(word, found, text, columns=columns)
                literal.append(found[0])
        pieces[-1][2].append(text[at:])
        (_, _, head), *rest = pieces
        self._head = "".join(head)
        self._rest = [(name, field, "".join(texts)) for name, field, texts in rest]

    def render(self, row: Mapping[str, Any]) -> str:
        """The prompt of one row."""
        parts = [self._head]
        try:
            for name, field, text in self._rest:
                value = row[name]
                if field is not None:
                    value = _FORMATTER.vformat(field, (), {name: value})
                parts.append(value if type(value) is str else str(value))
                parts.append(text)
        except KeyError as error:
            raise SeedError(
                f"{self._where}: a row has no column {error}; it has {', '.join(row)}"
            ) from error
        return "".join(parts)

    def _refuse(self, word: str, found: re.Match[str], text: str, columns: set[str]) -> None:
        if _LATEX_BEFORE.search(text[: found.start()]) or found["how"] or found["path"]:
            return
        have = sorted(columns)
        hint = did_you_mean(
            word, have, also=f"For the literal text write {{{{{word}}}}}", form="{{{}}}"
        )
        said = f"the prompt has {{{word}}}, and the dataset has no such column; it has {', '.join(have)}"
        raise UsageError(f"{self._where}: {said}", hint=hint)


def template_text(prompt: str, base: Path | None, where: str) -> str:
    """The text of a prompt: itself, or the content of the file it names (in this folder, or beside the benchmark)."""
    if not prompt.endswith(_FILES) or "\n" in prompt or "{" in prompt:
        return prompt
    for path in [Path(prompt).expanduser(), *([base / prompt] if base else [])]:
        if path.is_file():
            return path.read_text(encoding="utf-8")
    if " " in prompt:
        return prompt
    raise UsageError(
        f"{where}: the prompt file {prompt} does not exist",
        hint=f"looked in {Path.cwd()} and {base}",
    )


@dataclass(slots=True)
class FewShot:
    """Draws ``count`` examples out of ``source`` in a fixed random order, or ``in_order`` as they stand: the same ones
    for every problem.

    The order does not depend on ``count``, so 3 examples are the first 3 of 5. With ``by``, a problem gets examples
    whose column of that name is equal to its own. A problem is never its own example.
    """

    source: Rows
    count: int
    by: str | None
    render: Callable[[JsonDict], str]
    in_order: bool = False
    _pools: dict[Any, list[JsonDict]] = field(default_factory=dict)
    _texts: dict[tuple[int, ...], str] = field(default_factory=dict)

    def rows(self, row: JsonDict) -> list[JsonDict]:
        """The examples for a problem."""
        pool = self._pool(row.get(self.by) if self.by else None)
        chosen = [example for example in pool if example != row][: self.count]
        if len(chosen) < self.count:
            if self.by:
                group = f" with {self.by} {row.get(self.by)!r}"
            else:
                group = ""
            said = f"fewshot: {self.count} examples were asked for, {self.source.source} has {len(chosen)}{group}"
            raise UsageError(said, hint=f"set fewshot to at most {len(chosen)}")
        return chosen

    def text(self, row: JsonDict) -> str:
        """The examples for a problem as one text that ends with a blank line."""
        chosen = self.rows(row)
        key = tuple(map(id, chosen))
        if key not in self._texts:
            self._texts[key] = "".join(f"{self.render(example)}\n\n" for example in chosen)
        return self._texts[key]

    def _pool(self, group: Any) -> list[JsonDict]:
        if not self._pools:
            # One more than asked for, in case a problem is among its own examples.
            wanted = self.count + 1
            numbers = list(range(len(self.source)))
            if not self.in_order:
                random.Random("42:fewshot").shuffle(numbers)
            for number in numbers if self.by else numbers[:wanted]:
                example = self.source[number]
                pool = self._pools.setdefault(example.get(self.by) if self.by else None, [])
                if len(pool) < wanted:
                    pool.append(example)
        return self._pools.get(group, [])
