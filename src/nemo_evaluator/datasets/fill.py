"""Filling a mirror: the splits that benchmarks opened are written as JSON lines beside an index."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from nemo_evaluator.core.files import dumps, file_sha256, replacing, safe_name
from nemo_evaluator.datasets.base import Rows
from nemo_evaluator.datasets.jsonl import JsonlRows
from nemo_evaluator.datasets.mirror import INDEX, Mirror, MirrorEntry, write_index
from nemo_evaluator.datasets.open import Opened


def fill(folder: Path, opened: Iterable[Opened]) -> list[MirrorEntry]:
    """Add datasets to a mirror folder; what it held before stays, what is the same dataset is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = list(Mirror.read(folder).entries) if (folder / INDEX).exists() else []
    added: dict[tuple[str, str | None, str], MirrorEntry] = {}
    for one in opened:
        ref = one.ref
        key = (ref.repo, ref.config, ref.split)
        if key in added:
            continue
        name = f"{safe_name(ref.repo)[-80:]}/{safe_name('-'.join(filter(None, (ref.config, ref.split))))}.jsonl"
        sha256 = _write(folder / name, one.rows)
        added[key] = MirrorEntry(
            ref.repo, ref.split, name, len(one.rows), one.complete, sha256, ref.config, one.revision
        )
        kept = [entry for entry in kept if (entry.dataset, entry.config, entry.split) != key]
        write_index(folder, [*kept, *added.values()])
    return list(added.values())


def _write(target: Path, rows: Rows) -> str:
    """Write the rows and return the digest of the file. JSON lines are copied as they are, so that a lock made on the
    connected machine holds on the other one."""
    with replacing(target) as file:
        if isinstance(rows, JsonlRows):
            with rows.path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        else:
            file.writelines(dumps(row) + b"\n" for row in rows)
    return file_sha256(target)
