"""A small process that outlives a killed evaluator for as long as it takes to remove what it left behind."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.processes import start_time
from nemo_evaluator.sandbox import jail


def own_folder(name: str) -> Path:
    """A folder of this user in which sandboxes are recorded, for ``nel sandbox``."""
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    folder.mkdir(mode=0o711, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise SandboxError(f"{folder} belongs to someone else", hint="remove it, or set TMPDIR")
    return folder


def watched_folder() -> Path:
    """Where sandboxes are recorded that a command removes."""
    return own_folder("nel-watched")


class Reaper:
    """Knows what to remove. It notices our end, whatever the end was, because its stdin closes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()

    async def watch(self, name: str, host: str, delete: list[str]) -> None:
        """Remember a container: at our end, a DELETE of each path is sent to the engine at ``host``, in order."""
        await self._tell({"add": name, "host": host, "delete": delete})

    async def watch_command(self, name: str, argv: list[str], *, kind: str, run_id: str) -> None:
        """Remember a sandbox with the command that removes it: run at our end, or by ``nel sandbox gc``."""
        file = _record(name)
        pid = os.getpid()
        # Steps belong to a job, also when somebody else removes them.
        env = {key: value for key, value in os.environ.items() if key == "SLURM_JOB_ID"}
        owner = {"owner": pid, "began": start_time(pid), "started": time.time()}
        file.write_text(
            json.dumps(
                {"kind": kind, "name": name, "run_id": run_id, "argv": argv, "env": env, **owner}
            )
        )
        await self._tell({"add": name, "argv": argv, "record": str(file)})

    async def forget(self, name: str) -> None:
        """It is gone already."""
        _record(name).unlink(missing_ok=True)
        await self._tell({"forget": name})

    async def close(self) -> None:
        """End the process; what it still knows, it removes."""
        process = self._process
        self._process = None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.to_thread(process.wait, 60)

    async def _tell(self, message: dict[str, Any]) -> None:
        async with self._lock:
            if self._process is None:
                argv = jail.command("reaper")
                pipe = subprocess.PIPE
                self._process = await asyncio.to_thread(
                    subprocess.Popen, argv, stdin=pipe, start_new_session=True, cwd="/"
                )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()


def _record(name: str) -> Path:
    return watched_folder() / f"{safe_name(name)}.json"
