"""Files in and out of a sandbox: one tar stream with digests; what a sandbox sends is checked before it is unpacked."""

import asyncio
import hashlib
import io
import logging
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, NoReturn, Self

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox.base import Exit
from nemo_evaluator.sandbox.workspace import script

log = logging.getLogger(__name__)
TIMEOUT: Final = 600.0
MAX_DOWNLOAD: Final = 16 * 2**30
_MAX_MEMBERS: Final = 1_000_000
_CHUNK: Final = 1 << 20
# The member of an upload that lists the digests of the others.
_SUMS: Final = ".nel-sums"
# Runs a command inside: (its argument list, stdin, callback for its stdout, timeout) -> (its end, its stderr).
Pipe = Callable[
    [list[str], IO[bytes] | None, Callable[[bytes], object] | None, float],
    Awaitable[tuple[Exit, str]],
]
# Long names and extended attributes; the library reads such a header whole.
_LARGEST_HEADER: Final = 1 << 20
_EXTENDED: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
# What reading a hostile archive may raise. The last three come from the library itself: names with a NUL, huge sizes,
# nested headers.
_ARCHIVE_ERRORS: Final = (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError)


class Header(tarfile.TarInfo):
    """A member's header.

    Reading one raises ``TarError`` when it claims too large a size, or when it is sparse: a few bytes of a sparse file
    can stand for terabytes, and no tar that nel starts writes them.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header.

        Raises:
            TarError: Its size is negative or too large, or the member is sparse.
        """
        header = super().frombuf(buf, encoding, errors)
        if header.type == tarfile.GNUTYPE_SPARSE:
            _refuse()
        is_large_header = header.type in _EXTENDED and header.size > _LARGEST_HEADER
        if header.size < 0 or is_large_header:
            raise tarfile.TarError(f"a header with a size of {header.size} bytes")
        return header

    def _apply_pax_info(self, pax_headers: dict[str, str], encoding: str, errors: str) -> None:
        # Before the library reads a map of holes, and before it takes a size from here.
        is_sparse = any(name.startswith("GNU.sparse") for name in pax_headers)
        is_negative = pax_headers.get("size", "0").startswith("-")
        if is_sparse or is_negative:
            _refuse()
        super()._apply_pax_info(pax_headers, encoding, errors)  # type: ignore[misc]

    def _proc_gnusparse_10(self, *_: Any) -> NoReturn:
        _refuse()

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10


class Archive(tarfile.TarFile):
    """An archive that is read once, from beginning to end, without keeping its members in memory."""

    tarinfo = Header
    members: list[tarfile.TarInfo]

    def next(self) -> tarfile.TarInfo | None:
        """Return the next member; None at the end."""
        member = super().next()
        # The library remembers every member; a million of them would not fit.
        self.members = []
        return member


def _refuse() -> NoReturn:
    raise tarfile.TarError("a sparse file")


async def upload(pipe: Pipe, source: Path | str | bytes, target: str) -> None:
    """Send a file, a folder's content, or bytes into a sandbox.

    Args:
        pipe: Runs a command inside.
        source: The path of a file or folder, or bytes.
        target: An absolute path inside: of the file, or of the folder that receives the content.

    Raises:
        SandboxError: The source cannot be read, or it did not arrive.
    """
    folder = target
    name = None
    if isinstance(source, bytes) or not Path(source).is_dir():
        folder = str(PurePosixPath(target).parent)
        name = PurePosixPath(target).name
    command = ["sh", "-c", script("receive"), "sh", folder]
    with tempfile.TemporaryFile() as archive:
        try:
            await asyncio.to_thread(_pack, source, name, archive)
        except OSError as error:
            raise SandboxError(f"cannot read {source!r} for upload: {error}") from error
        archive.seek(0)
        exit_state, errors = await pipe(command, archive, None, TIMEOUT)
    if exit_state.timed_out:
        raise SandboxError(f"upload to {target} failed (timed out)")
    if exit_state.code != 0:
        problem = f"exit code {exit_state.code}: {errors.strip()[-500:]}"
        raise SandboxError(f"upload to {target} failed ({problem})")


async def download(pipe: Pipe, source: str, target: Path) -> None:
    """Fetch a file or a folder's content from a sandbox.

    Args:
        pipe: Runs a command inside.
        source: An absolute path inside.
        target: Where to put it; nothing is written outside.

    Raises:
        SandboxError: The source does not exist, is too large, arrived damaged, or may not be unpacked.
    """
    with tempfile.TemporaryFile() as archive:
        digest = hashlib.sha256()
        size = 0

        def receive(data: bytes) -> None:
            nonlocal size
            size += len(data)
            if size <= MAX_DOWNLOAD:
                digest.update(data)
                archive.write(data)

        command = ["sh", "-c", script("send"), "sh", source]
        exit_state, errors = await pipe(command, None, receive, TIMEOUT)
        error_lines = errors.splitlines()
        if "NEL-MISSING" in error_lines:
            raise SandboxError(f"download failed: {source} does not exist in the sandbox")
        if size > MAX_DOWNLOAD:
            raise SandboxError(f"download of {source} is larger than {MAX_DOWNLOAD} bytes")
        if exit_state.timed_out or exit_state.code != 0 or "NEL-TAR-FAILED" in error_lines:
            problem = errors.strip()[-500:] or "timed out"
            raise SandboxError(f"download of {source} failed: {problem}")
        if digest.hexdigest() not in errors:
            raise SandboxError(f"download of {source} arrived damaged: digests differ")
        archive.seek(0)
        try:
            await asyncio.to_thread(_unpack, archive, target)
        except _ARCHIVE_ERRORS as error:
            raise SandboxError(
                f"download of {source} holds something that may not be unpacked: {error}"
            ) from error


def _pack(source: Path | str | bytes, name: str | None, archive: IO[bytes]) -> None:
    """Write the tar with the list of digests that the receiver will check.

    Args:
        source: The path of a file or folder, or bytes.
        name: The name of a single file inside; None: the source is a folder.
        archive: Where to write.
    """
    digest_lines: list[str] = []
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if isinstance(source, bytes):
            _add(tar, tarfile.TarInfo(name or ""), io.BytesIO(source), sums=digest_lines)
        elif name is not None:
            _add_path(tar, Path(source), name, sums=digest_lines, is_single=True)
        else:
            root = Path(source)
            for path in sorted(root.rglob("*")):
                member_name = path.relative_to(root).as_posix()
                _add_path(tar, path, member_name, sums=digest_lines, is_single=False)
        text = "".join(digest_lines).encode("utf-8", "surrogateescape")
        _add(tar, tarfile.TarInfo(_SUMS), io.BytesIO(text), sums=[])


def _add_path(
    tar: tarfile.TarFile, path: Path, name: str, sums: list[str], *, is_single: bool
) -> None:
    """Add a file, folder or link of this machine. A single file is followed if it is a link; devices are left out."""
    state = path.stat(follow_symlinks=is_single)
    info = tarfile.TarInfo(name)
    info.mode = state.st_mode & 0o777
    info.mtime = int(state.st_mtime)
    if stat.S_ISLNK(state.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = str(path.readlink())
        tar.addfile(info)
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif path.is_file() or is_single:
        with path.open("rb") as file:
            _add(tar, info, file, sums=sums)


def _add(tar: tarfile.TarFile, info: tarfile.TarInfo, file: IO[bytes], sums: list[str]) -> None:
    """Add the content of a file, and its line to the list of digests, in the format of sha256sum."""
    digest = hashlib.sha256()
    while data := file.read(_CHUNK):
        digest.update(data)
        info.size += len(data)
    file.seek(0)
    tar.addfile(info, file)
    # The escape that sha256sum itself uses for names with a backslash or a newline.
    escaped = info.name.replace("\\", "\\\\").replace("\n", "\\n")
    prefix = "" if escaped == info.name else "\\"
    sums.append(f"{prefix}{digest.hexdigest()}  {escaped}\n")


def _unpack(archive: IO[bytes], target: Path) -> None:
    """Unpack next to the target, then move it into place: a half-finished download is never visible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=".nel-download-")).resolve()
    try:
        with tarfile.open(fileobj=archive, mode="r:", tarinfo=Header) as tar:
            first_name, count = _extract(tar, staging)
        if first_name in (".", "./"):
            _merge(staging, target)
        elif count == 1 and os.path.lexists(staging / first_name):
            destination = target / first_name if target.is_dir() else target
            (staging / first_name).replace(destination)
        else:
            raise tarfile.TarError("the archive does not hold the requested file")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


class SizeBudget:
    """The bytes that a download may still write: links may name one large file a thousand times."""

    def __init__(self) -> None:
        self._left = MAX_DOWNLOAD

    def spend(self, size: int) -> None:
        """Count bytes before they are written.

        Raises:
            TarError: They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise tarfile.TarError(f"its files hold more than {MAX_DOWNLOAD} bytes")


def _extract(tar: tarfile.TarFile, root: Path) -> tuple[str, int]:
    """Write the members below ``root``.

    Links are created last, so that nothing is written through one. Links that point outside, and members other than
    files, folders and links, are skipped: an agent's folder may well hold a link to the system's python, or a socket.

    Returns:
        The name of the first member, and the number of members.

    Raises:
        TarError: A name leads outside, or the archive is too large.
    """
    first_name = ""
    count = 0
    budget = SizeBudget()
    links: list[tuple[Path, str]] = []
    while (member := tar.next()) is not None:
        first_name = first_name or member.name
        count += 1
        if count > _MAX_MEMBERS:
            raise tarfile.TarError(f"more than {_MAX_MEMBERS} files")
        path = _inside(root, member.name)
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.isreg() or member.islnk():
            _extract_file(tar, member, root, budget=budget)
        elif member.issym() and _stays_inside(PurePosixPath(member.name).parent, member.linkname):
            links.append((path, member.linkname))
        else:
            log.warning("left behind in the sandbox: %s", ascii(member.name))
    for path, target in links:
        _create_link(path, target)
    return first_name, count


def _extract_file(
    tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path, budget: SizeBudget
) -> None:
    """Write a file; a hard link becomes a copy of the file that was written before."""
    path = _inside(root, member.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.isreg():
        content = tar.extractfile(member)
    else:
        content = _inside(root, member.linkname).open("rb")
    assert content is not None
    with content, path.open("wb") as file:
        while data := content.read(_CHUNK):
            budget.spend(len(data))
            file.write(data)
    is_executable = bool(member.mode & 0o111)
    path.chmod(0o755 if is_executable else 0o644)


def _create_link(path: Path, target: str) -> None:
    """Create a link whose own folder is not behind another link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent.resolve() != path.parent:
        raise tarfile.TarError(f"{path.name!r} lies behind a link")
    path.symlink_to(target)


def _inside(root: Path, name: str) -> Path:
    """The path of a member. Raises TarError for a name that leads outside."""
    parts = PurePosixPath(name).parts
    if ".." in parts or name.startswith("/"):
        raise tarfile.TarError(f"{name!r} leads outside")
    return root.joinpath(*parts)


def _stays_inside(folder: PurePosixPath, target: str) -> bool:
    """Whether a link in ``folder`` points into the archive."""
    if target.startswith("/"):
        return False
    # Ups only at the start, where the folders are real: after a name they could lead through another link.
    parts = PurePosixPath(target).parts
    up_count = len([part for part in parts if part == ".."])
    all_at_start = parts[:up_count] == ("..",) * up_count
    return all_at_start and up_count <= len(folder.parts)


def _merge(staging: Path, target: Path) -> None:
    """Move a folder's content into ``target``, replacing files and links but never following links."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OSError(f"{target} is not a folder")
    target.mkdir(exist_ok=True)
    for path in staging.iterdir():
        destination = target / path.name
        replaces_folder = _is_real_folder(destination)
        if replaces_folder and _is_real_folder(path):
            _merge(path, destination)
            continue
        if replaces_folder:
            shutil.rmtree(destination)
        path.replace(destination)


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
