"""One meaning per name: class names are unique in the package, and the glossary names the types that exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "nemo_evaluator"
# Names that several classes may have, with the reason.
_SHARED: Final = {
    "Interceptor": "every file of adapters/interceptors declares one",
    "RetryConfig": "the setting of a config, and the value that the transport takes",
    "StepLimits": "the setting of a config, and the value that the engine takes",
    "Failed": "an outcome, and the exception of pytest.fail in the judge's stand-in",
    "Result": "a request in a batch, and a unittest.TestResult in the judge",
    "Connection": "the client's and the scripted server's end of HTTP",
}
_NOT_YET: Final[frozenset[str]] = frozenset()
_TERM: Final = re.compile(
    r"^\| (?P<terms>[^|]+) \| (?P<meaning>[^|]+) \| (?:`(?P<type>\w+)`)? ?\|$", re.MULTILINE
)


@cache
def classes() -> dict[str, list[str]]:
    """The files that define a class, by its name."""
    files = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(str(file.relative_to(PACKAGE)))
    return files


def glossary() -> list[tuple[str, str, str | None]]:
    """Terms, meaning and type of each row of the table."""
    page = (ROOT / "docs" / "design" / "glossary.md").read_text(encoding="utf-8")
    rows = [(match["terms"], match["meaning"], match["type"]) for match in _TERM.finditer(page)]
    return rows[1:]


def shared_names(files: dict[str, list[str]]) -> dict[str, list[str]]:
    """Names that more than one class has."""
    return {name: places for name, places in files.items() if len(places) > 1}


def test_a_class_name_has_one_meaning() -> None:
    shared = shared_names(classes())
    added = {
        name: places
        for name, places in shared.items()
        if name not in _NOT_YET and name not in _SHARED
    }
    assert added == {}, "choose a name that no other class has"


def test_exceptions_are_still_needed() -> None:
    shared = shared_names(classes())
    assert sorted(name for name in (*_NOT_YET, *_SHARED) if name not in shared) == [], (
        "delete it from the list"
    )


def test_a_second_class_of_one_name_is_found() -> None:
    files = {**classes(), "Journal": [*classes()["Journal"], "view/pages.py"]}
    assert "Journal" in shared_names(files)


def test_the_glossary_names_types_that_exist() -> None:
    known = {*classes(), "Outcome"}
    rows = glossary()
    assert len(rows) > 30
    missing = [name for _, _, name in rows if name is not None and name not in known]
    assert missing == []


def test_a_term_and_a_type_are_in_the_glossary_once() -> None:
    rows = glossary()
    terms = [term.strip() for names, _, _ in rows for term in names.split(",")]
    types = [name for _, _, name in rows if name is not None]
    assert len(terms) == len(set(terms))
    assert len(types) == len(set(types))
