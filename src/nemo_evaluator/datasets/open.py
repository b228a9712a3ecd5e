"""Open a dataset by its name."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secret_values import public_url
from nemo_evaluator.core.secrets import remember_urls
from nemo_evaluator.datasets import lock
from nemo_evaluator.datasets.base import ListRows, PickedRows, Rows
from nemo_evaluator.datasets.files import SUFFIXES, open_file
from nemo_evaluator.datasets.lock import LockEntry
from nemo_evaluator.datasets.mirror import Mirror, Opened
from nemo_evaluator.datasets.ref import DatasetRef
from nemo_evaluator.datasets.settings import mirror_dir

_log = logging.getLogger(__name__)
_LOOKS_LIKE_PATH = re.compile(r"^[./~]|\\|\.[A-Za-z0-9]{2,7}(\.gz)?$|/.*/")
_recorders: list[list[Opened]] = []


@contextmanager
def recording() -> Iterator[list[Opened]]:
    """Record the hub and web datasets that are opened inside the block."""
    opened: list[Opened] = []
    _recorders.append(opened)
    try:
        yield opened
    finally:
        _recorders.remove(opened)


def open_rows(dataset: str | Path | DatasetRef, base: Path | None = None) -> Rows:
    """Open a dataset.

    Args:
        dataset: ``hf://...``, ``https://...``, a path, or a name on the hub.
        base: A second folder for relative paths.

    Raises:
        UsageError: The dataset does not exist, or cannot be read.
    """
    if isinstance(dataset, DatasetRef):
        return open_ref(dataset)
    name = str(dataset)
    if name.startswith("hf://"):
        return open_ref(DatasetRef.parse(name))
    if name.startswith(("http://", "https://")):
        return open_url(name)
    candidates = [Path(name).expanduser()]
    searched_folders = {str(Path.cwd())}
    if base:
        candidates.append(base / name)
        searched_folders.add(str(base))
    for candidate in candidates:
        if candidate.is_file():
            return open_file(candidate)
    if isinstance(dataset, Path) or _looks_like_file(name):
        folders = " and ".join(sorted(searched_folders))
        hint = f"looked in {folders}; a hub dataset is written hf://owner/name?split=..."
        raise UsageError(f"dataset file {name} does not exist", hint=hint)
    return open_ref(DatasetRef.parse(name))


def _looks_like_file(name: str) -> bool:
    """Return whether a name looks like a path or ends with a known file suffix."""
    path = name.partition("?")[0]
    return _LOOKS_LIKE_PATH.search(path) is not None or name.lower().endswith(SUFFIXES)


def open_ref(ref: DatasetRef) -> Rows:
    """Open a hub dataset, from the mirror if one is set, else from the hub, and check it against the lock.

    Raises:
        UsageError: The dataset does not exist, cannot be fetched, or violates a frozen lock.
    """
    folder = mirror_dir()
    if folder is not None:
        opened = _open_mirrored(Mirror.read(folder), ref)
        origin = "mirror"
    else:
        opened = _open_from_hub(ref)
        origin = "hub"
    rows = opened.rows
    _record(opened)
    lock.check(ref.key, LockEntry(rows.content_hash(), len(rows), opened.revision, origin=origin))
    if ref.part is None:
        return rows
    return PickedRows(rows, ref.numbers(len(rows)))


def _open_mirrored(mirror: Mirror, ref: DatasetRef) -> Opened:
    """Open a hub dataset from a mirror, which may hold only a part of it."""
    entry = mirror.find(ref)
    if entry is None:
        raise mirror.missing(ref)
    rows = mirror.open(entry, ref.key)
    if not entry.complete:
        _log.warning("%s: the mirror holds a part of it (%s rows)", ref.key, f"{len(rows):,}")
    return Opened(ref, rows, entry.revision, complete=entry.complete)


def _open_from_hub(ref: DatasetRef) -> Opened:
    """Open a dataset from the hub or its cache, in the locked revision if ``ref`` names none."""
    # Imported here because it loads an HTTP client, which local datasets do not need.
    from nemo_evaluator.datasets.hub import fetch  # noqa: PLC0415

    wanted_revision = ref.revision
    locked = lock.read_lock().get(ref.key)
    if not wanted_revision and locked:
        wanted_revision = locked.revision
    rows, revision = fetch(ref, wanted_revision)
    return Opened(ref, rows, revision)


def open_url(url: str, fetch: Callable[[str], Rows] | None = None) -> Rows:
    """Open a file on the web, from the mirror if one is set, else from the web, and check it against the lock.

    Args:
        url: The URL; the mirror and the lock know the file by its URL without secrets.
        fetch: Downloads and opens the file; None for the default.

    Raises:
        UsageError: The file cannot be fetched, is not in the mirror, or violates a frozen lock.
    """
    remember_urls(url)
    name = public_url(url)
    folder = mirror_dir()
    if folder:
        rows = _mirrored_url(Mirror.read(folder), name)
        origin = "mirror"
    else:
        rows = (fetch or _fetch_url)(url)
        origin = "url"
    _record(Opened(DatasetRef(name), rows, None))
    lock.check(name, LockEntry(rows.content_hash(), len(rows), None, origin=origin))
    return rows


def _fetch_url(url: str) -> Rows:
    from nemo_evaluator.datasets.hub import fetch_url  # noqa: PLC0415 - as above

    return fetch_url(url)


def _mirrored_url(mirror: Mirror, url: str) -> Rows:
    """Open a web file from a mirror: by its URL, else a file with the same name."""
    for entry in mirror.entries:
        if entry.dataset == url:
            return mirror.open(entry, url)
    # A file that a user copied into the mirror is named as in the URL.
    file_name = url.rpartition("/")[2]
    copies = [path for path in mirror.folder.glob("*/*") if path.name == file_name]
    if len(copies) == 1:
        return open_file(copies[0], url)
    hint = f"on a connected machine: nel data mirror BENCHMARK --to {mirror.folder}"
    raise UsageError(f"the mirror {mirror.folder} does not hold {url}", hint=hint)


def _record(opened: Opened) -> None:
    """Add a dataset to the active recordings."""
    for record in _recorders:
        record.append(opened)


def as_rows(value: Any, source: str = "") -> Rows:
    """Convert the result of a dataset function to rows.

    Args:
        value: Rows, a list, a generator, or a hub ``Dataset``.
        source: Where the rows come from, for messages.
    """
    if isinstance(value, Rows):
        return value
    return ListRows(value, source)
