"""The mirror with an index that also names the files whose form on the hub differs (BBH by task, MMMU-Pro)."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from nemo_evaluator.datasets.mirror import Mirror, MirrorEntry, write_index


@pytest.fixture(scope="session")
def wide_mirror_dir(mirror_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    pictures = "mmmu_pro/with_images_sample.jsonl"
    entries.append(
        MirrorEntry("MMMU/MMMU_Pro", "test", pictures, 6, False, config="standard (10 options)")
    )
    write_index(folder, entries)
    return folder


@pytest.fixture
def wide_mirror(wide_mirror_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That mirror, switched on."""
    monkeypatch.setenv("NEL_DATA_MIRROR", str(wide_mirror_dir))
    return wide_mirror_dir
