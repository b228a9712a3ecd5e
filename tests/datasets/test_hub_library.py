"""The real ``datasets`` library, on a dataset in a local folder: pictures stay bytes, errors carry the fix."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.datasets import DatasetRef, DataSettings, configure, hub

library: Any = pytest.importorskip("datasets")
PICTURE = b"\x89PNG\r\n\x1a\n not decoded"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    client = SimpleNamespace(
        HfApi=lambda: SimpleNamespace(dataset_info=lambda repo, revision: SimpleNamespace(sha="r1"))
    )
    monkeypatch.setattr(hub, "hub_client", lambda: client)
    before = configure(DataSettings())
    yield
    configure(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    features = library.Features(
        {
            "q": library.Value("string"),
            "n": library.Value("int32"),
            "pic": library.Image(),
            "many": [library.Value("string")],
        }
    )
    rows = {
        "q": ["a", "b"],
        "n": [1, 2],
        "pic": [{"bytes": PICTURE, "path": "x.png"}, None],
        "many": [["x"], []],
    }
    library.Dataset.from_dict(rows, features=features).to_parquet(path / "test-00000.parquet")
    return path


def ref(folder: Path, **changes: Any) -> DatasetRef:
    return DatasetRef(str(folder), **changes)


def test_rows_come_through_as_they_are(folder: Path) -> None:
    rows, revision = hub.fetch(ref(folder, split="test"), None)
    assert revision == "r1"
    picture = {"path": "x.png", "bytes_base64": base64.b64encode(PICTURE).decode()}
    assert list(rows) == [
        {"q": "a", "n": 1, "pic": picture, "many": ["x"]},
        {"q": "b", "n": 2, "pic": None, "many": []},
    ]


def test_a_missing_split_and_config_say_what_there_is(folder: Path) -> None:
    with pytest.raises(UsageError, match="has no split 'validation'") as caught:
        hub.fetch(ref(folder, split="validation"), None)
    assert "test" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="has no config 'other'") as caught:
        hub.fetch(ref(folder, config="other"), None)
    assert "default" in (caught.value.hint or "")
