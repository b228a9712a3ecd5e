"""Limits by control groups, in the v1, v2 and hybrid layouts. Without write access there are none."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

CONTROLLERS: Final = ("memory", "pids", "cpu")
_PERIOD: Final = 100_000
_SMALLEST_QUOTA: Final = 1000
# Bytes of a file of the kernel; those that are read have a few lines.
_MAX_CONTENT: Final = 4096


@dataclass(frozen=True)
class Folder:
    """The folder of a control group in one hierarchy, or a folder in which such groups can be created."""

    path: Path
    #: Of the interface: 1 or 2.
    version: int
    #: The controllers that limit the group in this hierarchy.
    controllers: tuple[str, ...] = ()


@dataclass
class ControlGroups:
    """The control groups of one sandbox: one folder per hierarchy."""

    folders: list[Folder] = field(default_factory=list)

    def limit(self, *, memory: int = 0, pids: int = 0, cpus: float = 0.0) -> None:
        """Set the limits; 0 means no limit.

        Args:
            memory: Bytes.
            pids: Processes and threads.
            cpus: Processors, also parts of one.

        Raises:
            OSError: A limit cannot be set.
        """
        for folder in self.folders:
            if "memory" in folder.controllers and memory:
                _limit_memory(folder, memory)
            if "pids" in folder.controllers and pids:
                (folder.path / "pids.max").write_text(str(pids))
            if "cpu" in folder.controllers and cpus:
                _limit_cpus(folder, cpus)

    def join(self) -> None:
        """Put this process into the group."""
        for folder in self.folders:
            (folder.path / "cgroup.procs").write_text("0")

    def members(self) -> set[int]:
        """The ids of the processes inside."""
        pids: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                text = (folder.path / "cgroup.procs").read_text()
                pids.update(map(int, text.split()))
        return pids

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
        """Remove the folders.

        Args:
            patience: Seconds to wait for the last processes to end.

        Returns:
            Whether all folders are gone.
        """
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


def _limit_memory(folder: Folder, memory: int) -> None:
    """Limit memory, and swap where the kernel counts it. In v1 the swap limit includes memory; in v2 it does not."""
    if folder.version == 1:
        limit_file = folder.path / "memory.limit_in_bytes"
        swap_file = folder.path / "memory.memsw.limit_in_bytes"
        swap_limit = memory
    else:
        limit_file = folder.path / "memory.max"
        swap_file = folder.path / "memory.swap.max"
        swap_limit = 0
    limit_file.write_text(str(memory))
    if swap_file.exists():
        swap_file.write_text(str(swap_limit))


def _limit_cpus(folder: Folder, cpus: float) -> None:
    quota = max(_SMALLEST_QUOTA, int(cpus * _PERIOD))
    if folder.version == 1:
        (folder.path / "cpu.cfs_period_us").write_text(str(_PERIOD))
        (folder.path / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (folder.path / "cpu.max").write_text(f"{quota} {_PERIOD}")


def parents(proc: Path = Path("/proc")) -> list[Folder]:
    """The folders in which this process can create groups for memory, pids and cpu; v1 hierarchies come first."""
    hierarchies, unified = _mounted_hierarchies(proc)
    own_paths = _own_paths(proc)
    missing = set(CONTROLLERS)
    folders = list[Folder]()
    for mount_point, options in hierarchies:
        controllers = tuple(name for name in CONTROLLERS if name in options and name in missing)
        if not controllers:
            continue
        folder = _inside(mount_point, own_paths.get(controllers[0], "/"))
        if _can_make_groups(folder):
            folders.append(Folder(folder, 1, controllers))
            missing -= set(controllers)
    for mount_point in unified:
        if missing:
            folder = _inside(mount_point, own_paths.get("", "/"))
            folders += _unified(folder, mount_point, missing)
    return folders


def _mounted_hierarchies(proc: Path) -> tuple[list[tuple[Path, set[str]]], list[Path]]:
    """The mount points of the v1 hierarchies, each with its options, and those of v2."""
    hierarchies: list[tuple[Path, set[str]]] = []
    unified: list[Path] = []
    for line in (proc / "mounts").read_text().splitlines():
        _device, escaped, kind, options, *_rest = line.split(" ")
        mount_point = Path(escaped.replace("\\040", " "))
        if kind == "cgroup":
            hierarchies.append((mount_point, set(options.split(","))))
        elif kind == "cgroup2":
            unified.append(mount_point)
    return hierarchies, unified


def _own_paths(proc: Path) -> dict[str, str]:
    """The path of our own group by controller; that of the v2 group under an empty name."""
    paths: dict[str, str] = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def create(name: str, where: list[Folder]) -> ControlGroups:
    """Create a group without limits in every hierarchy.

    Args:
        name: Its name.
        where: The folders in which to create it, from ``parents``.

    Raises:
        OSError: It cannot be created in one of them; then it is in none.
    """
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
    """How many processes of the group the kernel has killed because memory ran out."""
    total = 0
    for folder in folders:
        for name in ("memory.oom_control", "memory.events"):
            for line in _content(f"{folder}/{name}").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    total += int(value)
    return total


def processes(folders: list[str]) -> int:
    """How many processes and threads the group holds; 0 when its hierarchies do not count them."""
    for folder in folders:
        count = _content(f"{folder}/pids.current")
        if count:
            return int(count)
    return 0


def _content(path: str) -> str:
    """The content of a small file of the kernel; "" where there is none.

    Several are read for each program, and ``open`` takes several times as long.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            return os.read(fd, _MAX_CONTENT).decode()
        finally:
            os.close(fd)
    except OSError:
        return ""


def _inside(point: Path, path: str) -> Path:
    """The folder of our own group below a mount point. In a container the path may be the host's; then the mount point
    itself is our group."""
    folder = point / path.lstrip("/")
    if folder.is_dir():
        return folder
    return point


def _can_make_groups(folder: Path) -> bool:
    """Whether this process can create a group in a folder, and move a process into it."""
    if not os.access(folder, os.W_OK):
        return False
    probe = folder / f"nel-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        # Creating a group needs one right, moving a process into it another.
        if not (probe / "cgroup.procs").exists():
            return True
        shell = ["sh", "-c", 'echo $$ > "$1"', "sh", str(probe / "cgroup.procs")]
        quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        pid = os.posix_spawn("/bin/sh", shell, {}, file_actions=quiet)
        _pid, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status) == 0
    finally:
        # Its one member may take a moment to end.
        ControlGroups([Folder(probe, 1)]).remove(1.0)


def _unified(folder: Path, top: Path, wanted: set[str]) -> list[Folder]:
    """The nearest ancestor of our v2 group in which groups can be created: a group that holds processes passes on no
    controllers. Empty when there is none up to ``top``."""
    while True:
        with contextlib.suppress(OSError):
            enabled = set((folder / "cgroup.subtree_control").read_text().split())
            names = tuple(name for name in CONTROLLERS if name in enabled and name in wanted)
            if names and _can_make_groups(folder):
                return [Folder(folder, 2, names)]
        if folder == top or folder == folder.parent:
            return []
        folder = folder.parent
