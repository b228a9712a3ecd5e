"""The sandboxes that exist, their owners, and the removal of those whose owner is gone."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.processes import is_alive, process_name, start_time
from nemo_evaluator.sandbox._docker_api import DockerApi
from nemo_evaluator.sandbox._docker_network import remove_network
from nemo_evaluator.sandbox._keeper_client import state_root
from nemo_evaluator.sandbox._reaper import watched_folder
from nemo_evaluator.sandbox.jail import cgroups

# Messages of apptainer and SLURM about a sandbox that has ended by itself.
_GONE: Final = (b"no instance found", b"nvalid job id", b"has expired")


@dataclass(frozen=True, slots=True)
class ExistingSandbox:
    """A sandbox that exists.

    Attributes:
        kind: The type of the sandbox.
        name: Its name; ``service NAME`` for a server in a container.
        run_id: The run that it belongs to.
        owner: The process that started it, in words.
        age_s: Seconds since it was started.
        orphan: Whether its owner is gone.
        handle: How to remove it: the id of a container, or a record file and its content.
    """

    kind: str
    name: str
    run_id: str
    owner: str
    age_s: float
    orphan: bool
    handle: Any


async def find_sandboxes() -> list[ExistingSandbox]:
    """Find all sandboxes of this user: those with a record on this machine, and the docker engine's containers."""
    return [*await asyncio.to_thread(_recorded), *await _docker()]


async def remove_sandboxes(sandboxes: list[ExistingSandbox]) -> list[ExistingSandbox]:
    """Remove sandboxes.

    Args:
        sandboxes: Those to remove.

    Returns:
        Those that no longer exist.
    """
    removed: list[ExistingSandbox] = []
    for sandbox in sandboxes:
        if sandbox.kind == "docker":
            await _remove_container(sandbox)
            removed.append(sandbox)
            continue
        file, record = sandbox.handle
        remove = _remove_watched if "argv" in record else _remove_local
        if await asyncio.to_thread(remove, file, record):
            removed.append(sandbox)
    return removed


async def _remove_container(sandbox: ExistingSandbox) -> None:
    """Remove a container and its network."""
    async with aclosing(DockerApi()) as api:
        if sandbox.handle:
            path = f"/containers/{sandbox.handle}"
            await api.call("DELETE", path, force=True, v=True, ok=(404, 409))
        await remove_network(api, sandbox.name)


def sweep() -> int:
    """Remove the control groups and folders of killed keepers; returns how many were removed."""
    removed = 0
    for parent in cgroups.parents():
        for folder in parent.path.glob("nel-*-*"):
            keeper = folder.name.split("-")[1]
            if keeper.isdigit() and not start_time(int(keeper)):
                group = cgroups.ControlGroups([cgroups.Folder(folder, parent.version)])
                group.kill()
                removed += group.remove()
    for folder in state_root().glob("*-*"):
        if not start_time(int(folder.name.partition("-")[0])):
            _remove_folder(folder)
            removed += not folder.exists()
    return removed


def _recorded() -> list[ExistingSandbox]:
    """The sandboxes with a record on this machine: local, apptainer, slurm, gVisor and Fargate ones."""
    files = [*sorted(state_root().glob("*/*.json")), *sorted(watched_folder().glob("*.json"))]
    sandboxes: list[ExistingSandbox] = []
    for file in files:
        try:
            record = read_json(file)
        except (OSError, ValueError):
            # It was removed meanwhile, or is just being written.
            continue
        sandbox = ExistingSandbox(
            kind=record.get("kind", "local"),
            name=record["name"],
            run_id=record["run_id"],
            owner=f"pid {record['owner']}",
            age_s=time.time() - record["started"],
            orphan=_is_orphan(record),
            handle=(file, record),
        )
        sandboxes.append(sandbox)
    return sandboxes


def _is_orphan(record: dict[str, Any]) -> bool:
    """Whether the owner of a sandbox, or the keeper of a local one, is gone."""
    if "keeper" in record:
        return not (start_time(record["owner"]) and start_time(record["keeper"]))
    return not is_alive(record["owner"], record["began"])


def _remove_watched(file: Path, record: dict[str, Any]) -> bool:
    """Remove a sandbox by the command in its record; True when it no longer exists."""
    completed = subprocess.run(
        record["argv"],
        env={**os.environ, **record["env"]},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    is_removed = completed.returncode == 0 or any(message in completed.stderr for message in _GONE)
    if is_removed:
        file.unlink(missing_ok=True)
    return is_removed


def _remove_local(file: Path, record: dict[str, Any]) -> bool:
    """Kill a local sandbox; True when it no longer exists."""
    folders = [cgroups.Folder(Path(path), version) for path, version in record["groups"]]
    group = cgroups.ControlGroups(folders)
    # Control groups list their members. Without them, another process may have the warden's number by now: nel kills
    # it only if it still has the warden's name.
    group.kill()
    if not record["groups"] and process_name(record["pid"]) == "nel-warden":
        os.kill(record["pid"], signal.SIGKILL)
    is_removed = group.remove()
    if is_removed:
        file.unlink(missing_ok=True)
        _remove_folder(file.parent)
    return is_removed


def _remove_folder(folder: Path) -> None:
    if not any(folder.glob("*.json")):
        shutil.rmtree(folder)


async def _docker() -> list[ExistingSandbox]:
    """The containers of the docker engine, and the networks whose container is gone."""
    try:
        async with aclosing(DockerApi()) as api:
            owner_filter = {"label": ["nel.owner"]}
            containers = await api.call(
                "GET", "/containers/json", all=True, filters=owner_filter, timeout=10
            )
            networks = await api.call("GET", "/networks", filters=owner_filter, timeout=10)
    except SandboxError:
        # Without an engine there are no containers either.
        return []
    sandboxes: list[ExistingSandbox] = []
    for container in containers:
        age = time.time() - container["Created"]
        sandboxes.append(_of_docker(container["Labels"], age, container["Id"]))
    names = {sandbox.name for sandbox in sandboxes}
    for network in networks or ():
        if network["Name"] not in names:
            sandboxes.append(_of_docker(network["Labels"], 0.0, ""))
    return sandboxes


def _of_docker(labels: dict[str, str], age: float, handle: str) -> ExistingSandbox:
    """Describe a container, or a network without a container, by its labels."""
    host, pid, began = labels["nel.owner"].split(":")
    is_local = host == socket.gethostname()
    return ExistingSandbox(
        kind="docker",
        name=labels.get("nel.sandbox", ""),
        run_id=labels.get("nel.run_id", ""),
        owner=f"pid {pid}" if is_local else f"pid {pid} on {host}",
        age_s=age,
        orphan=is_local and str(start_time(int(pid))) != began,
        handle=handle,
    )
