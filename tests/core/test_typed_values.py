"""Modules that only declare the types of stored JSON cost nothing at run time: others import them for checkers only."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "src" / "nemo_evaluator"


def declares_only_types(tree: ast.Module) -> bool:
    """Whether a module has typed dicts, and no other class and no function."""
    typed = {"TypedDict"}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        if isinstance(node, ast.ClassDef):
            if not any(isinstance(base, ast.Name) and base.id in typed for base in node.bases):
                return False
            typed.add(node.name)
    return len(typed) > 1


def runtime_imports(tree: ast.Module) -> set[str]:
    """The modules of the package that a module imports when it runs, at any depth."""
    modules: set[str] = set()
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
        pending.extend(ast.iter_child_nodes(node))
    return modules


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package that may declare or import types, by name."""
    trees = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        # The others neither declare types nor import any.
        if "nemo_evaluator" in text or "TypedDict" in text:
            name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
            trees[name] = ast.parse(text)
    return trees


def type_modules() -> set[str]:
    """The modules that only declare types."""
    return {name for name, tree in modules().items() if declares_only_types(tree)}


def test_types_of_stored_json_are_imported_for_checkers_only() -> None:
    types = type_modules()
    loaded = {}
    for name, tree in modules().items():
        imported = runtime_imports(tree) & types
        if imported and name not in types:
            loaded[name] = sorted(imported)
    assert loaded == {}, "import it under TYPE_CHECKING"


def test_the_formats_of_a_run_have_types() -> None:
    owners = {name.removeprefix("nemo_evaluator.") for name in type_modules()}
    assert {"store.journal_record", "store.result_row", "store.bundle_document"} <= owners


def test_an_import_at_run_time_is_found() -> None:
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from nemo_evaluator.store.result_row import ResultRow\n"
        "def f():\n"
        "    from nemo_evaluator.store.bundle_document import BundleDocument\n"
    )
    assert runtime_imports(tree) == {"typing", "nemo_evaluator.store.bundle_document"}
