"""The archive of an agent's work, rewritten with plain content before another sandbox unpacks it.

Programs that the agent may have replaced packed the archive, so it may hold anything: names that lead out of the
workspace, files behind links, devices, setuid programs. nel copies only what a workspace can legitimately hold.
"""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, Final

from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.sandbox._transfer import Archive, Header

ARCHIVE: Final = "workspace.tar"
_FILES: Final = "_nel_files.tar"
_PARTS: Final = ("_nel_mode", "_nel_patch.diff", _FILES)
_PLAIN_MODE: Final = 0o777
_MOST_ENTRIES: Final = 1_000_000
_DAMAGED: Final = (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError)


def clean_archive(archive: Path) -> None:
    """Rewrite an archive of ``capture.sh`` with plain content only.

    Raises TamperError for one that no capture writes.
    """
    clean_copy = archive.with_suffix(".clean")
    try:
        with (
            tarfile.open(archive, mode="r:", tarinfo=Header) as source,
            tarfile.open(clean_copy, mode="w") as target,
        ):
            for member in source:
                _add_part(source, member, target, scratch=clean_copy.parent)
    except _DAMAGED as error:
        clean_copy.unlink(missing_ok=True)
        raise TamperError(
            f"the work of the agent arrived in an archive that cannot be used: {error}"
        ) from error
    clean_copy.replace(archive)


def _add_part(
    source: tarfile.TarFile, member: tarfile.TarInfo, target: tarfile.TarFile, scratch: Path
) -> None:
    """Copy one part of the archive; the archive of files is rewritten, and any other member is left out."""
    name = str(PurePosixPath(member.name))
    if name not in _PARTS or not member.isreg():
        return
    content = source.extractfile(member)
    assert content is not None
    if name != _FILES:
        _write(target, name, content, size=member.size)
        return
    files_archive = scratch / "files.clean"
    try:
        with files_archive.open("wb+") as file:
            _copy_files(content, file)
            size = file.tell()
            file.seek(0)
            _write(target, name, file, size=size)
    finally:
        files_archive.unlink(missing_ok=True)


def _write(target: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    header = tarfile.TarInfo(name)
    header.size = size
    target.addfile(header, content)


def _copy_files(content: IO[bytes], file: IO[bytes]) -> None:
    """Copy folders, plain files and links.

    Everything else is left out, and so are members behind a link and the repository.
    """
    links: set[PurePosixPath] = set()
    files: set[PurePosixPath] = set()
    count = 0
    source = Archive.open(fileobj=content, mode="r:")
    target = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed below
    with source, target:
        while (member := source.next()) is not None:
            count += 1
            if count > _MOST_ENTRIES:
                raise tarfile.TarError(f"more than {_MOST_ENTRIES} files")
            path = _path_of(member.name)
            # The workspace itself exists already, and may belong to another user: its mode is not part of the work.
            if path is None or not path.parts or path.parts[0] == ".git":
                continue
            if any(parent in links for parent in path.parents):
                continue
            if member.islnk() and _path_of(member.linkname) not in files:
                continue
            _copy_entry(source, member, path, target=target)
            links.discard(path)
            if member.issym():
                links.add(path)
            elif not member.isdir():
                files.add(path)


def _path_of(name: str) -> PurePosixPath | None:
    """A name as a path below the workspace; None when it leads out of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return None
    return path


def _copy_entry(
    source: tarfile.TarFile, member: tarfile.TarInfo, path: PurePosixPath, target: tarfile.TarFile
) -> None:
    """Copy one folder, file or link, without its owner and without special mode bits."""
    header = tarfile.TarInfo(f"./{path}")
    header.mode = member.mode & _PLAIN_MODE
    header.mtime = member.mtime
    header.type = member.type
    if member.isreg():
        header.type = tarfile.REGTYPE
        header.size = member.size
        target.addfile(header, source.extractfile(member))
    elif member.isdir():
        target.addfile(header)
    elif member.issym():
        header.linkname = member.linkname
        target.addfile(header)
    elif member.islnk():
        header.linkname = f"./{PurePosixPath(member.linkname)}"
        target.addfile(header)
