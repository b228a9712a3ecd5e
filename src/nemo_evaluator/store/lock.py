"""``nel.lock``: allows one writer per folder, and is held before anything is moved or written.

It combines two locks. The kernel's lock (``flock``) ends with its process, so the lock of a killed run on this host is
taken over at once. On a shared disk that lock may apply to one host only. The file, which only one process can
create, therefore also names the host, and its modification time is a heartbeat: the lock of another host is taken
over only after the heartbeat has stopped.
"""

import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.core.values import asdict, dataclass

FILE: Final = "nel.lock"
_BEAT: Final = 10.0
_DEAD_AFTER: Final = 120.0
_TRIES: Final = 20
# How often, and how many seconds apart, to retry a lock while other processes only inspect it, which is quick.
_LOOKS: Final = 500
_LOOK: Final = 0.002
# How often to read a lock file that has just been created and is still empty.
_LOOKS_AT_EMPTY: Final = 25
_WAIT: Final = "wait for it, stop it (`nel eval stop -o FOLDER`), or write elsewhere with -o DIR"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a folder."""

    host: str = ""
    pid: int = 0
    since: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        """Describe the process for error messages."""
        if not self.pid:
            return f"another process, which {FILE} does not name"
        run = f"run {self.run_id}, " if self.run_id else ""
        return f"{run}pid {self.pid} on {self.host}, since {self.since}"


class LockedError(UsageError):
    """Another process writes to the folder; ``holder`` describes it as far as it is known."""

    def __init__(self, folder: Path, holder: Holder, hint: str) -> None:
        """Describe which process holds a folder, and what the user can do."""
        super().__init__(f"{folder} is in use by {holder}", hint=hint)
        self.holder = holder


@contextmanager
def folder_lock(
    folder: Path, *, run_id: str = "", say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a folder for the duration of the block.

    Args:
        folder: The folder; it is created if necessary.
        run_id: The run that writes to it.
        say: Called with a message when the lock of a host without a heartbeat is taken over.

    Raises:
        LockedError: Another process holds the folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock_fd = _take(folder, run_id, say)
    except OSError as error:
        raise storage_error(error, folder) from error
    stopped = threading.Event()
    heartbeat = threading.Thread(target=_beat, args=(lock_fd, stopped), daemon=True)
    heartbeat.start()
    try:
        yield
    finally:
        stopped.set()
        heartbeat.join()
        # Removed before it is released: a process that has opened the old file then sees that it is no longer the lock.
        with suppress(OSError):
            (folder / FILE).unlink()
        os.close(lock_fd)


def ensure_free(folder: Path) -> None:
    """Check that no run writes to a folder.

    Raises:
        LockedError: A run does.
    """
    holder = holder_of(folder)
    if holder is not None:
        raise LockedError(folder, holder, _WAIT)


def holder_of(folder: Path) -> Holder | None:
    """Return the process that holds a folder, or None; the lock of a dead process on this host does not count."""
    try:
        fd = os.open(folder / FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        holder = _read(fd)
        # Shared: several processes can inspect the lock at once without seeming to hold the folder.
        if _flock(fd, fcntl.LOCK_SH):
            if holder.host != socket.gethostname() and _age(folder, fd) < _DEAD_AFTER:
                return holder
            return None
        return holder
    finally:
        os.close(fd)


def _take(folder: Path, run_id: str, say: Callable[[str], None] | None) -> int:
    """Create and lock the lock file; returns its descriptor."""
    path = folder / FILE
    for _ in range(_TRIES):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            _refuse_living(folder, say)
            continue  # The old lock is gone: the first process to create the file gets it.
        fcntl.flock(fd, fcntl.LOCK_EX)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(socket.gethostname(), os.getpid(), now, run_id=run_id)
        os.write(fd, dumps(asdict(holder)) + b"\n")
        return fd
    raise UsageError(
        f"{path} changes hands all the time", hint="wait for the other runs in this folder"
    )


def _refuse_living(folder: Path, say: Callable[[str], None] | None) -> None:
    """Remove a stale lock.

    Raises:
        LockedError: The holder is alive, or may be.
    """
    path = folder / FILE
    try:
        # Opened for writing: NFS allows exclusive locks only on such files.
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        holder = _read(fd)
        if not _claim(fd):
            raise LockedError(folder, holder, _WAIT)
        current = path.stat()
        opened = os.fstat(fd)
        if (current.st_ino, current.st_dev) != (opened.st_ino, opened.st_dev):
            # Another process has replaced the file.
            return
        if holder.host != socket.gethostname():
            silent_seconds = _age(folder, fd)
            if silent_seconds < _DEAD_AFTER:
                hint = (
                    f"it was last heard of {silent_seconds:.0f} s ago; if that run is dead, its lock is taken over "
                    f"{_DEAD_AFTER:.0f} s after its last sign (or remove {path})"
                )
                raise LockedError(folder, holder, hint)
            if say is not None:
                say(f"{folder}: took over from {holder}, not heard of for {silent_seconds:.0f} s")
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    finally:
        os.close(fd)


def _claim(fd: int) -> bool:
    """Take the kernel's lock; returns False if a process holds it. Waits for processes that only inspect it."""
    for _ in range(_LOOKS):
        if _flock(fd, fcntl.LOCK_EX):
            return True
        if not _flock(fd, fcntl.LOCK_SH):
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(_LOOK)
    return False


def _flock(fd: int, kind: int) -> bool:
    """Try a kernel lock without waiting; returns whether it was taken."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Holder:
    """Return the holder that a lock file names, without a process if the file names none.

    Its process writes the file right after it has created it, so an empty file is read again.
    """
    text = os.pread(fd, 4096, 0)
    for _ in range(_LOOKS_AT_EMPTY):
        if text:
            break
        time.sleep(_LOOK)
        text = os.pread(fd, 4096, 0)
    try:
        return Holder(**orjson.loads(text))
    except (orjson.JSONDecodeError, TypeError):
        return Holder()


def _age(folder: Path, fd: int) -> float:
    """Return the seconds since the last heartbeat, by the disk's clock if possible."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b".")
            probe.flush()
            now = os.fstat(probe.fileno()).st_mtime
    except OSError:
        now = time.time()
    return max(0.0, now - os.fstat(fd).st_mtime)


def _beat(fd: int, done: threading.Event) -> None:
    """Touch the lock file regularly until ``done`` is set."""
    while not done.wait(_BEAT):
        with suppress(OSError):
            os.utime(fd)
