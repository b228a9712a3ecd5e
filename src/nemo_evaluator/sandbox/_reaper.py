"""A small process that outlives a killed evaluator until it has removed the evaluator's sandboxes."""

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
    """A folder of this user for records of sandboxes, which ``nel sandbox`` reads.

    Raises:
        SandboxError: It belongs to another user.
    """
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    folder.mkdir(mode=0o711, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise SandboxError(f"{folder} belongs to someone else", hint="remove it, or set TMPDIR")
    return folder


def watched_folder() -> Path:
    """The folder for records of sandboxes that a command removes."""
    return own_folder("nel-watched")


class Reaper:
    """The reaper process, which removes the sandboxes it knows when its stdin closes, however the evaluator ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()

    async def watch(self, name: str, host: str, delete: list[str]) -> None:
        """Watch a container.

        Args:
            name: Its name.
            host: The address of its engine.
            delete: The paths for which the reaper sends DELETE requests, in order.
        """
        await self._send({"add": name, "host": host, "delete": delete})

    async def watch_command(self, name: str, argv: list[str], *, kind: str, run_id: str) -> None:
        """Watch a sandbox that a command removes; ``nel sandbox gc`` can run the command, too.

        Args:
            name: Its name.
            argv: The command.
            kind: The type of the sandbox.
            run_id: The run that it belongs to.
        """
        file = _record(name)
        pid = os.getpid()
        # Steps belong to a job, also when another process removes them.
        env = {key: value for key, value in os.environ.items() if key == "SLURM_JOB_ID"}
        record = {
            "kind": kind,
            "name": name,
            "run_id": run_id,
            "argv": argv,
            "env": env,
            "owner": pid,
            "began": start_time(pid),
            "started": time.time(),
        }
        file.write_text(json.dumps(record))
        await self._send({"add": name, "argv": argv, "record": str(file)})

    async def forget(self, name: str) -> None:
        """Stop watching a sandbox, which was removed."""
        _record(name).unlink(missing_ok=True)
        await self._send({"forget": name})

    async def close(self) -> None:
        """End the process, which first removes the sandboxes that it still watches."""
        process = self._process
        self._process = None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.to_thread(process.wait, 60)

    async def _send(self, message: dict[str, Any]) -> None:
        """Send a message to the reaper process, which is started if necessary."""
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
