"""A mirror: a folder that replaces the hub on machines that cannot reach it.

``index.yaml`` maps dataset, config and split to a file::

    version: 1
    datasets:
      - {dataset: openai/gsm8k, config: main, split: test, file: gsm8k.jsonl, rows: 1319, complete: true, sha256: ...}
"""

import shutil
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeAlias

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
# The dataset, the config and the split.
EntryKey: TypeAlias = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class MirrorEntry:
    """One file of a mirror.

    Attributes:
        dataset: The name on the hub, or a URL.
        split: The split in the file.
        file: The path of the file, relative to the mirror.
        rows: How many rows it has.
        complete: Whether these are all rows of the split.
        sha256: The digest of the file, if the index has it.
        config: The config of the dataset, if it has one.
        revision: The commit on the hub, if known.
    """

    dataset: str
    split: str
    file: str
    rows: int
    complete: bool = True
    sha256: str | None = None
    config: str | None = None
    revision: str | None = None

    @property
    def key(self) -> EntryKey:
        """The dataset, the config and the split."""
        return (self.dataset, self.config, self.split)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A mirror folder and its index."""

    folder: Path
    entries: tuple[MirrorEntry, ...]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the index of a mirror folder.

        Raises:
            UsageError: There is no valid index.
        """
        path = folder / INDEX
        if not path.is_file():
            raise UsageError(
                f"{folder} has no {INDEX}",
                hint="fill a mirror with: nel data mirror BENCHMARK --to DIR",
            )
        return cls(folder, _read_index(path, path.stat().st_mtime_ns))

    def find(self, ref: DatasetRef) -> MirrorEntry | None:
        """Return the entry of a dataset; None if there is none. A ``ref`` without a config matches the only config."""
        candidates: list[MirrorEntry] = []
        for entry in self._entries_of(ref):
            if entry.split == ref.split:
                candidates.append(entry)
        for entry in candidates:
            if entry.config == ref.config:
                return entry
        configs = {entry.config for entry in candidates}
        if ref.config is None and len(configs) == 1:
            return candidates[0]
        return None

    def _entries_of(self, ref: DatasetRef) -> list[MirrorEntry]:
        """Return all splits and configs of a dataset."""
        repo = ref.repo.lower()
        return [entry for entry in self.entries if entry.dataset.lower() == repo]

    def open(self, entry: MirrorEntry, source: str) -> Rows:
        """Open the rows of an entry.

        Args:
            entry: The entry.
            source: The name of the dataset in messages.

        Raises:
            UsageError: The file is missing or damaged.
        """
        path = self.folder / entry.file
        problem = _damage(path, entry)
        if problem:
            raise UsageError(
                f"{path}: {problem}", hint=f"check the mirror with: nel data verify {self.folder}"
            )
        return open_file(path, source)

    def missing(self, ref: DatasetRef) -> UsageError:
        """Return the error for a missing dataset; it lists the configs and splits that the mirror has."""
        available: list[str] = []
        for entry in self._entries_of(ref):
            config = f"config={entry.config} " if entry.config else ""
            available.append(f"{config}split={entry.split}")
        if available:
            contents = f"it has {ref.repo} with {', '.join(sorted(available)[:12])}"
        else:
            contents = f"it has nothing of {ref.repo}"
        hint = f"on a connected machine: nel data mirror BENCHMARK --to {self.folder}"
        message = f"the mirror {self.folder} does not hold {ref.key}; {contents}"
        return UsageError(message, hint=hint)

    def verify(self) -> list[str]:
        """Check all files of the mirror.

        Returns:
            The problems; empty if the mirror is intact.
        """
        problems = []
        for entry in self.entries:
            path = self.folder / entry.file
            problem = _damage(path, entry)
            if problem is not None:
                problems.append(f"{entry.file}: {problem}")
                continue
            count = len(open_file(path))
            if count != entry.rows:
                actual_rows = counted(count, "row")
                problems.append(f"{entry.file}: holds {actual_rows}, the index says {entry.rows}")
        return problems


@lru_cache(maxsize=8)
def _read_index(path: Path, changed: int) -> tuple[MirrorEntry, ...]:
    """Return the entries of an index; ``changed``, the time of change, keeps the cache current."""
    try:
        index = load_yaml(path.read_bytes())
        return tuple(MirrorEntry(**entry) for entry in index["datasets"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a mirror index: {error}") from error


def write_index(folder: Path, entries: list[MirrorEntry]) -> None:
    """Write the index of a mirror folder."""
    datasets: list[dict[str, Any]] = []
    for entry in entries:
        fields = asdict(entry)
        datasets.append({key: value for key, value in fields.items() if value is not None})
    index = {"version": 1, "datasets": datasets}
    write_atomic(folder / INDEX, yaml.safe_dump(index, sort_keys=False, allow_unicode=True))


def _damage(path: Path, entry: MirrorEntry) -> str | None:
    """Return what is wrong with the file of an entry; None if it is intact."""
    if not path.is_file():
        return "the file is missing"
    if entry.sha256 and file_sha256(path) != entry.sha256:
        return "the content does not match the sha256 of the index"
    return None


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened hub or web dataset, with everything a mirror needs to store it."""

    ref: DatasetRef
    rows: Rows
    revision: str | None
    complete: bool = True


def fill(folder: Path, opened: Iterable[Opened]) -> list[MirrorEntry]:
    """Write datasets into a mirror folder, as JSON lines.

    Args:
        folder: The mirror. It keeps its other datasets, and loses older copies of the same ones.
        opened: The datasets that benchmarks opened.

    Returns:
        The new entries.
    """
    folder.mkdir(parents=True, exist_ok=True)
    older_entries: list[MirrorEntry] = []
    if (folder / INDEX).exists():
        older_entries = list(Mirror.read(folder).entries)
    added_entries: dict[EntryKey, MirrorEntry] = {}
    for dataset in opened:
        key = (dataset.ref.repo, dataset.ref.config, dataset.ref.split)
        if key in added_entries:
            continue
        added_entries[key] = _stored(folder, dataset)
        older_entries = [entry for entry in older_entries if entry.key != key]
        # Written after each dataset: an interruption loses only the current one.
        write_index(folder, [*older_entries, *added_entries.values()])
    return list(added_entries.values())


def _stored(folder: Path, dataset: Opened) -> MirrorEntry:
    """Write one dataset into a mirror folder and return its entry."""
    ref = dataset.ref
    subset = "-".join(filter(None, (ref.config, ref.split)))
    relative_path = f"{safe_name(ref.repo)[-80:]}/{safe_name(subset)}.jsonl"
    _write(folder / relative_path, dataset.rows)
    return MirrorEntry(
        dataset=ref.repo,
        split=ref.split,
        file=relative_path,
        rows=len(dataset.rows),
        complete=dataset.complete,
        sha256=file_sha256(folder / relative_path),
        config=ref.config,
        revision=dataset.revision,
    )


def _write(target: Path, rows: Rows) -> None:
    """Write rows as JSON lines; copy JSON-lines files unchanged, so that a lock is valid on both machines."""
    with replacing(target) as file:
        if isinstance(rows, JsonlRows):
            with rows.path.open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        else:
            file.writelines(dumps(row) + b"\n" for row in rows)
