"""A mirror: a folder that stands for the hub where the hub cannot be reached.

``index.yaml`` maps dataset, config and split to a file::

    version: 1
    datasets:
      - {dataset: openai/gsm8k, config: main, split: test, file: gsm8k.jsonl, rows: 1319, complete: true, sha256: ...}
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import yaml

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import file_sha256, write_atomic
from nemo_evaluator.core.values import asdict, dataclass
from nemo_evaluator.core.wording import counted
from nemo_evaluator.datasets.base import Rows
from nemo_evaluator.datasets.files import open_file
from nemo_evaluator.datasets.ref import DatasetRef

INDEX = "index.yaml"
# The same loader in C, ten times as fast, wherever PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
        """Read the index of a folder."""
        path = folder / INDEX
        if not path.is_file():
            raise UsageError(f"{folder} has no {INDEX}", hint="fill a mirror with: nel data mirror BENCHMARK --to DIR")
        return cls(folder, _read_index(path, path.stat().st_mtime_ns))

    def find(self, ref: DatasetRef) -> MirrorEntry | None:
        """The entry of a dataset; without a config in ``ref``, the only config there is."""
        same = [e for e in self.entries if e.dataset.lower() == ref.repo.lower() and e.split == ref.split]
        exact = [entry for entry in same if entry.config == ref.config]
        if not exact and ref.config is None and len({entry.config for entry in same}) == 1:
            exact = same
        return exact[0] if exact else None

    def open(self, entry: MirrorEntry, source: str) -> Rows:
        """The rows of an entry; a damaged file is an error."""
        path = self.folder / entry.file
        problem = _damage(path, entry)
        if problem:
            raise UsageError(f"{path}: {problem}", hint=f"check the mirror with: nel data verify {self.folder}")
        return open_file(path, source)

    def missing(self, ref: DatasetRef) -> UsageError:
        """The error for a dataset that is not here, saying what is."""
        near = sorted(
            f"{f'config={e.config} ' if e.config else ''}split={e.split}"
            for e in self.entries
            if e.dataset.lower() == ref.repo.lower()
        )
        have = f"; it has {ref.repo} with {', '.join(near[:12])}" if near else f"; it has nothing of {ref.repo}"
        return UsageError(
            f"the mirror {self.folder} does not hold {ref.key}{have}",
            hint=f"on a connected machine: nel data mirror BENCHMARK --to {self.folder}",
        )

    def verify(self) -> list[str]:
        """Every problem of the mirror, in words; an empty list means that all is well."""
        problems = []
        for entry in self.entries:
            path = self.folder / entry.file
            problem = _damage(path, entry)
            if problem is None:
                count = len(open_file(path))
                problem = None if count == entry.rows else f"holds {counted(count, 'row')}, the index says {entry.rows}"
            if problem:
                problems.append(f"{entry.file}: {problem}")
        return problems


@lru_cache(maxsize=8)
def _read_index(path: Path, changed: int) -> tuple[MirrorEntry, ...]:
    """The entries of an index, read once per state of the file."""
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - a safe loader
        return tuple(MirrorEntry(**entry) for entry in value["datasets"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a mirror index: {error}") from error


def write_index(folder: Path, entries: list[MirrorEntry]) -> None:
    """Write the index of a mirror folder."""
    listed: list[dict[str, Any]] = [
        {key: value for key, value in asdict(entry).items() if value is not None} for entry in entries
    ]
    text = yaml.safe_dump({"version": 1, "datasets": listed}, sort_keys=False, allow_unicode=True)
    write_atomic(folder / INDEX, text)


def _damage(path: Path, entry: MirrorEntry) -> str | None:
    if not path.is_file():
        return "the file is missing"
    if entry.sha256 and file_sha256(path) != entry.sha256:
        return "the content does not match the sha256 of the index"
    return None
