"""A fresh sandbox for a verifier: the task's start, with the agent's work, and with some files restored."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.lazy_sandbox import VerifierSandbox
from nemo_evaluator.sandbox.snapshot import (
    Change,
    Snapshot,
    changes_between,
    copy_entries,
    take_snapshot,
)
from nemo_evaluator.sandbox.steering import SteeringChange, sectioned_files, steering_changes

_HOMES: Final = ("/tmp/nel-home", "/var/tmp/nel-home")  # noqa: S108 - inside the sandbox
_RESTORE: Final = "/output/nel-restore"
_UNPACK: Final = (
    'cd "$1" && xargs -0 rm -rf -- < "$2/list" && tar -x -o -f "$2/files.tar" && rm -rf "$2"'
)


@dataclass(slots=True)
class Work:
    """What an agent did to a workspace."""

    before: Snapshot
    after: Snapshot
    changes: dict[str, Change]
    steering: dict[str, SteeringChange]


@dataclass(slots=True)
class Workspaces:
    """Makes a verifier's sandbox ready, as often as needed."""

    sandbox: VerifierSandbox
    workdir: str
    scratch: Path
    task_tests: frozenset[str]
    # Folders that the task's tests go to or look for modules in, as they name them.
    test_folders: frozenset[str]
    # The whole of what is carried: the repository that the working directory is in, else the directory.
    root: str = field(default="", init=False)
    # Where the tests' home is, if that of the image lies in the workspace.
    home: str | None = field(default=None, init=False)
    work: Work | None = field(default=None, init=False)
    _home_below: str = field(default="", init=False)
    # Whether the sandbox holds the work and nothing ran in it since.
    _is_unused: bool = field(default=False, init=False)

    async def _locate(self) -> None:
        """Find out what the workspace is, and whether the home is inside it."""
        place = shlex.quote(self.workdir)
        look = f'git -C {place} rev-parse --show-toplevel 2>/dev/null || echo {place}; printf %s "$HOME"'
        located = await self.sandbox.exec(look, cwd="/")
        root, _, home = located.stdout.partition("\n")
        if not root.startswith("/"):
            raise SandboxError(f"could not find the workspace: {located.stderr.strip()[-300:]}")
        # A repository that is the whole system is no workspace.
        self.root = self.workdir if root == "/" else root
        root = self.root
        below = _path_below(home, root)
        if below is not None:
            self._home_below = below
            self.home = next(
                place for place in _HOMES if _path_below(place, root) is None or root == "/"
            )

    async def prepare(self, restore: Collection[str] = (), *, with_work: bool = True) -> None:
        """Start a fresh sandbox.

        Args:
            restore: paths that shall be as they were at the start.
            with_work: whether the agent's work is put in.
        """
        if self._is_unused and with_work:
            assert self.work is not None
            await self._restore(self.work, restore)
            return
        self._is_unused = False
        await self.sandbox.renew(with_work=False)
        if not self.root:
            await self._locate()
        if self.home is not None:
            copy = f'mkdir -p {self.home} && cp -a "$HOME/." {self.home}/'
            await _must(self.sandbox, copy, "copying the home of the image")
        if not with_work:
            return
        if self.work is None:
            before = await self.snapshot("before")
            await self.sandbox.add_work()
            self.work = self.compare(before, await self.snapshot("after"))
        else:
            await self.sandbox.add_work()
        if self.home is not None:
            await self._fill_home(self.work)
        self._is_unused = True
        await self._restore(self.work, restore)

    def hand_over(self) -> VerifierSandbox:
        """The sandbox, for tests to run in: what is prepared next is another."""
        self._is_unused = False
        return self.sandbox

    async def snapshot(self, name: str) -> Snapshot:
        """What the workspace holds now; its archive is kept under a name."""
        return await take_snapshot(
            self.sandbox, self.root, self.scratch / f"{name}.tar", texts=sectioned_files()
        )

    def compare(self, before: Snapshot, after: Snapshot) -> Work:
        """The changes between two states of the workspace."""
        changes = changes_between(before, after)
        steering = steering_changes(
            before, after, changes, task_tests=self.task_tests, start_folders=self._start_folders()
        )
        return Work(before, after, changes, steering=steering)

    def _start_folders(self) -> set[str]:
        """Where the tests start programs: the working directory, and where they go with ``cd``, below the root."""
        folders: set[str] = set()
        for place in (self.workdir, *self.test_folders):
            below = _path_below(str(PurePosixPath(self.workdir, place)), self.root)
            if below is not None:
                folders.add(below)
        return folders

    async def _restore(self, work: Work, restore: Collection[str]) -> None:
        """Give some paths their state of the start: those that are new are removed."""
        if not restore:
            return
        paths = set(restore)
        for path in restore:
            for parent in PurePosixPath(path).parents:
                entry = work.after.get(str(parent))
                # What took the place of a folder goes first, or files would be written behind it.
                if entry is not None and entry.kind != "folder":
                    paths.add(str(parent))
        wanted = [path for path in work.before if path in paths or _is_below(path, paths)]
        await self._unpack("before", paths, wanted, folder=self.root)

    async def _fill_home(self, work: Work) -> None:
        """Bring what the agent left in the home, without what steers, to where the tests' home is."""
        assert self.home is not None
        below = self._home_below
        paths: list[str] = []
        for path, change in work.changes.items():
            inside = not below or path.startswith(f"{below}/")
            if inside and change != "removed" and path not in work.steering:
                paths.append(path)
        await self._unpack("after", [], paths, folder=self.home, below=below)

    async def _unpack(
        self,
        archive: str,
        remove: Collection[str],
        paths: Collection[str],
        folder: str,
        below: str = "",
    ) -> None:
        parcel = self.scratch / "parcel"
        parcel.mkdir(exist_ok=True)
        names = b"".join(f"./{path}".encode("utf-8", "surrogateescape") + b"\0" for path in remove)
        (parcel / "list").write_bytes(names or b"./.nel-nothing\0")
        source = self.scratch / f"{archive}.tar"
        await asyncio.to_thread(copy_entries, source, parcel / "files.tar", paths, below)
        await self.sandbox.upload(parcel, _RESTORE)
        words = ["sh", "-c", _UNPACK, "sh", folder, _RESTORE]
        unpacked = await self.sandbox.exec(words, timeout=600.0, cwd="/")
        if not unpacked.ok:
            raise SandboxError(f"could not restore files: {unpacked.stderr.strip()[-300:]}")


def _path_below(path: str, folder: str) -> str | None:
    """A path as it is seen from a folder; None when it is not the folder and not below it."""
    place = PurePosixPath(path)
    if not place.is_absolute() or not place.is_relative_to(folder):
        return None
    below = str(place.relative_to(folder))
    return "" if below == "." else below


def _is_below(path: str, folders: Collection[str]) -> bool:
    return any(str(parent) in folders for parent in PurePosixPath(path).parents)


async def _must(sandbox: Sandbox, command: str, what: str) -> None:
    result = await sandbox.exec(command, timeout=600.0, cwd="/")
    if not result.ok:
        raise SandboxError(f"{what} failed in the sandbox: {result.stderr.strip()[-300:]}")
