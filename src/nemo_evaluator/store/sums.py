"""``SHA256SUMS``: the digests of a run's result files, in the format of ``sha256sum -c``.

Code that reads a score calls ``verified`` first, so that a damaged or edited file is reported instead of trusted. A
bundle notes that digests were recorded (``MARK``); if its entry is missing, the status is recomputed from the rows.
Files of older versions and other tools have no such note and are accepted as they are.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import file_sha256, files_under, read_regular, write_atomic
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.store.layout import PREVIOUS

FILE: Final = "SHA256SUMS"
MEND: Final = (
    "`nel eval resume -o FOLDER` writes the files of a run again from its journals; if the change was meant, remove "
    f"the file's line from {FILE}"
)
# The bundle field that says that the folder has this file.
MARK: Final = "checksums"
_DIFFERS: Final = f"does not match {FILE}: it is damaged, or was changed by hand"
_LINE: Final = re.compile(r"([0-9a-f]{64})  (\S.*)")


@dataclass(frozen=True, slots=True)
class _ComputedSum:
    """The digest of a file, and the modification time and size that the file had."""

    modified: int
    size: int
    digest: str


_computed_sums: dict[Path, _ComputedSum] = {}


def record_sums(
    folder: Path, files: Iterable[Path], *, known: dict[Path, str] | None = None
) -> None:
    """Record the digests of files; drops entries of files that no longer exist.

    Args:
        folder: The folder of the files.
        files: The files; missing ones are skipped.
        known: Digests that were computed while the files were written.
    """
    computed_digests = known or {}
    sums: dict[str, str] = {}
    for name, digest in _read(folder).items():
        if (folder / name).is_file():
            sums[name] = digest
    for path in files:
        if path.is_file():
            sums[path.name] = computed_digests.get(path) or file_sum(path)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    write_atomic(folder / FILE, "".join(lines))


def update_sums(folder: Path, files: Iterable[Path]) -> None:
    """Record the digests of rewritten files if the folder has recorded digests."""
    if (folder / FILE).is_file():
        record_sums(folder, files)


def altered(path: Path) -> bool:
    """Return whether a file differs from its recorded digest; False without a record."""
    expected = _read(path.parent).get(path.name)
    return expected is not None and expected != file_sum(path)


def untouched(folder: Path) -> frozenset[Path]:
    """Return the recorded files of a folder if all of them exist and are unchanged, otherwise an empty set."""
    paths: list[Path] = []
    for name, digest in _read(folder).items():
        path = folder / name
        if not path.is_file() or file_sum(path) != digest:
            return frozenset()
        paths.append(path)
    return frozenset(paths)


def verified(path: Path) -> Path:
    """Return the path itself after checking its digest.

    Raises:
        UsageError: The file differs from its recorded digest.
    """
    if altered(path):
        raise UsageError(f"{path} {_DIFFERS}", hint=MEND)
    return path


def has_entries(folder: Path, files: Iterable[Path]) -> bool:
    """Return whether every existing file of ``files`` has a recorded digest."""
    recorded = _read(folder)
    return all(path.name in recorded for path in files if path.is_file())


def damaged_files(root: Path) -> list[str]:
    """Describe each damaged recorded file at or under a folder; empty if there are none."""
    damage = []
    for sums_file in files_under(root, FILE):
        if PREVIOUS in sums_file.relative_to(root).parts:
            continue
        try:
            text = read_regular(sums_file).decode("utf-8", "replace")
        except OSError as error:
            damage.append(f"{sums_file} cannot be read: {error.strerror}")
            continue
        for line in text.splitlines():
            if not _LINE.fullmatch(line):
                damage.append(f"{sums_file} is damaged: {line[:80]!r}")
        for name, expected in _read(sums_file.parent).items():
            path = sums_file.parent / name
            if not path.is_file():
                damage.append(f"{str(path)!r}, which {sums_file} names, is missing")
            elif file_sum(path) != expected:
                damage.append(f"{path} {_DIFFERS}")
    return damage


def _read(folder: Path) -> dict[str, str]:
    """Return the recorded digests of a folder by file name; malformed lines are skipped."""
    try:
        text = read_regular(folder / FILE).decode("utf-8", "replace")
    except OSError:
        return {}
    digests: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            digests[match[2]] = match[1]
    return digests


def file_sum(path: Path) -> str:
    """Return the digest of a file; computed again only after the file has changed."""
    state = path.stat()
    computed = _computed_sums.get(path)
    if computed is None or computed.modified != state.st_mtime_ns or computed.size != state.st_size:
        computed = _ComputedSum(state.st_mtime_ns, state.st_size, file_sha256(path))
        _computed_sums[path] = computed
    return computed.digest
