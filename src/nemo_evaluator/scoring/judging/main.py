"""The first process of a scoring run: it starts the program, then reads the tests, judges, and cleans up.

The program runs in a fork that was made before the tests were read, under another user where the judge is root. No
other process can look into the judge, and only the judge knows the secret word that makes a verdict count.
"""

from __future__ import annotations

import builtins
import gc
import posix as os
import sys

from . import values
from .protocol import FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

    from .session import ProgramSession

# The part of ``signal`` that needs no import from a file; type checkers do not know it.
signal: Any = __import__("_signal")
_DUMPABLE: Final = 4
# The process ids of the judge and its parent in a process space that was made for it. On a machine, 2 is the kernel's.
_FIRST_IN_SPACE: Final = (2, 1)
# Characters of a reason: the line with the verdict has to fit into what the host reads.
_MAX_REASON: Final = 1000
# The first user id for programs, and how many follow: what an earlier program left belongs to another user.
_USERS: Final = (20_000, 40_000)
_SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")
# In the tables of System V objects: the columns of the number and of the owner.
_IPC: Final = {"shm": (1, 7), "msg": (1, 7), "sem": (1, 4)}


def main(
    head: dict[str, Any],
    program_end: dict[str, Any],
    part: Callable[[], dict[str, Any]],
    load: Callable[[dict[str, Any]], Any],
) -> None:
    """Start the program, then read the tests and judge it.

    The verdict goes to stdout; the exit code is 0 for "passed", else 1. The function never returns.

    Args:
        head: The program and the time limit.
        program_end: The modules that the process of the program loads.
        part: Reads the next part of stdin: the modules that judge, then the tests.
        load: Loads modules of the judge.
    """
    user = _user()
    if user is None:
        _hide(True)
    folder = _folder(user)
    out = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    program_requests, judge_requests = os.pipe()
    judge_replies, program_replies = os.pipe()
    # Not as an exception, which a program could raise in the judge before it is ready.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pid = os.fork()
    try:
        if pid == 0:
            os.close(out)
            load(program_end)
            _become_program(folder, user, head, pipes=(program_requests, program_replies))
        else:
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.close(program_requests)
            os.close(program_replies)
            pipes = judge_requests, judge_replies
            process = _ProgramProcess(pid, user, folder)
            _judge_program(pipes, part, load, process=process, timeout=head["timeout"], out=out)
    finally:
        # Never with a traceback, which blames the sandbox: a program may have lowered the limits of the judge.
        os._exit(1)


class _ProgramProcess:
    """What has to be cleaned up after the program: its process, what its user owns, and its folder."""

    def __init__(self, pid: int, user: int | None, folder: str) -> None:
        self.pid = pid
        self.user = user
        self.folder = folder


def _judge_program(
    pipes: tuple[int, int],
    part: Callable[[], dict[str, Any]],
    load: Callable[[dict[str, Any]], Any],
    *,
    process: _ProgramProcess,
    timeout: float,
    out: int,
) -> None:
    sys.meta_path.append(_SitePackages(False))
    # While the program starts: it does not need these modules.
    load(part())
    from .session import ProgramSession  # noqa: PLC0415

    session = ProgramSession(*pipes)
    tests = part()
    gc.enable()
    verdict, reason = _judged(session, tests, timeout, lambda: _kill_program(process))
    if os.getppid() != 1:
        # Else the process space ends with the judge, and everything in it.
        _end(process)
    sendable_reason = reason[:_MAX_REASON].encode("utf-8", "replace").decode("utf-8")
    line = values.encode((verdict, sendable_reason), values.no_reference)
    os.write(out, tests["word"].encode() + b" " + line.hex().encode() + b"\n")
    os._exit(0 if verdict == "passed" else 1)


def _judged(
    session: ProgramSession,
    tests: dict[str, Any],
    timeout: float,
    end_program: Callable[[], None],
) -> tuple[str, str]:
    """The verdict and its reason; a verdict of "timeout" when there is none in time."""
    from .counting import End  # noqa: PLC0415
    from .judge import judge  # noqa: PLC0415

    verdicts: list[tuple[str, str]] = []

    def ring(*_: object) -> None:
        if not verdicts:
            raise session.stop("timeout", f"no end after {timeout:g} s")

    signal.signal(signal.SIGALRM, ring)
    # Repeatedly: an ``except`` of the tests may catch the first one.
    signal.setitimer(signal.ITIMER_REAL, timeout, 0.1)
    while not verdicts:
        try:
            verdicts.append(session.ended or judge(session, tests, end_program))
        except End:
            continue
    return verdicts[0]


def _become_program(
    folder: str, user: int | None, head: dict[str, Any], pipes: tuple[int, int]
) -> None:
    """Run the program in this process, and answer the judge until it has no more requests."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _close_files_except(pipes)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    else:
        _hide(False)
    os.chdir(folder)
    _look_like_a_script(folder)
    with open(FILE, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        file.write(head["program"])
    from .program import ProgramObjects  # noqa: PLC0415

    gc.enable()
    objects = ProgramObjects(*pipes)
    if objects.run(head["program"]):
        objects.serve()


def _close_files_except(pipes: tuple[int, int]) -> None:
    """Connect stdin, stdout and stderr to nothing, and close all other files but the pipes."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in range(3, max(null, *pipes) + 3):
        if fd in pipes:
            continue
        try:
            os.close(fd)
        except OSError:
            continue


def _look_like_a_script(folder: str) -> None:
    """Set what a program sees of its start: variables, arguments, the path of modules, ``exit`` and ``quit``."""
    for name, value in (("HOME", folder), ("USER", "sandbox"), ("LOGNAME", "sandbox")):
        # For ``os``, which reads this mapping when the program imports it, and for the C library.
        os.environ[name.encode()] = value.encode()
        os.putenv(name, value)
    sys.argv = [FILE]
    python_path = os.environ.get(b"PYTHONPATH", b"").decode("utf-8", "replace").split(":")
    sys.path[:0] = [folder, *filter(None, python_path)]
    sys.meta_path.append(_SitePackages(True))
    # ``site`` would define these.
    own_builtins: Any = builtins
    own_builtins.exit = own_builtins.quit = sys.exit


class _SitePackages:
    """Adds the site packages when a module is missing: Python starts without them, in a third of the time."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._done = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self._done or path is not None:
            return None
        self._done = True
        import site  # noqa: PLC0415

        if self._whole:
            site.main()
        else:
            # No .pth files and no sitecustomize where the verdict is made.
            sys.path += site.getsitepackages()
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def _hide(hidden: bool) -> None:
    """Forbid or allow processes of the same user to look into this one."""
    if _libc("prctl", _DUMPABLE, not hidden, 0, 0, 0) != 0:
        raise OSError("the judge cannot hide its memory")


def _libc(name: str, *arguments: int) -> int:
    """Call a function of the C library; ``_ctypes`` alone loads faster than ``ctypes``."""
    try:
        import _ctypes  # noqa: PLC0415

        loader: Any = _ctypes
        library = loader.dlopen(None, 0)
        return int(loader.call_function(loader.dlsym(library, name), arguments))
    except (ImportError, AttributeError, OSError):
        import ctypes  # noqa: PLC0415

        return int(getattr(ctypes.CDLL(None), name)(*arguments))


def _user() -> int | None:
    """A user id for the program alone; None where the judge is not root, or where that user could not read Python."""
    if os.getuid() != 0:
        return None
    user = _USERS[0] + int.from_bytes(os.urandom(2), "big") % _USERS[1]
    try:
        os.seteuid(user)
    except OSError:
        return None
    try:
        os.close(os.open(f"{sys.path[1]}/os.py", os.O_RDONLY))
    except OSError:
        return None
    finally:
        os.seteuid(0)
    return user


def _folder(user: int | None) -> str:
    """Create a folder for the program.

    Raises:
        OSError: No folder can be written to.
    """
    name = f"nel-{os.urandom(8).hex()}"
    temporary = os.environ.get(b"TMPDIR", b"/tmp").decode("utf-8", "replace")
    for parent in (temporary, "/tmp", os.getcwd()):
        folder = f"{parent}/{name}"
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            continue
        if user is not None:
            os.chown(folder, user, user)
        return folder
    raise OSError("no folder can be written to")


def _kill_program(process: _ProgramProcess) -> None:
    """Kill the program and all processes that it started."""
    if (os.getpid(), os.getppid()) == _FIRST_IN_SPACE:
        # The process space is the judge's own: everything else in it is the program's.
        _kill_all()
        return
    try:
        os.killpg(process.pid, 9)
    except OSError:
        os.kill(process.pid, 9)
    if process.user is not None:
        os.setresuid(process.user, process.user, 0)
        _kill_all()
        os.setresuid(0, 0, 0)


def _kill_all() -> None:
    """Kill all processes that this user may kill, except this one."""
    try:
        os.kill(-1, 9)
    except OSError:
        return


def _end(process: _ProgramProcess) -> None:
    """Kill the program and all processes that it started, then remove its files."""
    _kill_program(process)
    os.waitpid(process.pid, 0)
    remains: list[str] = []
    if os.listdir(process.folder) != [FILE]:
        remains.append(process.folder)
    if process.user is not None:
        os.setresuid(process.user, process.user, 0)
        _remove_ipc(process.user)
        os.setresuid(0, 0, 0)
        remains += _files_of(process.user, process.folder)
    if not remains:
        os.unlink(f"{process.folder}/{FILE}")
        os.rmdir(process.folder)
        return
    remover = os.posix_spawnp("rm", ["rm", "-rf", "--", *remains], os.environ)
    os.waitpid(remover, 0)


def _files_of(user: int, folder: str) -> list[str]:
    """The files of a user in the folders that all users share, except one folder."""
    paths = []
    for parent in _SHARED:
        try:
            entries = list(os.scandir(parent))
        except OSError:
            continue
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_uid == user and entry.path != folder:
                paths.append(entry.path)
    return paths


def _remove_ipc(user: int) -> None:
    """Remove the shared memory, message queues and semaphores of a user."""
    for kind, (number, owner) in _IPC.items():
        try:
            with open(f"/proc/sysvipc/{kind}", encoding="ascii") as table:  # noqa: PTH123
                rows = [line.split() for line in table.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if int(row[owner]) == user:
                _libc(f"{kind}ctl", int(row[number]), 0, 0)
