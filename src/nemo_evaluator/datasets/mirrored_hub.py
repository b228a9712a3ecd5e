"""The mirror for other packages: ``datasets.load_dataset`` reads a dataset from the mirror when the mirror has it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.hub import hub_library
from nemo_evaluator.datasets.mirror import Mirror, MirrorEntry
from nemo_evaluator.datasets.ref import DatasetRef
from nemo_evaluator.datasets.settings import mirror_dir

# The column with the config, in datasets whose configs a mirror keeps in one file.
_CONFIG_COLUMN = "subject"


@contextmanager
def mirrored_hub() -> Iterator[None]:
    """Make ``datasets.load_dataset`` search the mirror first, if one is set, during the block."""
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
    """The ``DatasetDict`` of some entries."""
    splits: dict[str, Any] = {}
    for entry in entries:
        splits[entry.split] = library.Dataset.from_list(_rows(mirror, entry, config))
    return library.DatasetDict(splits)


def _one_split(library: Any, mirror: Mirror, entries: list[MirrorEntry], ref: DatasetRef) -> Any:
    """The ``Dataset`` of a split, or of a slice of it; raises UsageError when the mirror does not have it."""
    matching = [entry for entry in entries if entry.split == ref.split]
    if not matching:
        raise mirror.missing(DatasetRef(ref.repo, ref.config, ref.split))
    whole = library.Dataset.from_list(_rows(mirror, matching[-1], ref.config))
    return whole.select(ref.numbers(len(whole)))


def _entries(mirror: Mirror, path: str, config: str | None) -> list[MirrorEntry]:
    """The splits of a dataset, by its name with or without the owner.

    Returns:
        The entries of this config; else those of all configs in one file; else those of the only config.
    """
    named: list[MirrorEntry] = []
    for entry in mirror.entries:
        dataset = entry.dataset.lower()
        if path.lower() in (dataset, dataset.rpartition("/")[2]):
            named.append(entry)
    exact = [entry for entry in named if entry.config == config]
    if exact:
        return exact
    combined = [entry for entry in named if entry.config == "all"]
    if combined:
        return combined
    configs = {entry.config for entry in named}
    if len(configs) == 1 and (config is None or configs == {None}):
        return named
    return []


def _rows(mirror: Mirror, entry: MirrorEntry, config: str | None) -> list[JsonDict]:
    """The rows of an entry; of one file with all configs, those of one config."""
    rows = _all_rows(mirror, entry)
    is_combined = entry.config == "all" and config not in (None, "all")
    if is_combined:
        return [row for row in rows if row.get(_CONFIG_COLUMN) == config]
    return rows


@lru_cache(maxsize=4)
def _all_rows(mirror: Mirror, entry: MirrorEntry) -> list[JsonDict]:
    """All rows of a file, kept while its configs are loaded one after another."""
    return list(mirror.open(entry, entry.dataset))
