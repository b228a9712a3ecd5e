"""Packages whose names load on first use: the interpreter and the type checker see the same names."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import nemo_evaluator

_ROOT = Path(nemo_evaluator.__file__).parent
_LAZY = sorted(path for path in _ROOT.rglob("__init__.py") if "lazy_names(" in path.read_text())


def _checked_names(path: Path) -> list[str]:
    """The public names that the ``if TYPE_CHECKING`` block of a package declares."""
    names = []
    for statement in ast.parse(path.read_text()).body:
        if not isinstance(statement, ast.If):
            continue
        for line in statement.body:
            if isinstance(line, ast.Assign):
                names += [target.id for target in line.targets if isinstance(target, ast.Name)]
            elif isinstance(line, ast.ImportFrom):
                names += [alias.asname for alias in line.names if alias.asname is not None]
    return sorted(names)


@pytest.mark.parametrize("path", _LAZY, ids=lambda path: path.parent.name)
def test_names_for_type_checkers_are_those_that_load(path: Path) -> None:
    package = importlib.import_module(".".join(path.parent.relative_to(_ROOT.parent).parts))
    own = [name for name in package.__all__ if name.startswith("__") and name != "__version__"]
    assert sorted([*_checked_names(path), *own]) == package.__all__
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert dir(package) == package.__all__


def test_there_are_lazy_packages() -> None:
    assert len(_LAZY) >= 10


def test_a_name_that_is_not_there_is_missed() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        nemo_evaluator.Nobody  # type: ignore[attr-defined] # noqa: B018
