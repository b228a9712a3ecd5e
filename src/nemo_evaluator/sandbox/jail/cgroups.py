"""Limits by control groups, in the v1, v2 and hybrid layouts. Where nothing can be written, there is no group."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

CONTROLLERS: Final = ("memory", "pids", "cpu")
_PERIOD: Final = 100_000


@dataclass(frozen=True)
class Folder:
    """A control group of one hierarchy, with the controllers that limit it; or where such groups can be made."""

    path: Path
    version: int
    controllers: tuple[str, ...] = ()


@dataclass
class ControlGroups:
    """The control groups of one sandbox: one folder per hierarchy."""

    folders: list[Folder] = field(default_factory=list)

    def limit(self, *, memory: int = 0, pids: int = 0, cpus: float = 0.0) -> None:
        """Set the limits; 0 means: none. One that cannot be set is an OSError."""
        quota = max(1000, int(cpus * _PERIOD))
        for group in self.folders:
            folder = group.path
            one = group.version == 1
            used = group.controllers
            if "memory" in used and memory:
                (folder / ("memory.limit_in_bytes" if one else "memory.max")).write_text(
                    str(memory)
                )
                swap = folder / ("memory.memsw.limit_in_bytes" if one else "memory.swap.max")
                if swap.exists():
                    swap.write_text(str(memory) if one else "0")
            if "pids" in used and pids:
                (folder / "pids.max").write_text(str(pids))
            if "cpu" in used and cpus and one:
                (folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
                (folder / "cpu.cfs_quota_us").write_text(str(quota))
            elif "cpu" in used and cpus:
                (folder / "cpu.max").write_text(f"{quota} {_PERIOD}")

    def join(self) -> None:
        """Put this process into the group."""
        for folder in self.folders:
            (folder.path / "cgroup.procs").write_text("0")

    def members(self) -> set[int]:
        """The processes inside."""
        found: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found.update(
                    int(line) for line in (folder.path / "cgroup.procs").read_text().split()
                )
        return found

    def kill(self) -> None:
        """SIGKILL everything inside."""
        for folder in self.folders:
            if folder.version == 2:
                with contextlib.suppress(OSError):
                    (folder.path / "cgroup.kill").write_text("1")
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self, patience: float = 2.0) -> bool:
        """Remove the folders, waiting for the last processes to go; False when some folder is left."""
        until = time.monotonic() + patience
        while True:
            for folder in list(self.folders):
                try:
                    folder.path.rmdir()
                except FileNotFoundError:
                    pass
                except OSError:
                    continue
                self.folders.remove(folder)
            if not self.folders or time.monotonic() > until:
                return not self.folders
            time.sleep(0.01)


def parents(proc: Path = Path("/proc")) -> list[Folder]:
    """Where groups for memory, pids and cpu can be made by this process."""
    mounts: dict[str, list[tuple[Path, set[str]]]] = {"cgroup": [], "cgroup2": []}
    for line in (proc / "mounts").read_text().splitlines():
        _device, at, kind, options, *_rest = line.split(" ")
        if kind in mounts:
            mounts[kind].append((Path(at.replace("\\040", " ")), set(options.split(","))))
    own: dict[str, str] = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _number, listed, path = line.split(":", 2)
        own |= dict.fromkeys(listed.split(","), path)
    found = list[Folder]()
    left = set(CONTROLLERS)
    for point, names in mounts["cgroup"]:
        wanted = tuple(name for name in CONTROLLERS if name in names and name in left)
        if wanted:
            folder = _inside(point, own.get(wanted[0], "/"))
        else:
            folder = point
        if wanted and _can_make_groups(folder):
            found.append(Folder(folder, 1, wanted))
            left -= set(wanted)
    for point, _names in mounts["cgroup2"]:
        if left:
            found += _unified(_inside(point, own.get("", "/")), point, left)
    return found


def create(name: str, where: list[Folder]) -> ControlGroups:
    """Make the group ``name`` in every hierarchy, as yet without limits."""
    group = ControlGroups()
    try:
        for parent in where:
            folder = replace(parent, path=parent.path / name)
            folder.path.mkdir()
            group.folders.append(folder)
    except OSError:
        group.remove(0)
        raise
    return group


def oom_kills(folders: list[str]) -> int:
    """How many processes of the group the kernel has killed for want of memory."""
    total = 0
    for folder in folders:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError), Path(folder, name).open() as file:
                for line in file:
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        total += int(value)
    return total


def processes(folders: list[str]) -> int:
    """How many processes and threads the group holds, as far as it counts them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            return int(Path(folder, "pids.current").read_text())
    return 0


def _inside(point: Path, path: str) -> Path:
    # Inside a container the path may be the host's, of which only the last part is mounted.
    folder = point / path.lstrip("/")
    if folder.is_dir():
        return folder
    return point


def _can_make_groups(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    probe = folder / f"nel-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        # Making a group is one right, moving a process into it another.
        if not (probe / "cgroup.procs").exists():
            return True
        shell = ["sh", "-c", 'echo $$ > "$1"', "sh", str(probe / "cgroup.procs")]
        quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        pid = os.posix_spawn("/bin/sh", shell, {}, file_actions=quiet)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        # Its one member may take a moment to be gone.
        ControlGroups([Folder(probe, 1)]).remove(1.0)


def _unified(folder: Path, top: Path, wanted: set[str]) -> list[Folder]:
    # A v2 group that holds processes cannot hand out controllers: the nearest ancestor that does is the place.
    while True:
        with contextlib.suppress(OSError):
            enabled = set((folder / "cgroup.subtree_control").read_text().split())
            names = tuple(name for name in CONTROLLERS if name in enabled and name in wanted)
            if names and _can_make_groups(folder):
                return [Folder(folder, 2, names)]
        if folder == top or folder == folder.parent:
            return []
        folder = folder.parent
