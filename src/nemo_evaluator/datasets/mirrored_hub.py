"""The mirror for other packages: what they load with ``datasets.load_dataset`` comes from it where it holds that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.hub import hub_library
from nemo_evaluator.datasets.mirror import Mirror, MirrorEntry
from nemo_evaluator.datasets.ref import DatasetRef
from nemo_evaluator.datasets.settings import mirror_dir

# Datasets of which a mirror keeps all configs in one file: the column that tells them apart.
_CONFIG_COLUMN = "subject"


@contextmanager
def mirrored_hub() -> Iterator[None]:
    """While this is open, ``datasets.load_dataset`` looks into the mirror first, if one is set."""
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
        found = _entries(mirror, path, name)
        if not found:
            return original(path, name, *others, split=split, **more)
        if split is not None:
            wanted: DatasetRef | None = DatasetRef(path).with_split(split)
        else:
            wanted = None
        splits: dict[str, Any] = {}
        for entry in found:
            if wanted is None or entry.split == wanted.split:
                splits[entry.split] = library.Dataset.from_list(_rows(mirror, entry, name))
        if wanted is None:
            return library.DatasetDict(splits)
        if wanted.split not in splits:
            raise mirror.missing(DatasetRef(path, name, wanted.split))
        whole = splits[wanted.split]
        return whole.select(wanted.numbers(len(whole)))

    library.load_dataset = load_dataset
    try:
        yield
    finally:
        library.load_dataset = original


def _entries(mirror: Mirror, path: str, config: str | None) -> list[MirrorEntry]:
    """The splits of a dataset, by its name with or without the owner."""
    named: list[MirrorEntry] = []
    for e in mirror.entries:
        if path.lower() in (e.dataset.lower(), e.dataset.lower().rpartition("/")[2]):
            named.append(e)
    exact = [entry for entry in named if entry.config == config]
    only = {entry.config for entry in named}
    whole = [entry for entry in named if entry.config == "all"]
    return (
        exact or whole or (named if len(only) == 1 and (config is None or only == {None}) else [])
    )


def _rows(mirror: Mirror, entry: MirrorEntry, config: str | None) -> list[JsonDict]:
    rows = _all_rows(mirror, entry)
    chosen = config not in (None, entry.config) and entry.config == "all"
    if chosen:
        return [row for row in rows if row.get(_CONFIG_COLUMN) == config]
    return rows


@lru_cache(maxsize=4)
def _all_rows(mirror: Mirror, entry: MirrorEntry) -> list[JsonDict]:
    """All rows of a file, kept while its configs are loaded one after another."""
    return list(mirror.open(entry, entry.dataset))
