"""Prompt templates, and the few-shot examples before a problem.

``{column}`` is replaced by the column's value; every other brace is literal text.

``{{`` and ``}}`` still mean literal braces, so templates written for ``str.format`` keep their meaning; JSON, LaTeX and
code need no doubling. A ``{word}`` that is not a column is an error at load time, which lists the columns.
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


@dataclass(slots=True)
class _Field:
    """A field of a template.

    Attributes:
        name: The column.
        formatted: The whole field, ``{column.attribute:format}``, if it has an attribute or a format.
        text_after: The literal text up to the next field.
    """

    name: str
    formatted: str | None
    text_after: str = ""


class PromptTemplate:
    """A template compiled for the columns of a dataset.

    Args:
        text: The template.
        columns: The columns of the dataset.
        where: The name of the benchmark, for error messages.
        also: Fields besides the columns.

    Raises:
        UsageError: The template names an unknown column.
    """

    def __init__(
        self, text: str, columns: set[str], where: str, also: frozenset[str] = frozenset()
    ) -> None:
        self.columns: set[str] = set()
        self._where = where
        # The text before the first field; then each field with the text that follows it.
        self._head = ""
        self._fields: list[_Field] = []
        position = 0
        for match in _FIELD.finditer(text):
            self._add_literal(text[position : match.start()])
            position = match.end()
            name = match["name"]
            if name is None:  # a doubled brace
                self._add_literal(match[0][0])
            elif name in columns or name in also:
                self.columns.add(name)
                has_format = bool(match["path"] or match["how"])
                formatted = match[0] if has_format else None
                self._fields.append(_Field(name, formatted))
            else:
                self._refuse(name, match, text, columns=columns)
                self._add_literal(match[0])
        self._add_literal(text[position:])

    def _add_literal(self, text: str) -> None:
        """Append literal text to the last field, or to the head."""
        if self._fields:
            self._fields[-1].text_after += text
        else:
            self._head += text

    def render(self, row: Mapping[str, Any]) -> str:
        """Return the prompt of a row.

        Raises:
            SeedError: The row lacks a column.
        """
        parts = [self._head]
        try:
            for prompt_field in self._fields:
                value = row[prompt_field.name]
                if prompt_field.formatted is not None:
                    names = {prompt_field.name: value}
                    value = _FORMATTER.vformat(prompt_field.formatted, (), names)
                parts.append(value if type(value) is str else str(value))
                parts.append(prompt_field.text_after)
        except KeyError as error:
            raise SeedError(
                f"{self._where}: a row has no column {error}; it has {', '.join(row)}"
            ) from error
        return "".join(parts)

    def _refuse(self, word: str, match: re.Match[str], text: str, columns: set[str]) -> None:
        """Raise UsageError for an unknown column, unless the braces look like LaTeX or a format."""
        is_latex = _LATEX_BEFORE.search(text[: match.start()])
        has_format = match["how"] or match["path"]
        if is_latex or has_format:
            return
        available = sorted(columns)
        hint = did_you_mean(
            word, available, also=f"For the literal text write {{{{{word}}}}}", form="{{{}}}"
        )
        message = f"the prompt has {{{word}}}, and the dataset has no such column; it has {', '.join(available)}"
        raise UsageError(f"{self._where}: {message}", hint=hint)


def template_text(prompt: str, base: Path | None, where: str) -> str:
    """Return the text of a prompt: itself, or the content of the file that it names.

    Args:
        prompt: The text, or the path of a ``.txt``, ``.md`` or ``.jinja`` file.
        base: A second folder for relative paths.
        where: The name of the benchmark, for error messages.

    Raises:
        UsageError: The file does not exist.
    """
    if not prompt.endswith(_FILES) or "\n" in prompt or "{" in prompt:
        return prompt
    candidates = [Path(prompt).expanduser()]
    if base is not None:
        candidates.append(base / prompt)
    for path in candidates:
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
    """Chooses the same few-shot examples for every problem.

    The order does not depend on ``count``, so 3 examples are the first 3 of 5. A problem is never its own example.

    Attributes:
        source: The rows to choose from.
        count: The number of examples.
        by: A column; the examples of a problem have the same value in it as the problem.
        render: Formats an example.
        in_order: Take the examples in the order of the rows, not in a fixed random order.
    """

    source: Rows
    count: int
    by: str | None
    render: Callable[[JsonDict], str]
    in_order: bool = False
    _pools: dict[Any, list[JsonDict]] = field(default_factory=dict)
    _texts: dict[tuple[int, ...], str] = field(default_factory=dict)

    def rows(self, row: JsonDict) -> list[JsonDict]:
        """Return the example rows for a problem.

        Raises:
            UsageError: There are not enough examples.
        """
        group: Any = None
        group_text = ""
        if self.by:
            group = row.get(self.by)
            group_text = f" with {self.by} {group!r}"
        other_rows = [example for example in self._pool(group) if example != row]
        examples = other_rows[: self.count]
        if len(examples) < self.count:
            available = f"{self.source.source} has {len(examples)}{group_text}"
            message = f"fewshot: {self.count} examples were asked for, {available}"
            raise UsageError(message, hint=f"set fewshot to at most {len(examples)}")
        return examples

    def text(self, row: JsonDict) -> str:
        """Return the formatted examples for a problem, ending with a blank line."""
        examples = self.rows(row)
        key = tuple(map(id, examples))
        if key not in self._texts:
            self._texts[key] = "".join(f"{self.render(example)}\n\n" for example in examples)
        return self._texts[key]

    def _pool(self, group: Any) -> list[JsonDict]:
        """Return the candidate examples of a group: one more than needed, in case the problem is among them."""
        if not self._pools:
            pool_size = self.count + 1
            numbers = list(range(len(self.source)))
            if not self.in_order:
                random.Random("42:fewshot").shuffle(numbers)
            if not self.by:
                numbers = numbers[:pool_size]
            for number in numbers:
                example = self.source[number]
                example_group = example.get(self.by) if self.by else None
                pool = self._pools.setdefault(example_group, [])
                if len(pool) < pool_size:
                    pool.append(example)
        return self._pools.get(group, [])
