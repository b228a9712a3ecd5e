"""Hub names, mirror, lock, offline and frozen: where rows come from and whether they stayed the same."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from nemo_evaluator.core.errors import MissingExtraError, UsageError
from nemo_evaluator.datasets import DatasetRef, DataSettings, configure, hub, lock, open_rows
from nemo_evaluator.datasets.lock import read_lock
from nemo_evaluator.datasets.mirror import Mirror, MirrorEntry, write_index


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    before = configure(DataSettings())
    yield
    configure(before)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    folder = tmp_path / "mirror"
    folder.mkdir()
    entries = []
    for config, split, count in (("main", "test", 5), ("main", "train", 3), ("other", "test", 2)):
        text = "".join(json.dumps({"q": f"{config} {split} {i}"}) + "\n" for i in range(count))
        name = f"{config}_{split}.jsonl"
        (folder / name).write_text(text)
        sha = hashlib.sha256(text.encode()).hexdigest()
        entries.append(MirrorEntry("org/data", split, name, count, True, sha, config))
    write_index(folder, entries)
    return folder


def test_uris() -> None:
    assert DatasetRef.parse("hf://org/data?split=val&config=a%20b&revision=x") == DatasetRef(
        "org/data", "a b", "val", "x"
    )
    assert DatasetRef.parse("org/data").split == "test"
    assert list(DatasetRef.parse("hf://d?split=train[:10]").numbers(100)) == list(range(10))
    assert list(DatasetRef.parse("hf://d?split=train[50%:]").numbers(4)) == [2, 3]
    with pytest.raises(UsageError, match="unknown key 'spilt'") as caught:
        DatasetRef.parse("hf://org/data?spilt=test")
    assert caught.value.hint == "did you mean 'split'?"
    with pytest.raises(UsageError, match="does not name a dataset"):
        DatasetRef.parse("hf://")
    with pytest.raises(UsageError, match="cannot read the split"):
        DatasetRef.parse("hf://d?split=train[a:b]")


def test_the_mirror_stands_for_the_hub(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEL_DATA_MIRROR", str(mirror))
    assert [row["q"] for row in open_rows("hf://org/data?config=main&split=test[1:3]")] == [
        "main test 1",
        "main test 2",
    ]
    assert len(open_rows("hf://ORG/data?config=other")) == 2
    assert len(open_rows("hf://org/data?split=train")) == 3


def test_what_the_mirror_lacks_is_an_error_that_says_what_it_has(mirror: Path) -> None:
    configure(mirror=mirror)
    with pytest.raises(UsageError, match=r"config=main split=test") as caught:
        open_rows("hf://org/data?config=main&split=validation")
    assert "nel data mirror" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="has nothing of org/none"):
        open_rows("hf://org/none")
    # Two configs have a test split, so it must be said which.
    with pytest.raises(UsageError, match="does not hold"):
        open_rows("hf://org/data?split=test")


def test_a_damaged_mirror_is_found(mirror: Path) -> None:
    configure(mirror=mirror)
    assert Mirror.read(mirror).verify() == []
    (mirror / "main_test.jsonl").write_text('{"q": "changed"}\n')
    (mirror / "other_test.jsonl").unlink()
    assert len(Mirror.read(mirror).verify()) == 2
    with pytest.raises(UsageError, match="does not match the sha256"):
        open_rows("hf://org/data?config=main")


def test_a_mirror_that_is_no_folder(tmp_path: Path) -> None:
    configure(mirror=tmp_path / "none")
    with pytest.raises(UsageError, match="is not a folder"):
        open_rows("hf://org/data")


def change(mirror: Path, text: str) -> None:
    (mirror / "main_test.jsonl").write_text(text)
    entries = [e for e in Mirror.read(mirror).entries if e.file != "main_test.jsonl"]
    write_index(
        mirror, [*entries, MirrorEntry("org/data", "test", "main_test.jsonl", 1, config="main")]
    )


def test_the_lock_remembers_and_frozen_refuses(
    mirror: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = tmp_path / "lock.json"
    configure(mirror=mirror, lock=lock, frozen=True)
    with pytest.raises(UsageError, match="is not in the lock"):
        open_rows("hf://org/data?config=main")
    configure(frozen=False)
    open_rows("hf://org/data?config=main")
    (entry,) = read_lock(lock).values()
    assert entry.rows == 5
    configure(frozen=True)
    open_rows("hf://org/data?config=main")
    change(mirror, '{"q": "other"}\n')
    with pytest.raises(UsageError, match="has changed since it was locked"):
        open_rows("hf://org/data?config=main")
    configure(frozen=False)
    open_rows("hf://org/data?config=main")
    assert "has changed since it was locked" in caplog.text
    assert read_lock(lock)["hf://org/data?config=main&split=test"].rows == 1


def test_many_datasets_are_locked_with_one_write(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = []
    original = lock.write_lock
    monkeypatch.setattr(lock, "write_lock", lambda *args: (writes.append(1), original(*args)))
    configure(mirror=mirror, lock=tmp_path / "lock.json")
    with lock.one_write():
        open_rows("hf://org/data?config=main")
        open_rows("hf://org/data?config=other")
    assert len(writes) == 1
    assert len(read_lock(tmp_path / "lock.json")) == 2


def test_a_lock_that_is_none(tmp_path: Path, mirror: Path) -> None:
    lock = tmp_path / "lock.json"
    lock.write_text("[]")
    configure(mirror=mirror, lock=lock)
    with pytest.raises(UsageError, match="is not a dataset lock"):
        open_rows("hf://org/data?config=main")


class FakeHub:
    """The two hub libraries, as far as they are used: what is fetched is counted."""

    class Image:
        def __init__(self, decode: bool = True) -> None: ...

    class Audio(Image): ...

    def __init__(self) -> None:
        self.sha = "rev1"
        self.rows: list[dict[str, Any]] = [
            {"q": "a"},
            {"q": "b", "pic": {"path": "p.png", "bytes": b"\x89PNG"}},
        ]
        self.fetched: list[str] = []
        self.error: Exception | None = None

    def HfApi(self) -> FakeHub:
        return self

    def dataset_info(self, repo: str, revision: str | None = None) -> SimpleNamespace:
        if self.error:
            raise self.error
        return SimpleNamespace(sha=revision or self.sha)

    def load_dataset(self, repo: str, config: str | None, split: str, revision: str) -> Any:
        self.fetched.append(revision)

        class Data(list[Any]):
            features: ClassVar[dict[str, Any]] = {}

        return Data(self.rows)


@pytest.fixture
def fake_hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub()
    monkeypatch.setattr(hub, "hub_client", lambda: fake)
    monkeypatch.setattr(hub, "hub_library", lambda: fake)
    return fake


def test_a_hub_split_is_fetched_once_and_pinned(fake_hub: FakeHub) -> None:
    rows = open_rows("hf://org/data?split=test")
    assert rows[0] == {"q": "a"}
    assert rows[1]["pic"] == {"path": "p.png", "bytes_base64": "iVBORw=="}
    fake_hub.sha = "rev2"
    open_rows("hf://org/data?split=test")
    assert fake_hub.fetched == ["rev1"]
    assert read_lock()["hf://org/data?split=test"].revision == "rev1"
    open_rows("hf://org/data?split=test&revision=rev2")
    assert fake_hub.fetched == ["rev1", "rev2"]


def test_offline_uses_the_cache_and_says_what_is_missing(fake_hub: FakeHub) -> None:
    open_rows("hf://org/data")
    configure(offline=True)
    assert len(open_rows("hf://org/data")) == 2
    with pytest.raises(UsageError, match="offline") as caught:
        open_rows("hf://org/else")
    assert "mirror" in (caught.value.hint or "")


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError) as missing:
        open_rows("hf://org/data")
    assert missing.value.hint == 'pip install "nemo-evaluator[all]"'


@pytest.mark.parametrize(
    ("words", "said", "fix"),
    [
        (
            "Dataset 'x' is a gated dataset on the Hub. Visit the page to ask for access.",
            "is gated",
            "HF_TOKEN",
        ),
        (
            "BuilderConfig 'x' not found. Available: ['main', 'socratic']",
            "has no config",
            "main, socratic",
        ),
        ("Unknown split \"x\". Should be one of ['train', 'test'].", "has no split", "train, test"),
        (
            "Dataset 'x' doesn't exist on the Hub or cannot be accessed.",
            "no dataset",
            "huggingface.co",
        ),
        ("Temporary failure in name resolution", "cannot fetch", "mirror"),
        ("500 Server Error (Request ID: 9f401e-a403bc), commit 1404d0", "cannot fetch", "mirror"),
        ("the download of an aggregated file failed", "cannot fetch", "mirror"),
        ("403 Client Error: Forbidden", "is gated", "HF_TOKEN"),
    ],
)
def test_what_the_hub_refuses_comes_with_the_fix(
    fake_hub: FakeHub, words: str, said: str, fix: str
) -> None:
    fake_hub.error = ValueError(words)
    with pytest.raises(UsageError, match=said) as caught:
        open_rows("hf://org/data?config=x&split=x")
    assert fix in (caught.value.hint or "")


def test_a_missing_dataset_is_not_called_gated(fake_hub: FakeHub) -> None:
    class RepositoryNotFoundError(Exception):
        """The hub's library raises this for a name that does not exist."""

    fake_hub.error = RepositoryNotFoundError(
        "401 Client Error. (Request ID: Root=1)\n\nRepository Not Found for url: https://hub/x.\n"
        "If you are trying to access a private or gated repo, make sure you are authenticated."
    )
    with pytest.raises(UsageError, match="no dataset 'org/data' on the hub"):
        open_rows("hf://org/data")
