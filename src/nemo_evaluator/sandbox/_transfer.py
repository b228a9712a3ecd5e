"""Files in and out of a sandbox: one tar stream, digests compared, and nothing that a sandbox sent is trusted."""

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
_SUMS: Final = ".nel-sums"
Pipe = Callable[
    [list[str], IO[bytes] | None, Callable[[bytes], object] | None, float],
    Awaitable[tuple[Exit, str]],
]
# Long names and extended attributes; the library reads such a header whole.
_LARGEST_HEADER: Final = 1 << 20
_EXTENDED: Final = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class Header(tarfile.TarInfo):
    """A member's header. Raises TarError for one that claims too much, or that is sparse: a few bytes of such a file
    can stand for terabytes, and no tar that we start writes them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type == tarfile.GNUTYPE_SPARSE:
            _refuse()
        if header.size < 0 or (header.type in _EXTENDED and header.size > _LARGEST_HEADER):
            raise tarfile.TarError(f"a header with a size of {header.size} bytes")
        return header

    def _apply_pax_info(self, pax_headers: dict[str, str], encoding: str, errors: str) -> None:
        # Before the library reads a map of holes, and before it takes a size from here.
        if any(name.startswith("GNU.sparse") for name in pax_headers) or pax_headers.get(
            "size", "0"
        ).startswith("-"):
            _refuse()
        super()._apply_pax_info(pax_headers, encoding, errors)  # type: ignore[misc]

    def _proc_gnusparse_10(self, *_: Any) -> NoReturn:
        _refuse()

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10


class Archive(tarfile.TarFile):
    """An archive to read from its beginning to its end; what was read is forgotten."""

    tarinfo = Header
    members: list[tarfile.TarInfo]

    def next(self) -> tarfile.TarInfo | None:
        """The next member."""
        member = super().next()
        # The library remembers every member; a million of them would not fit.
        self.members = []
        return member


def _refuse() -> NoReturn:
    raise tarfile.TarError("a sparse file")


async def upload(pipe: Pipe, source: Path | str | bytes, target: str) -> None:
    """Send a file, a folder's content, or bytes to ``target``, an absolute path inside."""
    folder = target
    name = None
    if isinstance(source, bytes) or not Path(source).is_dir():
        folder = str(PurePosixPath(target).parent)
        name = PurePosixPath(target).name
    with tempfile.TemporaryFile() as archive:
        try:
            await asyncio.to_thread(_pack, source, name, archive)
        except OSError as error:
            raise SandboxError(f"cannot read {source!r} for upload: {error}") from error
        archive.seek(0)
        ended, errors = await pipe(
            ["sh", "-c", script("receive"), "sh", folder], archive, None, TIMEOUT
        )
    if ended.timed_out or ended.code != 0:
        if ended.timed_out:
            why = "timed out"
        else:
            why = f"exit code {ended.code}: {errors.strip()[-500:]}"
        raise SandboxError(f"upload to {target} failed ({why})")


async def download(pipe: Pipe, source: str, target: Path) -> None:
    """Fetch the file or the folder's content at ``source``, an absolute path inside, to ``target``."""
    with tempfile.TemporaryFile() as archive:
        digest = hashlib.sha256()
        size = 0

        def take(data: bytes) -> None:
            nonlocal size
            size += len(data)
            if size <= MAX_DOWNLOAD:
                digest.update(data)
                archive.write(data)

        ended, errors = await pipe(["sh", "-c", script("send"), "sh", source], None, take, TIMEOUT)
        said = errors.splitlines()
        if "NEL-MISSING" in said:
            raise SandboxError(f"download failed: {source} does not exist in the sandbox")
        if size > MAX_DOWNLOAD:
            raise SandboxError(f"download of {source} is larger than {MAX_DOWNLOAD} bytes")
        if ended.timed_out or ended.code != 0 or "NEL-TAR-FAILED" in said:
            raise SandboxError(
                f"download of {source} failed: {errors.strip()[-500:] or 'timed out'}"
            )
        if digest.hexdigest() not in errors:
            raise SandboxError(f"download of {source} arrived damaged: digests differ")
        archive.seek(0)
        try:
            await asyncio.to_thread(_unpack, archive, target)
        except (tarfile.TarError, OSError, ValueError, OverflowError, RecursionError) as error:
            # The last three are the library's: names with a NUL, sizes beyond all measure, headers of headers.
            raise SandboxError(
                f"download of {source} holds something that may not be unpacked: {error}"
            ) from error


def _pack(source: Path | str | bytes, name: str | None, archive: IO[bytes]) -> None:
    """Write the tar with the checksum list that the receiver will check; ``name`` is that of a single file."""
    sums: list[str] = []
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        if isinstance(source, bytes):
            _add(tar, tarfile.TarInfo(name or ""), io.BytesIO(source), sums=sums)
        else:
            root = Path(source)
            for path in sorted(root.rglob("*")) if name is None else [root]:
                info = tarfile.TarInfo(name or path.relative_to(root).as_posix())
                state = path.stat(follow_symlinks=name is not None)
                info.mode = state.st_mode & 0o777
                info.mtime = int(state.st_mtime)
                if stat.S_ISLNK(state.st_mode):
                    info.type = tarfile.SYMTYPE
                    info.linkname = str(path.readlink())
                    tar.addfile(info)
                elif path.is_dir():
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                elif path.is_file() or name is not None:
                    with path.open("rb") as file:
                        _add(tar, info, file, sums=sums)
        _add(
            tar,
            tarfile.TarInfo(_SUMS),
            io.BytesIO("".join(sums).encode("utf-8", "surrogateescape")),
            sums=[],
        )


def _add(tar: tarfile.TarFile, info: tarfile.TarInfo, file: IO[bytes], sums: list[str]) -> None:
    digest = hashlib.sha256()
    while data := file.read(1 << 20):
        digest.update(data)
        info.size += len(data)
    file.seek(0)
    tar.addfile(info, file)
    # The escape that sha256sum itself uses for names with a backslash or a newline.
    escaped = info.name.replace("\\", "\\\\").replace("\n", "\\n")
    sums.append(f"{'' if escaped == info.name else chr(92)}{digest.hexdigest()}  {escaped}\n")


def _unpack(archive: IO[bytes], target: Path) -> None:
    """Unpack beside the target, then put it in place: a half-finished download is never seen."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=".nel-download-")).resolve()
    try:
        with tarfile.open(fileobj=archive, mode="r:", tarinfo=Header) as tar:
            first, count = _extract(tar, staging)
        if first in (".", "./"):
            _merge(staging, target)
        elif count == 1 and os.path.lexists(staging / first):
            (staging / first).replace(target / first if target.is_dir() else target)
        else:
            raise tarfile.TarError("the archive does not hold what was asked for")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _extract(tar: tarfile.TarFile, root: Path) -> tuple[str, int]:
    """Write out the members: (name of the first, how many). A name that leads outside is an error. Links are made last,
    so that nothing is written through one. Those that point outside, and what is no file, stay behind: an agent's
    folder may well hold a link to the system's python, or a socket."""
    first = ""
    count = 0
    room = MAX_DOWNLOAD
    links: list[tuple[Path, str]] = []
    while (member := tar.next()) is not None:
        first = first or member.name
        count = count + 1
        if count > _MAX_MEMBERS:
            raise tarfile.TarError(f"more than {_MAX_MEMBERS} files")
        path = _inside(root, member.name)
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.isreg() or member.islnk():
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.isreg():
                content = tar.extractfile(member)
            else:
                content = _inside(root, member.linkname).open("rb")
            assert content is not None
            # What is written counts: links may name one large file a thousand times.
            with content, path.open("wb") as file:
                while data := content.read(1 << 20):
                    room -= len(data)
                    if room < 0:
                        raise tarfile.TarError(f"its files hold more than {MAX_DOWNLOAD} bytes")
                    file.write(data)
            path.chmod(0o755 if member.mode & 0o111 else 0o644)
        elif member.issym() and _stays_inside(PurePosixPath(member.name).parent, member.linkname):
            links.append((path, member.linkname))
        else:
            log.warning("left behind in the sandbox: %s", ascii(member.name))
    for path, target in links:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.parent.resolve() != path.parent:
            raise tarfile.TarError(f"{path.name!r} lies behind a link")
        path.symlink_to(target)
    return first, count


def _inside(root: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if ".." in parts or name.startswith("/"):
        raise tarfile.TarError(f"{name!r} leads outside")
    return root.joinpath(*parts)


def _stays_inside(folder: PurePosixPath, target: str) -> bool:
    # Ups only at the start, where the folders are real: after a name they could lead through another link.
    parts = PurePosixPath(target).parts
    ups = len([part for part in parts if part == ".."])
    return not target.startswith("/") and parts[:ups] == ("..",) * ups and ups <= len(folder.parts)


def _merge(staging: Path, target: Path) -> None:
    """Move a folder's content into ``target``, replacing files and links but never following them."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OSError(f"{target} is not a folder")
    target.mkdir(exist_ok=True)
    for path in staging.iterdir():
        place = target / path.name
        if path.is_dir() and not path.is_symlink() and place.is_dir() and not place.is_symlink():
            _merge(path, place)
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        path.replace(place)
