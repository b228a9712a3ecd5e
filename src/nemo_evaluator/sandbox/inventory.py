"""Which sandboxes exist, whose they are, and the removal of those whose owner is gone."""

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

# What apptainer and SLURM say of a sandbox that has ended by itself.
_GONE: Final = (b"no instance found", b"nvalid job id", b"has expired")


@dataclass(frozen=True, slots=True)
class Found:
    """A sandbox that exists."""

    kind: str
    name: str
    run_id: str
    owner: str
    age_s: float
    orphan: bool
    handle: Any


async def find_sandboxes() -> list[Found]:
    """All sandboxes of this user: local ones, those that a command removes, and the containers of a docker engine."""
    return [*await asyncio.to_thread(_recorded), *await _docker()]


async def remove_sandboxes(found: list[Found]) -> list[Found]:
    """Remove the given sandboxes; those that are gone afterwards."""
    removed: list[Found] = []
    for one in found:
        if one.kind == "docker":
            async with aclosing(DockerApi()) as api:
                if one.handle:
                    await api.call(
                        "DELETE", f"/containers/{one.handle}", force=True, v=True, ok=(404, 409)
                    )
                await remove_network(api, one.name)
        elif not await asyncio.to_thread(
            _remove_watched if "argv" in one.handle[1] else _remove_local, *one.handle
        ):
            continue
        removed.append(one)
    return removed


def sweep() -> int:
    """Remove control groups and folders of keepers that were killed before they could; how many were removed."""
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


def _recorded() -> list[Found]:
    """Local sandboxes; and those of apptainer, slurm, gVisor and Fargate that a process of this machine has started."""
    found = []
    for file in [*sorted(state_root().glob("*/*.json")), *sorted(watched_folder().glob("*.json"))]:
        try:
            record = read_json(file)
        except (OSError, ValueError):
            continue
        if "keeper" in record:
            orphan = not (start_time(record["owner"]) and start_time(record["keeper"]))
        else:
            orphan = not is_alive(record["owner"], record["began"])
        kind = record.get("kind", "local")
        age = time.time() - record["started"]
        owner = f"pid {record['owner']}"
        found.append(
            Found(
                kind,
                record["name"],
                record["run_id"],
                owner=owner,
                age_s=age,
                orphan=orphan,
                handle=(file, record),
            )
        )
    return found


def _remove_watched(file: Path, record: dict[str, Any]) -> bool:
    env = {**os.environ, **record["env"]}
    done = subprocess.run(
        record["argv"],
        env=env,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    gone = done.returncode == 0 or any(word in done.stderr for word in _GONE)
    if gone:
        file.unlink(missing_ok=True)
    return gone


def _remove_local(file: Path, record: dict[str, Any]) -> bool:
    group = cgroups.ControlGroups(
        [cgroups.Folder(Path(path), version) for path, version in record["groups"]]
    )
    # With control groups we know who is inside. Without, the number may be someone else's by now: it is left alone
    # unless it still carries our name.
    group.kill()
    if not record["groups"] and process_name(record["pid"]) == "nel-warden":
        os.kill(record["pid"], signal.SIGKILL)
    gone = group.remove()
    if gone:
        file.unlink(missing_ok=True)
        _remove_folder(file.parent)
    return gone


def _remove_folder(folder: Path) -> None:
    if not any(folder.glob("*.json")):
        shutil.rmtree(folder)


async def _docker() -> list[Found]:
    try:
        async with aclosing(DockerApi()) as api:
            owned = {"label": ["nel.owner"]}
            listed = await api.call("GET", "/containers/json", all=True, filters=owned, timeout=10)
            networks = await api.call("GET", "/networks", filters=owned, timeout=10)
    except SandboxError:
        # No engine: then it holds no sandboxes either.
        return []
    found = [_of_docker(one["Labels"], time.time() - one["Created"], one["Id"]) for one in listed]
    names = {one.name for one in found}
    # A network whose container is gone already.
    for one in networks or ():
        if one["Name"] not in names:
            found.append(_of_docker(one["Labels"], 0.0, ""))
    return found


def _of_docker(labels: dict[str, str], age: float, handle: str) -> Found:
    host, pid, began = labels["nel.owner"].split(":")
    here = host == socket.gethostname()
    orphan = here and str(start_time(int(pid))) != began
    owner = f"pid {pid}" if here else f"pid {pid} on {host}"
    name = labels.get("nel.sandbox", "")
    run_id = labels.get("nel.run_id", "")
    return Found("docker", name, run_id, owner=owner, age_s=age, orphan=orphan, handle=handle)
