"""Snapshots of a workspace (path, type, mode and digest of every entry), and the changes between two of them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import tarfile
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox._transfer import Archive, Header
from nemo_evaluator.sandbox.base import Sandbox

Kind: TypeAlias = Literal["file", "folder", "link", "special"]
Change: TypeAlias = Literal["created", "changed", "removed"]
_TIMEOUT: Final = 600.0
_MOST_ENTRIES: Final = 1_000_000
# Of a mode only what makes a difference to who runs a file: archives are unpacked under another umask.
_SPECIAL_BITS: Final = 0o7000
_EXECUTABLE: Final = 0o111
_CHUNK: Final = 1 << 20
_LARGEST_TEXT: Final = _CHUNK


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """One entry of a workspace. ``content`` is the digest of a file, or the target of a link."""

    kind: Kind
    executable: bool
    special_bits: int
    content: str
    # Of small files that are asked for by name.
    text: bytes | None = field(default=None, compare=False, repr=False)


Snapshot: TypeAlias = dict[str, SnapshotEntry]


async def take_snapshot(
    sandbox: Sandbox, folder: str, archive: Path | None = None, texts: frozenset[str] = frozenset()
) -> Snapshot:
    """Read the content of a folder in a sandbox, without following links.

    Args:
        sandbox: where the folder is.
        folder: its path inside.
        archive: where to keep the archive that it was read from.
        texts: names of files whose text is kept, if they are small.

    Raises:
        SandboxError: when the folder cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="nel-snapshot-") as scratch:
        archive = archive or Path(scratch) / "snapshot.tar"
        archive_inside = "/output/nel-snapshot.tar"
        packed = await sandbox.exec(
            workspace.snapshot_command(folder, archive_inside), timeout=_TIMEOUT, cwd="/"
        )
        if not packed.ok:
            raise SandboxError(f"could not read the workspace: {packed.stderr.strip()[-300:]}")
        await sandbox.download(archive_inside, archive)
        await sandbox.exec(f"rm -f {shlex.quote(archive_inside)}", cwd="/")
        return await asyncio.to_thread(read_archive, archive, texts)


def read_archive(archive: Path, texts: frozenset[str] = frozenset()) -> Snapshot:
    """Read the entries of an archive, by path.

    Raises:
        SandboxError: The archive cannot be read.
    """
    entries: Snapshot = {}
    try:
        with Archive.open(archive, mode="r:") as tar:
            while (member := tar.next()) is not None:
                if len(entries) >= _MOST_ENTRIES:
                    raise SandboxError(f"the workspace holds more than {_MOST_ENTRIES} files")
                path = str(PurePosixPath(member.name))
                if path != ".":
                    entries[path] = _entry(tar, member, entries, texts=texts)
    except (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError) as error:
        raise SandboxError(f"could not read the workspace: {error}") from error
    return entries


def _entry(
    tar: tarfile.TarFile, member: tarfile.TarInfo, entries: Snapshot, texts: frozenset[str]
) -> SnapshotEntry:
    """Describe one member of the archive: its kind, its mode and its content."""
    executable = bool(member.mode & _EXECUTABLE)
    special_bits = member.mode & _SPECIAL_BITS
    if member.isdir():
        return SnapshotEntry("folder", executable=False, special_bits=0, content="")
    if member.issym():
        return SnapshotEntry("link", executable=False, special_bits=0, content=member.linkname)
    if member.islnk():
        target = entries.get(str(PurePosixPath(member.linkname)))
        return target or SnapshotEntry(
            "special", executable=executable, special_bits=special_bits, content=member.linkname
        )
    if not member.isreg():
        return SnapshotEntry(
            "special", executable=executable, special_bits=special_bits, content=str(member.type)
        )
    digest = hashlib.sha256()
    content = tar.extractfile(member)
    assert content is not None
    text: bytes | None = None
    while data := content.read(_CHUNK):
        digest.update(data)
        text = data
    keeps_text = PurePosixPath(member.name).name in texts and member.size <= _LARGEST_TEXT
    return SnapshotEntry(
        kind="file",
        executable=executable,
        special_bits=special_bits,
        content=digest.hexdigest(),
        text=(text or b"") if keeps_text else None,
    )


def changes_between(before: Snapshot, after: Snapshot) -> dict[str, Change]:
    """Return every path that differs between two snapshots, and how."""
    changes: dict[str, Change] = {}
    for path, entry in after.items():
        earlier_entry = before.get(path)
        if earlier_entry is None:
            changes[path] = "created"
        elif earlier_entry != entry:
            changes[path] = "changed"
    for path in before:
        if path not in after:
            changes[path] = "removed"
    return changes


def copy_entries(source: Path, target: Path, paths: Collection[str], below: str = "") -> None:
    """Write an archive with some entries of another.

    Args:
        source: The other archive.
        target: The archive to write.
        paths: The entries to copy.
        below: A folder that becomes the root of the new archive.
    """
    selected_paths = set(paths)
    with (
        tarfile.open(source, mode="r:", tarinfo=Header) as tar,
        tarfile.open(target, mode="w") as copy,
    ):
        while (member := tar.next()) is not None:
            path = str(PurePosixPath(member.name))
            if path not in selected_paths:
                continue
            header = tarfile.TarInfo(f"./{path.removeprefix(below).lstrip('/')}")
            header.mode = member.mode
            header.type = member.type
            header.linkname = member.linkname
            if member.isreg() or member.islnk():
                content = tar.extractfile(member)
            else:
                content = None
            if content is not None:
                header.type = tarfile.REGTYPE
                header.linkname = ""
                header.size = content.seek(0, os.SEEK_END)
                content.seek(0)
            copy.addfile(header, content)
