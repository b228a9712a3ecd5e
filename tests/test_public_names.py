"""The names of packages whose stub says what loads on first use: all of them are there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import nemo_evaluator

_ROOT = Path(nemo_evaluator.__file__).parent
_STUBS = sorted(_ROOT.rglob("__init__.pyi"))


@pytest.mark.parametrize("stub", _STUBS, ids=lambda stub: stub.parent.name)
def test_every_name_of_a_stub_loads(stub: Path) -> None:
    package = importlib.import_module(".".join(stub.parent.relative_to(_ROOT.parent).parts))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert len(package.__all__) >= stub.read_text().count(" as ") > 0
    assert dir(package) == package.__all__


def test_a_name_that_is_not_there_is_missed() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        nemo_evaluator.Nobody  # type: ignore[attr-defined] # noqa: B018
