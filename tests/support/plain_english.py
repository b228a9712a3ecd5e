"""Phrases that a native technical reader stumbles over, each with what to write instead, and a search for them.

``python tests/support/plain_english.py src docs`` prints every hit below the given paths of the project.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
_PROSE: Final = frozenset({".md", ".txt", ".yaml"})
_CODE_BLOCK: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_INLINE_CODE: Final = re.compile(r"`[^`\n]+`")
_YAML_TEXT: Final = re.compile(r"^[^#\n]*", re.MULTILINE)
# A string of fewer words is a key, a name or a fragment.
_FEWEST_WORDS: Final = 3

# The pattern, and what to write instead.
PHRASES: Final[dict[str, str]] = {
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|different|less|more\b|evidence)[a-z]": "'is not a ...'",
    r"\bst(?:ands?|ood) (?:beside|behind|before|there|next to|between|under|where|at the|in (?!for))": (
        "'is next to', 'is in', 'follows'"
    ),
    r"\b(?:said|says?|tells?|told|speaks?|spoke[ns]?) of\b": "'reports', 'shows', or the value itself as the subject",
    r"\b(?:is|are|was|were|be|been) (?:said|told)\b(?! apart)": "an actor and its verb: 'nel reports', 'the error lists'",
    r"\bspeaks? to (?:machines|people)\b": "'prints JSON'",
    (
        r"\b[Ww]hat (?:is|was|are|were|has been) (?:not )?"
        r"(?:tried|drawn|said|done|kept|left|asked|lost|told|given|meant|answered|collected|planned)\b"
    ): "a noun: 'the drawn rows', 'finished answers'",
    r"\b[Ww]hat (?:becomes?|became|comes?|came) of\b": "a noun: 'outcomes', 'the result'",
    r"\b(?:lies?|lay) (?:beside|there|where|under|elsewhere|next to|in (?!\[))": "'is in', 'is stored in'",
    r"\b(?:[Gg]oes|[Gg]o|went|going|gone) on\b": "'continues'",
    r"\b(?:asked|done|made|begun|told) (?:again|anew|once more)\b": "'retried', 'rerun', 'sent again'",
    r"\banew\b": "'again', or a verb with 're-'",
    r"\b(?:is|are|was|were) (?:not )?there\b(?! (?:is|are|an?|any|no)\b)": "'exists', 'is installed', 'is missing'",
    r"\bsurely\b": "the confidence, as a number",
    r"\bunder (?:the|its|their|a) (?:floor|minimum|limit)\b": "'below the minimum'",
    r"\b(?:rooms?(?! (?:for|left|to)\b)|houses?|doors?)\b": "'package', 'interface', 'entry point'",
    r"\b(?:the words of(?! (?:a text|all columns))|no words? for)\b": "'the names', 'the messages', 'no option for'",
    r"\b(?:is|are) of (?:what|the run|a run|that|this|somebody|[A-Z]{3,})\b": "an adjective",
    r"\bnobody (?:knows|asks|asked|answers)\b": "'unknown', 'unused'",
    r"\b(?:server|benchmark|task|solver|judge|rule|setting|command|image)s? wants?\b": "'needs', 'requires'",
    r"\bholds? nothing\b": "'is empty', 'contains no ...'",
    r"\bmend(?:s|ed|ing)?\b": "'fix'",
    r"\b(?:is|are) found out\b": "'is measured', 'is tuned automatically'",
    r"\blooks? after\b": "'manages'",
    r"\baskers?\b|\bwho asks\b": "'caller', 'client'",
    r"\b(?:taken|takes?) (?:it )?back\b": "'undone', 'removed', 'withdrawn'",
    r"\bsaid nothing\b|\bit told\b": "'printed nothing', 'it reported'",
    r"\bsomething (?:that is no|else than)\b": "'a tool that is not a function', 'scores that are not numbers'",
    r"\bor no (?:[A-Z]{3,}|[a-z]+ (?:file|folder))\b": "'or not JSON', 'neither ... nor ...'",
    r"\b(?:ended well|brings? none)\b": "'succeeded', 'has none'",
    r"\bended from outside\b|\basks? for what\b": "'killed', 'recovers the missing ...'",
    r"\bshared out\b|\bto be had\b|\bfor want of\b|\bby the way\b": "'divided', 'available', 'without', 'silently'",
}
_ALL: Final = [(re.compile(pattern), better) for pattern, better in PHRASES.items()]


class Hit(NamedTuple):
    """One stumbling phrase."""

    place: str
    phrase: str
    better: str


def phrases_in(text: str) -> Iterator[tuple[int, str, str]]:
    """The offset of every phrase in a text, the phrase, and what to write instead."""
    flat = text.replace("\n", " ")
    for pattern, better in _ALL:
        for match in pattern.finditer(flat):
            yield match.start(), match[0].strip(), better


def hits_below(path: Path) -> list[Hit]:
    """Every phrase in the prose and in the Python strings below a path."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    hits: list[Hit] = []
    for file in files:
        if file.suffix == ".py":
            hits += _hits_in_python(file)
        elif file.suffix in _PROSE:
            hits += _hits_in_prose(file)
    return hits


def _hits_in_prose(file: Path) -> Iterator[Hit]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".yaml":
        prose = _YAML_TEXT.sub(_blank, text)
    else:
        prose = _INLINE_CODE.sub(_blank, _CODE_BLOCK.sub(_blank, text))
    for offset, phrase, better in phrases_in(prose):
        line = text.count("\n", 0, offset) + 1
        yield Hit(f"{_shown(file)}:{line}", phrase, better)


def _shown(file: Path) -> str:
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)


def _blank(match: re.Match[str]) -> str:
    """As many characters that match nothing, with the same line ends."""
    return re.sub(r"[^\n]", "~", match[0])


def _hits_in_python(file: Path) -> Iterator[Hit]:
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        text = "" if id(node) in parts else _text_of(node)
        if len(text.split()) < _FEWEST_WORDS:
            continue
        for offset, phrase, better in phrases_in(_INLINE_CODE.sub(_blank, text)):
            line = node.lineno + text.count("\n", 0, offset)  # type: ignore[attr-defined]
            yield Hit(f"{_shown(file)}:{line}", phrase, better)


def _text_of(node: ast.AST) -> str:
    """The text of a string; of an f-string, with ``{}`` for each value in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        return "".join(str(part) for part in parts)
    return ""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for hit in hits_below(ROOT / name):
            print(f"{hit.place}: {hit.phrase!r}: {hit.better}")
