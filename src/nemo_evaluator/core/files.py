"""Reading and writing files: whole files atomically, JSON lines as a stream."""

import errno
import fnmatch
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.plain import plain
from nemo_evaluator.core.secrets import encoded_forms, scrub_value
from nemo_evaluator.core.text import valid_text

#: The longest line and the largest document that is read: nel writes none that are nearly as long.
LONGEST_LINE: Final = 256 * 2**20
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Encode any value as JSON; unknown objects become their ``str``. Never raises (see ``core.plain``).

    Args:
        value: The value.
        indent: Indent the JSON by two spaces.
    """
    if not indent:
        try:
            # Nearly everything is plain JSON, and looking for more takes half as long again.
            return orjson.dumps(value)
        except (TypeError, RecursionError):
            pass
    option = _OPTIONS | orjson.OPT_INDENT_2 if indent else _OPTIONS
    try:
        return orjson.dumps(value, default=str, option=option)
    except (TypeError, RecursionError):
        return orjson.dumps(plain(value), option=option)


def scrub_json(data: bytes, option: int = 0) -> bytes:
    """Remove the secrets from the texts of JSON; without secrets, return the same object, which is cheap."""
    for form in encoded_forms:
        if form in data:
            return orjson.dumps(scrub_value(orjson.loads(data)), option=option)
    return data


@contextmanager
def replacing(path: Path, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` at the end of the block; an exception leaves ``path`` as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o644) -> None:
    """Write a whole file so that a reader sees the old or the new content, never a part."""
    with replacing(path, mode=mode) as file:
        file.write(valid_text(data).encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically and without secrets."""
    write_atomic(path, scrub_json(dumps(value, indent=True), orjson.OPT_INDENT_2) + b"\n")


def read_json(path: Path) -> Any:
    """Read the value in a JSON file.

    Raises:
        OSError: The file cannot be read.
        orjson.JSONDecodeError: It is not JSON.
    """
    return orjson.loads(read_regular(path))


def read_regular(path: Path) -> bytes:
    """Read the bytes of a regular file.

    Raises:
        OSError: It is larger than ``LONGEST_LINE``, or not a regular file: reading a pipe or a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        if status.st_size > LONGEST_LINE:
            raise OSError(errno.EFBIG, f"is larger than {LONGEST_LINE >> 20} MB", str(path))
        return file.read()


def stored(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty when the file is missing or does not contain one."""
    try:
        document = orjson.loads(read_regular(path))
    except (OSError, orjson.JSONDecodeError):
        return {}
    if isinstance(document, dict):
        return document
    return {}


def iter_jsonl(path: Path) -> Iterator[Any]:
    """Yield the values of a JSON-lines file. An incomplete last line is skipped; any other bad line is an error."""
    for _, line in lines_from(path):
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                if line.endswith(b"\n"):
                    raise


def lines_from(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from a byte on, each with its offset.

    Raises:
        UsageError: A line is longer than ``LONGEST_LINE``, as in a file with a hole.
    """
    with path.open("rb", buffering=1 << 20) as file:
        file.seek(start)
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                raise UsageError(
                    f"{path}: the line at byte {start:,} is longer than {LONGEST_LINE >> 20} MB",
                    hint="the file is damaged: cut it off there, or take a copy of it",
                )
            yield start, line
            if not line.endswith(b"\n"):
                # The end of the file. If it grows meanwhile, the rest of this line is not a line of its own.
                return
            start += len(line)


def files_under(root: Path, pattern: str) -> list[Path]:
    """Return the files at any depth whose name matches, sorted. Folders that vanish meanwhile are skipped."""
    folders = os.walk(root)
    return sorted(
        Path(folder, name)
        for folder, _, names in folders
        for name in fnmatch.filter(names, pattern)
    )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which is read as a stream."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_folder() -> Path:
    """Return the user's folder for files that nel can recreate."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nel"


def safe_name(name: str) -> str:
    """Replace every character outside ``[A-Za-z0-9_.-]`` by ``_``, so that a name is safe as a folder."""
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    if safe.strip("."):
        return safe
    return f"_{safe}"
