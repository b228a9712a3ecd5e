"""Plant failures in tests that are not Python: change a literal in each line that asserts something.

nel does not parse these languages, so it cannot know that a change makes a test fail. Use this only where a control on
the known solution shows that honest work loses its reward.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nemo_evaluator.environments.schemes._wrong_values import wrong_constant

_SHELLS: Final = frozenset({".sh", ".bash", ".bats"})
_PATCHES: Final = frozenset({".patch", ".diff"})
_CODE: Final = frozenset({
    ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".c", ".cc", ".cpp", ".cxx", ".h",
    ".hpp", ".java", ".kt", ".scala", ".cs", ".swift", ".rb", ".php", ".pl", ".t", ".lua", ".ex", ".exs", ".jl",
    ".dart", ".r", ".R",
})  # fmt: skip
# `assert.equal(...)`, `expect(...)`, `assert_eq!(...)`, `EXPECT_EQ(...)`, Perl's `is(...)`, Go's `if got != ...`
_ASSERTS: Final = re.compile(
    r"\b(?:\w*assert\w*|expect\w*|\w*should\w*|check\w*|require_\w+|is|is_deeply|cmp_ok)\s*[(!.\s]"
    r"|\bif\b[^\n]*[!=]=",
    re.IGNORECASE,
)
# Another text than the expected one may be contained by chance.
_CONTAINS: Final = re.compile(r"contain|match|include|like|regex|search", re.IGNORECASE)
# A row of a table of cases: `{2, 3, 5},` or `["a", "b"],`
_ROW: Final = re.compile(r"\s*[\[({][^\n]*[\])}]\s*,?\s*$")
_IMPORTS: Final = re.compile(r"\b(?:import|require|use|include|from|package)\b(?!_)")
_TEXT: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_NUMBER: Final = re.compile(r"(?<![\w.\"'])\d+(?:\.\d+)?(?![\w.\"'])")
# Not a part of an escape, a format or an interpolation.
_CHANGEABLE: Final = re.compile(
    r"(?<![\\%${#\w])[A-Za-z0-9](?![}(])|(?<=[A-Za-z0-9 ])[A-Za-z0-9](?![}(])"
)
# `[ "$(PROGRAM)" = LITERAL ]` and `[ "$OUTPUT" = LITERAL ]`
_SHELL_TEST: Final = re.compile(
    r"""(?:\[\[?|\btest)\s+"?(?P<actual>\$\([^\n]*?\)|`[^`\n]*`|\$\{?\w+\}?)"?\s+(?:==?|-eq)\s+(?P<literal>"[^"$`\n]+"|'[^'\n]+'|[\w.-]+)"""
)
# Output may contain another short text by chance.
_SHELL_SEARCH: Final = re.compile(
    r"""\bgrep\s+(?:-\w+\s+)*-\w*q\w*\s+(?:-\w+\s+)*(?P<literal>"[^"$`\n]{8,}"|'[^'\n]{8,}'|[\w.]{8,})"""
)
_SHELL_EXPECTED: Final = re.compile(
    r"""\b(?:echo|printf)\s(?P<literal>[^\n|;&>$]*[A-Za-z0-9][^\n|;&>$]*)>[^\n]*(?:want|expect|gold)"""
)
_PATCH: Final = re.compile(r"^\+\+\+ ", re.MULTILINE)
_EXPECTED_FILE: Final = re.compile(
    r"expected|golden|want|reference|answer|\.out$|\.ans$", re.IGNORECASE
)
_LARGEST_FILE: Final = 1 << 20


def plant_by_text(folder: Path, chance: random.Random) -> dict[Path, bytes]:
    """Return the changed content of the tests in a folder, by path.

    Args:
        folder: The folder with a task's tests.
        chance: Chooses the changes.
    """
    changed_files: dict[Path, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _LARGEST_FILE:
            continue
        source = path.read_bytes()
        text = source.decode("utf-8", "surrogateescape")
        if path.suffix in _SHELLS:
            changed_text = _planted_shell(_planted_patch(text, chance), chance)
        elif path.suffix in _PATCHES:
            changed_text = _planted_patch(text, chance)
        elif path.suffix in _CODE:
            changed_text = _planted_code(text, chance)
        elif path.suffix != ".py" and _EXPECTED_FILE.search(path.name):
            changed_text = _changed_text(text, chance)
        else:
            continue
        if changed_text != text:
            changed_files[path] = changed_text.encode("utf-8", "surrogateescape")
    return changed_files


def _planted_code(text: str, chance: random.Random) -> str:
    """Change the lines that assert something; without any, the rows of tables."""
    lines = text.split("\n")
    for pattern in (_ASSERTS, _ROW):
        changed_lines = [_changed_line(line, pattern, chance) for line in lines]
        if changed_lines != lines:
            return "\n".join(changed_lines)
    return text


def _planted_patch(text: str, chance: random.Random) -> str:
    """Change the assertions that a patch adds; other changes would keep it from being applied."""
    if not _PATCH.search(text):
        return text
    changed_lines: list[str] = []
    for line in text.split("\n"):
        is_added = line.startswith("+") and not line.startswith("+++")
        changed_lines.append(_changed_line(line, _ASSERTS, chance) if is_added else line)
    return "\n".join(changed_lines)


def _changed_line(line: str, pattern: re.Pattern[str], chance: random.Random) -> str:
    """Return a line with another literal behind a pattern; unchanged if it does not compare."""
    match = pattern.search(line)
    if match is None or _IMPORTS.search(line) or _CONTAINS.search(line):
        return line
    return f"{line[: match.start()]}{_changed_literals(line[match.start() :], chance)}"


def _changed_literals(code: str, chance: random.Random) -> str:
    """Change the last number of an assertion; without one, all its texts, because one of them may be a message."""
    text_spans = [match.span() for match in _TEXT.finditer(code)]
    numbers: list[re.Match[str]] = []
    for match in _NUMBER.finditer(code):
        if not any(start <= match.start() < stop for start, stop in text_spans):
            numbers.append(match)
    if numbers:
        start, stop = numbers[-1].span()
        return f"{code[:start]}{_changed_number(code[start:stop], chance)}{code[stop:]}"
    for start, stop in reversed(text_spans):
        changed_text = _changed_text(code[start + 1 : stop - 1], chance)
        code = f"{code[: start + 1]}{changed_text}{code[stop - 1 :]}"
    return code


def _planted_shell(text: str, chance: random.Random) -> str:
    """Change what a shell script expects of a program's output."""
    spans = sorted(_shell_literals(text))
    for start, stop in reversed(spans):
        text = f"{text[:start]}{_changed_text(text[start:stop], chance)}{text[stop:]}"
    return text


def _shell_literals(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the literals are that a shell script compares with a program's output."""
    for match in _SHELL_TEST.finditer(text):
        variable = re.fullmatch(r"\$\{?(\w+)\}?", match["actual"])
        # Other variables hold an exit status, or count.
        if variable is None or re.search(rf"\b{variable[1]}=[\"']?(?:\$\(|`)", text):
            yield match.span("literal")
    for pattern in (_SHELL_SEARCH, _SHELL_EXPECTED):
        for match in pattern.finditer(text):
            yield match.span("literal")


def _changed_number(number: str, chance: random.Random) -> str:
    """Return another number of the same form."""
    value = float(number) if "." in number else int(number)
    return wrong_constant(value, chance)


def _changed_text(text: str, chance: random.Random) -> str:
    """Change one letter or digit of a text, if it has one that can be changed."""
    positions = [match.start() for match in _CHANGEABLE.finditer(text)]
    if not positions:
        return text
    position = chance.choice(positions)
    character = text[position]
    wrong_character = str(wrong_constant(character, chance))[1:-1]
    return f"{text[:position]}{wrong_character}{text[position + 1 :]}"
