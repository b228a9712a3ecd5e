"""The mirror for other libraries: ``datasets.load_dataset`` reads a dataset from the mirror if the mirror has it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.hub import hub_library
from nemo_evaluator.datasets.mirror import Mirror, MirrorEntry
from nemo_evaluator.datasets.ref import DatasetRef
from nemo_evaluator.datasets.settings import mirror_dir

# The column with the name of the config, in datasets whose configs a mirror stores in one file.
_CONFIG_COLUMN = "subject"


@contextmanager
def mirrored_hub() -> Iterator[None]:
    """Make ``datasets.load_dataset`` search the mirror first, if one is set, inside the block."""
    folder = mirror_dir()
    if folder is None:
        yield
        return
    library = hub_library()
    mirror = Mirror.read(folder)
    original: Callable[..., Any] = library.load_dataset

    def load_dataset(
        path: str, name: str | None = None, *others: Any, split: str | None = None, **more: Any
    ) -> Any:
        entries = _entries(mirror, path, name)
        if not entries:
            return original(path, name, *others, split=split, **more)
        if split is None:
            return _all_splits(library, mirror, entries, name)
        ref = DatasetRef(path, name).with_split(split)
        return _one_split(library, mirror, entries, ref)

    library.load_dataset = load_dataset
    try:
        yield
    finally:
        library.load_dataset = original


def _all_splits(
    library: Any, mirror: Mirror, entries: list[MirrorEntry], config: str | None
) -> Any:
    """Return a ``DatasetDict`` of some entries."""
    splits: dict[str, Any] = {}
    for entry in entries:
        splits[entry.split] = library.Dataset.from_list(_rows(mirror, entry, config))
    return library.DatasetDict(splits)


def _one_split(library: Any, mirror: Mirror, entries: list[MirrorEntry], ref: DatasetRef) -> Any:
    """Return the ``Dataset`` of a split, or of a slice of it; raise UsageError if the mirror does not have it."""
    matching = [entry for entry in entries if entry.split == ref.split]
    if not matching:
        raise mirror.missing(DatasetRef(ref.repo, ref.config, ref.split))
    dataset = library.Dataset.from_list(_rows(mirror, matching[-1], ref.config))
    return dataset.select(ref.numbers(len(dataset)))


def _entries(mirror: Mirror, path: str, config: str | None) -> list[MirrorEntry]:
    """Return the mirror's splits of a dataset.

    Args:
        mirror: The mirror.
        path: The name of the dataset, with or without the owner.
        config: The config; None for the default.

    Returns:
        The entries of this config; else those with all configs in one file; else those of the only config.
    """
    entries_by_config: dict[str | None, list[MirrorEntry]] = {}
    for entry in mirror.entries:
        dataset = entry.dataset.lower()
        if path.lower() in (dataset, dataset.rpartition("/")[2]):
            entries_by_config.setdefault(entry.config, []).append(entry)
    for wanted in (config, "all"):
        if wanted in entries_by_config:
            return entries_by_config[wanted]
    if len(entries_by_config) == 1:
        only_config = next(iter(entries_by_config))
        if config is None or only_config is None:
            return entries_by_config[only_config]
    return []


def _rows(mirror: Mirror, entry: MirrorEntry, config: str | None) -> list[JsonDict]:
    """Return the rows of an entry; from a file with all configs, only those of the given config."""
    rows = _all_rows(mirror, entry)
    is_combined = entry.config == "all" and config not in (None, "all")
    if is_combined:
        return [row for row in rows if row.get(_CONFIG_COLUMN) == config]
    return rows


@lru_cache(maxsize=4)
def _all_rows(mirror: Mirror, entry: MirrorEntry) -> list[JsonDict]:
    """Return all rows of a file, cached while its configs are loaded one after another."""
    return list(mirror.open(entry, entry.dataset))
