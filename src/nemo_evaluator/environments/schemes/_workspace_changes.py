"""Prepare fresh sandboxes for a verifier: the task's initial state, the agent's work, and some files restored."""

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
    """The changes that an agent made to a workspace."""

    before: Snapshot
    after: Snapshot
    changes: dict[str, Change]
    steering: dict[str, SteeringChange]


@dataclass(slots=True)
class Workspaces:
    """Prepares a verifier's sandbox, as often as needed.

    Attributes:
        sandbox: The sandbox to prepare.
        workdir: The working directory of the task.
        scratch: A local folder for archives.
        task_tests: The file names of the task's tests.
    """

    sandbox: VerifierSandbox
    workdir: str
    scratch: Path
    task_tests: frozenset[str]
    # Folders that the task's tests change to, or search for modules, as they name them.
    test_folders: frozenset[str]
    # The files that the tests patch, relative to the root.
    patched_paths: frozenset[str] = frozenset()
    # All words in the task's tests.
    test_words: frozenset[str] = frozenset()
    # The folder that nel carries over: the repository around the working directory, else the working directory.
    root: str = field(default="", init=False)
    # The tests' home directory, if the image's home directory is inside the workspace.
    home: str | None = field(default=None, init=False)
    work: Work | None = field(default=None, init=False)
    _home_below: str = field(default="", init=False)
    # Whether the sandbox has the agent's work, and nothing has run in it since.
    _is_unused: bool = field(default=False, init=False)

    async def _locate(self) -> None:
        """Find the root of the workspace, and whether the home directory is inside it."""
        folder = shlex.quote(self.workdir)
        command = f'git -C {folder} rev-parse --show-toplevel 2>/dev/null || echo {folder}; printf %s "$HOME"'
        locate_result = await self.sandbox.exec(command, cwd="/")
        root, _, home = locate_result.stdout.partition("\n")
        if not root.startswith("/"):
            raise SandboxError(
                f"could not find the workspace: {locate_result.stderr.strip()[-300:]}"
            )
        # A repository of the whole file system is not a workspace.
        self.root = self.workdir if root == "/" else root
        home_below = _path_below(home, self.root)
        if home_below is not None:
            self._home_below = home_below
            self.home = self._home_outside()

    def _home_outside(self) -> str:
        """Return a home directory outside the workspace; if that is the whole file system, the first one."""
        if self.root == "/":
            return _HOMES[0]
        return next(folder for folder in _HOMES if _path_below(folder, self.root) is None)

    async def prepare(self, restore: Collection[str] = (), *, with_work: bool = True) -> None:
        """Start a fresh sandbox, or reuse one in which nothing has run since it got the agent's work.

        Args:
            restore: Paths to restore to their initial state.
            with_work: Whether to add the agent's work.

        Raises:
            SandboxError: The sandbox could not be prepared.
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
            command = f'mkdir -p {self.home} && cp -a "$HOME/." {self.home}/'
            await _must(self.sandbox, command, "copying the home of the image")
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
        """Return the sandbox for a test run; the next `prepare` starts another one."""
        self._is_unused = False
        return self.sandbox

    async def snapshot(self, name: str) -> Snapshot:
        """Take a snapshot of the workspace, and store its archive under a name."""
        return await take_snapshot(
            self.sandbox, self.root, self.scratch / f"{name}.tar", texts=sectioned_files()
        )

    def compare(self, before: Snapshot, after: Snapshot) -> Work:
        """Return the changes between two snapshots of the workspace."""
        changes = changes_between(before, after)
        steering = steering_changes(
            before,
            after,
            changes,
            task_tests=self.task_tests,
            start_folders=self._start_folders(),
            patched_paths=self.patched_paths,
            test_words=self.test_words,
        )
        return Work(before, after, changes, steering=steering)

    def _start_folders(self) -> set[str]:
        """Return the folders, relative to the root, in which the tests start programs."""
        folders: set[str] = set()
        for folder in (self.workdir, *self.test_folders):
            below = _path_below(str(PurePosixPath(self.workdir, folder)), self.root)
            if below is not None:
                folders.add(below)
        return folders

    async def _restore(self, work: Work, restore: Collection[str]) -> None:
        """Restore some paths to their initial state, and remove those that are new."""
        if not restore:
            return
        paths = set(restore)
        for path in restore:
            for parent in PurePosixPath(path).parents:
                entry = work.after.get(str(parent))
                # Remove a link or file that replaced a folder first; files would otherwise be written through it.
                if entry is not None and entry.kind != "folder":
                    paths.add(str(parent))
        archived_paths = [path for path in work.before if path in paths or _is_below(path, paths)]
        await self._unpack("before", paths, archived_paths, folder=self.root)

    async def _fill_home(self, work: Work) -> None:
        """Copy the agent's files in the home directory to the tests' home, except steering files."""
        assert self.home is not None
        home_below = self._home_below
        paths: list[str] = []
        for path, change in work.changes.items():
            is_in_home = not home_below or path.startswith(f"{home_below}/")
            if is_in_home and change != "removed" and path not in work.steering:
                paths.append(path)
        await self._unpack("after", [], paths, folder=self.home, below=home_below)

    async def _unpack(
        self,
        archive: str,
        remove: Collection[str],
        paths: Collection[str],
        folder: str,
        below: str = "",
    ) -> None:
        """Remove some paths from a folder of the sandbox, and unpack others from an archive into it."""
        staging_folder = self.scratch / "parcel"
        staging_folder.mkdir(exist_ok=True)
        name_list = b"".join(
            f"./{path}".encode("utf-8", "surrogateescape") + b"\0" for path in remove
        )
        (staging_folder / "list").write_bytes(name_list or b"./.nel-nothing\0")
        source = self.scratch / f"{archive}.tar"
        await asyncio.to_thread(copy_entries, source, staging_folder / "files.tar", paths, below)
        await self.sandbox.upload(staging_folder, _RESTORE)
        command = ["sh", "-c", _UNPACK, "sh", folder, _RESTORE]
        unpack_result = await self.sandbox.exec(command, timeout=600.0, cwd="/")
        if not unpack_result.ok:
            raise SandboxError(f"could not restore files: {unpack_result.stderr.strip()[-300:]}")


def _path_below(path: str, folder: str) -> str | None:
    """Return a path relative to a folder; None if it is not in the folder."""
    pure_path = PurePosixPath(path)
    if not pure_path.is_absolute() or not pure_path.is_relative_to(folder):
        return None
    relative_path = str(pure_path.relative_to(folder))
    return "" if relative_path == "." else relative_path


def _is_below(path: str, folders: Collection[str]) -> bool:
    return any(str(parent) in folders for parent in PurePosixPath(path).parents)


async def _must(sandbox: Sandbox, command: str, what: str) -> None:
    """Run a command in the sandbox; raise SandboxError if it fails."""
    result = await sandbox.exec(command, timeout=600.0, cwd="/")
    if not result.ok:
        raise SandboxError(f"{what} failed in the sandbox: {result.stderr.strip()[-300:]}")
