"""A mirror: a folder that stands for the hub where the hub cannot be reached.

``index.yaml`` maps dataset, config and split to a file::

    version: 1
    datasets:
      - {dataset: openai/gsm8k, config: main, split: test, file: gsm8k.jsonl, rows: 1319, complete: true, sha256: ...}
"""

import shutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import yaml

from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, file_sha256, replacing, safe_name, write_atomic
from nemo_evaluator.core.values import asdict, dataclass
from nemo_evaluator.core.wording import counted
from nemo_evaluator.datasets.base import Rows
from nemo_evaluator.datasets.files import open_file
from nemo_evaluator.datasets.jsonl import JsonlRows
from nemo_evaluator.datasets.ref import DatasetRef

INDEX = "index.yaml"


@dataclass(frozen=True, slots=True)
class MirrorEntry:
    """One file of a mirror."""

    dataset: str
    split: str
    file: str
    rows: int
    complete: bool = True
    sha256: str | None = None
    config: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror folder and its index."""

    folder: Path
    entries: tuple[MirrorEntry, ...]

    @classmethod
    def read(cls, folder: Path) -> Self:
        path = folder / INDEX
        if not path.is_file():
            raise UsageError(
                f"{folder} has no {INDEX}",
                hint="fill a mirror with: nel data mirror BENCHMARK --to DIR",
            )
        return cls(folder, _read_index(path, path.stat().st_mtime_ns))

    def find(self, ref: DatasetRef) -> MirrorEntry | None:
        """The entry of a dataset; without a config in ``ref``, the only config there is."""
        same: list[MirrorEntry] = []
        for e in self.entries:
            if e.dataset.lower() == ref.repo.lower() and e.split == ref.split:
                same.append(e)
        exact = [entry for entry in same if entry.config == ref.config]
        if not exact and ref.config is None and len({entry.config for entry in same}) == 1:
            exact = same
        return exact[0] if exact else None

    def open(self, entry: MirrorEntry, source: str) -> Rows:
        """The rows of an entry; a damaged file is an error."""
        path = self.folder / entry.file
        problem = _damage(path, entry)
        if problem:
            raise UsageError(
                f"{path}: {problem}", hint=f"check the mirror with: nel data verify {self.folder}"
            )
        return open_file(path, source)

    def missing(self, ref: DatasetRef) -> UsageError:
        """The error for a dataset that is not here, saying what is."""
        same = [e for e in self.entries if e.dataset.lower() == ref.repo.lower()]
        near = sorted(f"{f'config={e.config} ' if e.config else ''}split={e.split}" for e in same)
        if near:
            have = f"; it has {ref.repo} with {', '.join(near[:12])}"
        else:
            have = f"; it has nothing of {ref.repo}"
        hint = f"on a connected machine: nel data mirror BENCHMARK --to {self.folder}"
        return UsageError(f"the mirror {self.folder} does not hold {ref.key}{have}", hint=hint)

    def verify(self) -> list[str]:
        """Every problem of the mirror, in words; an empty list means that all is well."""
        problems = []
        for entry in self.entries:
            path = self.folder / entry.file
            problem = _damage(path, entry)
            if problem is None:
                count = len(open_file(path))
                if count == entry.rows:
                    problem = None
                else:
                    problem = f"holds {counted(count, 'row')}, the index says {entry.rows}"
            if problem:
                problems.append(f"{entry.file}: {problem}")
        return problems


@lru_cache(maxsize=8)
def _read_index(path: Path, changed: int) -> tuple[MirrorEntry, ...]:
    """The entries of an index, read once per state of the file."""
    try:
        value = load_yaml(path.read_bytes())
        return tuple(MirrorEntry(**entry) for entry in value["datasets"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a mirror index: {error}") from error


def write_index(folder: Path, entries: list[MirrorEntry]) -> None:
    """Write the index of a mirror folder."""
    listed: list[dict[str, Any]] = []
    for entry in entries:
        listed.append({key: value for key, value in asdict(entry).items() if value is not None})
    text = yaml.safe_dump({"version": 1, "datasets": listed}, sort_keys=False, allow_unicode=True)
    write_atomic(folder / INDEX, text)


def _damage(path: Path, entry: MirrorEntry) -> str | None:
    if not path.is_file():
        return "the file is missing"
    if entry.sha256 and file_sha256(path) != entry.sha256:
        return "the content does not match the sha256 of the index"
    return None


@dataclass(frozen=True, slots=True)
class Opened:
    """A hub or web dataset that was opened: what a mirror needs to hold it."""

    ref: DatasetRef
    rows: Rows
    revision: str | None
    complete: bool = True


def fill(folder: Path, opened: Iterable[Opened]) -> list[MirrorEntry]:
    """Write datasets that benchmarks opened into a mirror folder, as JSON lines; what it held before stays, what is the
    same dataset is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / INDEX).exists():
        kept = list(Mirror.read(folder).entries)
    else:
        kept = []
    added: dict[tuple[str, str | None, str], MirrorEntry] = {}
    for one in opened:
        ref = one.ref
        key = (ref.repo, ref.config, ref.split)
        if key in added:
            continue
        name = f"{safe_name(ref.repo)[-80:]}/{safe_name('-'.join(filter(None, (ref.config, ref.split))))}.jsonl"
        _write(folder / name, one.rows)
        about = (len(one.rows), one.complete, file_sha256(folder / name), ref.config, one.revision)
        added[key] = MirrorEntry(ref.repo, ref.split, name, *about)
        kept = [entry for entry in kept if (entry.dataset, entry.config, entry.split) != key]
        write_index(folder, [*kept, *added.values()])
    return list(added.values())


def _write(target: Path, rows: Rows) -> None:
    """JSON lines are copied as they are, so that a lock made on the connected machine holds on the other one."""
    with replacing(target) as file:
        if isinstance(rows, JsonlRows):
            with rows.path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        else:
            file.writelines(dumps(row) + b"\n" for row in rows)
