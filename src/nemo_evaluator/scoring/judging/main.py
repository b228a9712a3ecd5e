"""Process one of a scoring run: it parts from the program before it reads the tests, judges, and clears up. The program
runs in a fork that was made before the tests were read, under another user where we are root; nobody can look into the
judge, and only the judge knows the word that makes a verdict count."""

from __future__ import annotations

import builtins
import posix as os
import sys

from . import values
from .counting import End
from .judge import judge
from .program import FILE, ProgramObjects
from .session import ProgramSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

# The part of ``signal`` that is there at once; type checkers do not know it.
signal: Any = __import__("_signal")
_DUMPABLE: Final = 4
# Characters of a reason: the line with the verdict has to fit into what the host reads.
_MAX_REASON: Final = 1000
# One of many, so that what an earlier program left, if anything, is somebody else's.
_USERS: Final = (20_000, 40_000)
_SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")
# Where a table of System V objects has the number and the owner.
_IPC: Final = {"shm": (1, 7), "msg": (1, 7), "sem": (1, 4)}


def main(
    head: dict[str, Any], rest: Callable[[], dict[str, Any]], load: Callable[[list[Any]], Any]
) -> None:
    """Fork the program, then read the tests and judge it; the verdict goes to stdout, the exit code is 0 or 1."""
    user = _user()
    if user is None:
        _hide(True)
    folder = _folder(user)
    out = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    ask = os.pipe()
    answer = os.pipe()
    # Not as an exception, which a program could raise in us before we are ready for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    pid = os.fork()
    try:
        if pid == 0:
            os.close(out)
            _become_program(folder, user, head, pipes=(ask[0], answer[1]))
        else:
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.close(ask[0])
            os.close(answer[1])
            session = ProgramSession(ask[1], answer[0])
            _judge_program(
                session, rest, load, timeout=head["timeout"], out=out, program=(pid, user, folder)
            )
    finally:
        # Never with a traceback, which says that the sandbox is at fault: a program may have lowered our limits.
        os._exit(1)


def _judge_program(
    session: ProgramSession,
    rest: Callable[[], dict[str, Any]],
    load: Callable[[list[Any]], Any],
    timeout: float,
    out: int,
    program: tuple[int, int | None, str],
) -> None:
    sys.meta_path.append(_SitePackages(False))
    tests = rest()
    if tests["modules"]:
        load(tests["modules"])
    verdict, why = _judged(session, tests, timeout)
    if os.getppid() != 1:
        # Else the process space ends with us, and all that is in it.
        _end(*program)
    reason = why[:_MAX_REASON].encode("utf-8", "replace").decode("utf-8")
    line = values.encode((verdict, reason), values.no_reference)
    os.write(out, tests["word"].encode() + b" " + line.hex().encode() + b"\n")
    os._exit(0 if verdict == "passed" else 1)


def _judged(session: ProgramSession, tests: dict[str, Any], timeout: float) -> tuple[str, str]:
    found: list[tuple[str, str]] = []

    def ring(*_: object) -> None:
        if not found:
            raise session.stop("timeout", f"no end after {timeout:g} s")

    signal.signal(signal.SIGALRM, ring)
    # Again and again: tests may hold an ``except`` that takes the first.
    signal.setitimer(signal.ITIMER_REAL, timeout, 0.1)
    while not found:
        try:
            found.append(session.ended or judge(session, tests))
        except End:
            continue
    return found[0]


def _become_program(
    folder: str, user: int | None, head: dict[str, Any], pipes: tuple[int, int]
) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in range(3, max(null, *pipes) + 3):
        if fd not in pipes:
            try:
                os.close(fd)
            except OSError:
                continue
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    else:
        _hide(False)
    os.chdir(folder)
    for name, value in (("HOME", folder), ("USER", "sandbox"), ("LOGNAME", "sandbox")):
        # Where ``os`` will look when the program imports it, and the C library.
        os.environ[name.encode()] = value.encode()
        os.putenv(name, value)
    sys.argv = [FILE]
    sys.path[:0] = [
        folder,
        *filter(None, os.environ.get(b"PYTHONPATH", b"").decode("utf-8", "replace").split(":")),
    ]
    sys.meta_path.append(_SitePackages(True))
    # What ``site`` would have brought.
    own_builtins: Any = builtins
    own_builtins.exit = own_builtins.quit = sys.exit
    with open(FILE, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        file.write(head["program"])
    host = ProgramObjects(*pipes)
    if host.run(head["program"]):
        host.serve()


class _SitePackages:
    """Python starts without its site packages, which takes a third of the time; they come when something is missing."""

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
            found = finder.find_spec(name, path, target)
            if found is not None:
                return found
        return None


def _hide(hidden: bool) -> None:
    """Keep processes of the same user from looking into this one, or let them."""
    if _libc("prctl", _DUMPABLE, not hidden, 0, 0, 0) != 0:
        raise OSError("the judge cannot hide its memory")


def _libc(name: str, *arguments: int) -> int:
    try:
        import _ctypes  # noqa: PLC0415

        loader: Any = _ctypes
        library = loader.dlopen(None, 0)
        return int(loader.call_function(loader.dlsym(library, name), arguments))
    except (ImportError, AttributeError, OSError):
        import ctypes  # noqa: PLC0415

        return int(getattr(ctypes.CDLL(None), name)(*arguments))


def _user() -> int | None:
    """A user for the program alone; None where we may not choose, or where such a user could not read Python."""
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
    name = f"nel-{os.urandom(8).hex()}"
    for parent in (
        os.environ.get(b"TMPDIR", b"/tmp").decode("utf-8", "replace"),
        "/tmp",
        os.getcwd(),
    ):
        try:
            os.mkdir(f"{parent}/{name}", 0o700)
        except OSError:
            continue
        if user is not None:
            os.chown(f"{parent}/{name}", user, user)
        return f"{parent}/{name}"
    raise OSError("no folder can be written to")


def _end(pid: int, user: int | None, folder: str) -> None:
    """Kill the program and all that it started, then remove what it left."""
    try:
        os.killpg(pid, 9)
    except OSError:
        os.kill(pid, 9)
    os.waitpid(pid, 0)
    if os.listdir(folder) == [FILE]:
        left: list[str] = []
    else:
        left = [folder]
    if user is not None:
        os.setresuid(user, user, 0)
        try:
            os.kill(-1, 9)
        except OSError:
            pass
        _remove_ipc(user)
        os.setresuid(0, 0, 0)
        left += _files_of(user, folder)
    if not left:
        os.unlink(f"{folder}/{FILE}")
        return os.rmdir(folder)
    remover = os.posix_spawnp("rm", ["rm", "-rf", "--", *left], os.environ)
    os.waitpid(remover, 0)


def _files_of(user: int, folder: str) -> list[str]:
    found = []
    for parent in _SHARED:
        try:
            entries = list(os.scandir(parent))
        except OSError:
            continue
        for one in entries:
            if one.stat(follow_symlinks=False).st_uid == user and one.path != folder:
                found.append(one.path)
    return found


def _remove_ipc(user: int) -> None:
    for kind, (number, owner) in _IPC.items():
        try:
            with open(f"/proc/sysvipc/{kind}", encoding="ascii") as table:  # noqa: PTH123
                rows = [line.split() for line in table.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if int(row[owner]) == user:
                _libc(f"{kind}ctl", int(row[number]), 0, 0)
