"""Which tests ``make affected`` runs for a change."""

from __future__ import annotations

import importlib.util
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def affected() -> ModuleType:
    spec = importlib.util.spec_from_file_location("affected", ROOT / "scripts" / "affected.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folders_for(affected: ModuleType, *changed: str) -> list[str]:
    result: list[str] = affected.affected_tests([PurePosixPath(path) for path in changed], ROOT)
    return result


def test_a_low_package_affects_all_above_it(affected: ModuleType) -> None:
    tests = folders_for(affected, "src/nemo_evaluator/store/journal.py")
    assert {"tests/store", "tests/engine", "tests/cli", "tests/e2e"} <= set(tests)
    assert "tests/core" not in tests


def test_a_high_package_does_not_affect_those_below_it(affected: ModuleType) -> None:
    tests = folders_for(affected, "src/nemo_evaluator/view/server.py")
    assert "tests/view" in tests
    assert not {"tests/core", "tests/scoring", "tests/models"} & set(tests)


def test_a_changed_test_affects_itself_only(affected: ModuleType) -> None:
    assert folders_for(affected, "tests/core/test_glossary.py", "tests/core/test_wording.py") == [
        path
        for path in ("tests/core/test_glossary.py", "tests/core/test_wording.py")
        if (ROOT / path).exists()
    ]


def test_docs_affect_the_tests_of_docs(affected: ModuleType) -> None:
    assert folders_for(affected, "docs/view.md") == ["tests/docs"]


@pytest.mark.parametrize("path", ["pyproject.toml", "scripts/parts.sh", "tests/conftest.py"])
def test_what_every_test_uses_affects_every_test(affected: ModuleType, path: str) -> None:
    assert folders_for(affected, path) == ["tests"]
