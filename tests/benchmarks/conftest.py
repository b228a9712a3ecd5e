"""The mirror with an index that also names the files whose hub form differs (BBH, BFCL, XSTest, MMMU-Pro, MBPP)."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nel_support import nel as nel

from nemo_evaluator.benchmarks import bfcl, xstest
from nemo_evaluator.datasets.mirror import Mirror, MirrorEntry, write_index


def _bfcl(folder: Path, file: str, remote: str) -> MirrorEntry:
    rows = len((folder / "bfcl" / file).read_text(encoding="utf-8").splitlines())
    return MirrorEntry(f"{bfcl.BASE}/{remote}", "test", f"bfcl/{file}", rows)


@pytest.fixture
def bfcl_categories() -> list[str]:
    """The categories whose rows the mirror holds."""
    return list(bfcl.SELF_TEST.params["categories"])


@pytest.fixture(scope="session")
def full_mirror_dir(mirror_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror folder of links to the real rows."""
    folder = tmp_path_factory.mktemp("mirror")
    entries = list(Mirror.read(mirror_dir).entries)
    for source in mirror_dir.iterdir():
        if source.is_dir():
            (folder / source.name).symlink_to(source)
    tasks: dict[str, list[str]] = defaultdict(list)
    with gzip.open(mirror_dir / "bbh" / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            tasks[json.loads(line)["task"]].append(line)
    for task, lines in tasks.items():
        (folder / f"bbh_{task}.jsonl").write_text("".join(lines), encoding="utf-8")
        entries.append(
            MirrorEntry("lukaemon/bbh", "test", f"bbh_{task}.jsonl", len(lines), config=task)
        )
    add = [
        MirrorEntry(xstest.URL, "test", "xstest/xstest_prompts.csv", 450),
        MirrorEntry(
            "MMMU/MMMU_Pro",
            "test",
            "mmmu_pro/with_images_sample.jsonl",
            6,
            False,
            config="standard (10 options)",
        ),
        MirrorEntry(
            "google-research-datasets/mbpp", "test", "mbpp/sanitized.jsonl", 427, config="sanitized"
        ),
    ]
    for category in bfcl.SELF_TEST.params["categories"]:
        add.append(_bfcl(folder, f"{category}.jsonl", f"BFCL_v4_{category}.json"))
        if category != "irrelevance":
            add.append(
                _bfcl(
                    folder,
                    f"possible_answer/{category}.jsonl",
                    f"possible_answer/BFCL_v4_{category}.json",
                )
            )
    write_index(folder, [*entries, *add])
    return folder


@pytest.fixture
def full_mirror(full_mirror_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That mirror, switched on."""
    monkeypatch.setenv("NEL_DATA_MIRROR", str(full_mirror_dir))
    return full_mirror_dir


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put rows where a hub dataset would be."""
    entries: list[MirrorEntry] = []
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("NEL_DATA_MIRROR", str(folder))

    def put(
        dataset: str, rows: list[dict[str, Any]], split: str = "test", config: str | None = None
    ) -> None:
        name = f"{len(entries)}.jsonl"
        (folder / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
        entries.append(MirrorEntry(dataset, split, name, len(rows), config=config))
        write_index(folder, entries)

    return put
