"""One writer a folder: ``nel.lock`` names who writes, and is held before anything is moved or written.

Two locks in one. The kernel's (``flock``) ends with its process, so what a killed run left on this host is taken over
at once. On a shared disk it may hold on one host only; so the file, which only one can make, also names the host, and
its time of change is a heartbeat: another host's lock is taken over only when that has stopped.
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
# How often, and how many seconds apart, a lock is tried that others only look at: a look takes no time at all.
_LOOKS: Final = 500
_LOOK: Final = 0.002
_WAIT: Final = "wait for it, stop it (`nel eval stop -o FOLDER`), or write elsewhere with -o DIR"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who writes into a folder."""

    host: str = ""
    pid: int = 0
    since: str = ""
    run_id: str = ""

    def __str__(self) -> str:
        run = f"run {self.run_id}, " if self.run_id else ""
        return f"{run}pid {self.pid} on {self.host}, since {self.since}"


class LockedError(UsageError):
    """Another process writes into the folder; ``holder`` is who, as far as that is known."""

    def __init__(self, folder: Path, holder: Holder, hint: str) -> None:
        super().__init__(f"{folder} is in use by {holder}", hint=hint)
        self.holder = holder


@contextmanager
def folder_lock(
    folder: Path, *, run_id: str = "", say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a folder for the length of the block.

    Args:
        folder: The folder, which is made if need be.
        run_id: The run that writes there.
        say: Takes a message when the lock of a host without heartbeat is taken over.

    Raises:
        LockedError: When another process holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock_fd = _take(folder, run_id, say)
    except OSError as error:
        raise storage_error(error, folder) from error
    done = threading.Event()
    beat = threading.Thread(target=_beat, args=(lock_fd, done), daemon=True)
    beat.start()
    try:
        yield
    finally:
        done.set()
        beat.join()
        # Removed before it is let go: whoever opened the old file meanwhile sees that it is no longer the lock.
        with suppress(OSError):
            (folder / FILE).unlink()
        os.close(lock_fd)


def ensure_free(folder: Path) -> None:
    """Raise LockedError when a run writes into a folder."""
    holder = holder_of(folder)
    if holder is not None:
        raise LockedError(folder, holder, _WAIT)


def holder_of(folder: Path) -> Holder | None:
    """Who holds a folder, if anybody does; a lock that a dead process of this host left does not count."""
    try:
        fd = os.open(folder / FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        holder = _read(fd)
        # Shared: many may look at once, and none of them seems to hold the folder.
        if _flock(fd, fcntl.LOCK_SH):
            if holder.host != socket.gethostname() and _age(folder, fd) < _DEAD_AFTER:
                return holder
            return None
        return holder
    finally:
        os.close(fd)


def _take(folder: Path, run_id: str, say: Callable[[str], None] | None) -> int:
    """The descriptor of the lock file, held."""
    path = folder / FILE
    for _ in range(_TRIES):
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            _refuse_living(folder, say)
            continue  # Nobody holds it any more: whoever makes the next file has it.
        fcntl.flock(fd, fcntl.LOCK_EX)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(socket.gethostname(), os.getpid(), now, run_id=run_id)
        os.write(fd, dumps(asdict(holder)) + b"\n")
        return fd
    raise UsageError(
        f"{path} changes hands all the time", hint="wait for the other runs in this folder"
    )


def _refuse_living(folder: Path, say: Callable[[str], None] | None) -> None:
    """Remove the lock of one who is gone; raise LockedError when its holder lives, or may do so."""
    path = folder / FILE
    try:
        # For writing: over NFS, only such a file can be locked for oneself.
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
            # Another process has replaced it meanwhile.
            return
        if holder.host != socket.gethostname():
            silent = _age(folder, fd)
            if silent < _DEAD_AFTER:
                hint = (
                    f"it was last heard of {silent:.0f} s ago; if that run is dead, its lock is taken over "
                    f"{_DEAD_AFTER:.0f} s after its last sign (or remove {path})"
                )
                raise LockedError(folder, holder, hint)
            if say is not None:
                say(f"{folder}: took over from {holder}, not heard of for {silent:.0f} s")
        path.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    finally:
        os.close(fd)


def _claim(fd: int) -> bool:
    """Take the kernel's lock; False when somebody holds it. Whoever only looks at it is waited for."""
    for _ in range(_LOOKS):
        if _flock(fd, fcntl.LOCK_EX):
            return True
        if not _flock(fd, fcntl.LOCK_SH):
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(_LOOK)
    return False


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Holder:
    try:
        return Holder(**orjson.loads(os.pread(fd, 4096, 0)))
    except (orjson.JSONDecodeError, TypeError):
        return Holder("an unknown host")


def _age(folder: Path, fd: int) -> float:
    """Seconds since the last heartbeat, by the clock of the disk where it can be asked."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b".")
            probe.flush()
            now = os.fstat(probe.fileno()).st_mtime
    except OSError:
        now = time.time()
    return max(0.0, now - os.fstat(fd).st_mtime)


def _beat(fd: int, done: threading.Event) -> None:
    while not done.wait(_BEAT):
        with suppress(OSError):
            os.utime(fd)
