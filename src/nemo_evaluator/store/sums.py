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
_known: dict[Path, tuple[int, int, str]] = {}


def record_sums(
    folder: Path, files: Iterable[Path], *, known: dict[Path, str] | None = None
) -> None:
    """Write down what files of a folder hold; entries of files that are gone are dropped, others stay. ``known`` has
    the digests of files that were hashed while they were written."""
    sums = {name: digest for name, digest in _read(folder).items() if (folder / name).is_file()}
    for path in files:
        if path.is_file():
            sums[path.name] = (known or {}).get(path) or file_sum(path)
    write_atomic(
        folder / FILE, "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    )


def update_sums(folder: Path, files: Iterable[Path]) -> None:
    """Write down what files hold that were written anew, in a folder whose files are recorded."""
    if (folder / FILE).is_file():
        record_sums(folder, files)


def altered(path: Path) -> bool:
    """True when a file is not what was written, as far as that was recorded."""
    expected = _read(path.parent).get(path.name)
    return expected is not None and expected != file_sum(path)


def untouched(folder: Path) -> frozenset[Path]:
    """The recorded files of a folder, when all of them are there and what was written; none otherwise."""
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
    """True when each of some files that is there was recorded."""
    recorded = _read(folder)
    return all(path.name in recorded for path in files if path.is_file())


def damaged_files(root: Path) -> list[str]:
    """What is wrong with the recorded files at and under a folder, a sentence each; empty when nothing is."""
    found = []
    for place in files_under(root, FILE):
        if PREVIOUS in place.relative_to(root).parts:
            continue
        text = place.read_bytes().decode("utf-8", "replace")
        for line in text.splitlines():
            if not _LINE.fullmatch(line):
                found.append(f"{place} is damaged: {line[:80]!r}")
        for name, expected in _read(place.parent).items():
            path = place.parent / name
            if not path.is_file():
                found.append(f"{str(path)!r}, which {place} names, is missing")
            elif file_sum(path) != expected:
                found.append(f"{path} {_DIFFERS}")
    return found


def _read(folder: Path) -> dict[str, str]:
    try:
        text = read_regular(folder / FILE).decode("utf-8", "replace")
    except OSError:
        return {}
    return {match[2]: match[1] for line in text.splitlines() if (match := _LINE.fullmatch(line))}


def file_sum(path: Path) -> str:
    """The digest of a file; computed once as long as it does not change."""
    state = path.stat()
    seen = _known.get(path)
    if seen is None or seen[:2] != (state.st_mtime_ns, state.st_size):
        seen = _known[path] = (state.st_mtime_ns, state.st_size, file_sha256(path))
    return seen[2]
