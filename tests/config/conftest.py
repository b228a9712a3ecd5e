"""Every test has a config home of its own and knows which variables are set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config_home")))
    monkeypatch.delenv("NEL_DATA_MIRROR", raising=False)
    monkeypatch.delenv("NEL_INNER_EXECUTION", raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write files into a fresh folder and return the path of the first."""

    def _write(**files: str) -> Path:
        for name, text in files.items():
            target = tmp_path / (name.replace("__", "/") + ".yaml")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return tmp_path / (next(iter(files)).replace("__", "/") + ".yaml")

    return _write
