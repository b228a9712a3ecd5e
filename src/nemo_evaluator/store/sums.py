"""``SHA256SUMS``: what the views of a run held when they were written, in the form that ``sha256sum -c`` reads.

Whoever reads a score asks ``verified`` first, so that a damaged or edited file is named instead of believed. A bundle
says that it was recorded (``MARK``): where an entry is gone, its status is found again from its rows. Files of older
versions and of other tools, which say nothing, are taken as they are.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import file_sha256, files_under, read_regular, write_atomic
from nemo_evaluator.store.layout import PREVIOUS

FILE: Final = "SHA256SUMS"
MEND: Final = (
    "`nel eval resume -o FOLDER` writes the files of a run again from its journals; if the change was meant, remove "
    f"the file's line from {FILE}"
)
# The field of a bundle whose folder has the file.
MARK: Final = "checksums"
_DIFFERS: Final = f"does not match {FILE}: it is damaged, or was changed by hand"
_LINE: Final = re.compile(r"([0-9a-f]{64})  (\S.*)")
# Digests by path, with the time and size of the file for which they hold.
_digests: dict[Path, tuple[int, int, str]] = {}


def record_sums(
    folder: Path, files: Iterable[Path], *, known: dict[Path, str] | None = None
) -> None:
    """Record the digests of files.

    Entries of files that are gone are dropped, others stay.

    Args:
        folder: Where the files are.
        files: The files; those that do not exist are left out.
        known: Digests of files that were hashed while they were written.
    """
    known = known or {}
    sums = {name: digest for name, digest in _read(folder).items() if (folder / name).is_file()}
    for path in files:
        if path.is_file():
            sums[path.name] = known.get(path) or file_sum(path)
    lines = [f"{digest}  {name}\n" for name, digest in sorted(sums.items())]
    write_atomic(folder / FILE, "".join(lines))


def update_sums(folder: Path, files: Iterable[Path]) -> None:
    """Record rewritten files, in a folder that has recorded digests."""
    if (folder / FILE).is_file():
        record_sums(folder, files)


def altered(path: Path) -> bool:
    """True when a file is not what was written, as far as that was recorded."""
    expected = _read(path.parent).get(path.name)
    return expected is not None and expected != file_sum(path)


def untouched(folder: Path) -> frozenset[Path]:
    """The recorded files of a folder if all of them exist and are unchanged; none otherwise."""
    recorded = {folder / name: digest for name, digest in _read(folder).items()}
    whole = all(path.is_file() and file_sum(path) == digest for path, digest in recorded.items())
    if whole:
        return frozenset(recorded)
    return frozenset()


def verified(path: Path) -> Path:
    """The path itself. Raises UsageError when the file is not what was written."""
    if altered(path):
        raise UsageError(f"{path} {_DIFFERS}", hint=MEND)
    return path


def has_entries(folder: Path, files: Iterable[Path]) -> bool:
    """True when each existing file of ``files`` was recorded."""
    recorded = _read(folder)
    return all(path.name in recorded for path in files if path.is_file())


def damaged_files(root: Path) -> list[str]:
    """The damage to the recorded files at and under a folder, a sentence each; empty when there is none."""
    damage = []
    for sums_file in files_under(root, FILE):
        if PREVIOUS in sums_file.relative_to(root).parts:
            continue
        text = sums_file.read_bytes().decode("utf-8", "replace")
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
    """The recorded digests of a folder, by file name; malformed lines are left out."""
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
    """The digest of a file; computed once as long as it does not change."""
    state = path.stat()
    version = (state.st_mtime_ns, state.st_size)
    entry = _digests.get(path)
    if entry is None or entry[:2] != version:
        entry = (*version, file_sha256(path))
        _digests[path] = entry
    return entry[2]
