"""A small process that outlives a killed evaluator for as long as it takes to remove what it left behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Reaper:
    """Knows what to remove. It notices our end, whatever the end was, because its stdin closes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()

    async def watch(self, name: str, host: str, delete: str) -> None:
        """Remember a container: at our end, ``DELETE delete`` is sent to the engine at ``host``."""
        await self._tell({"add": name, "host": host, "delete": delete})

    async def watch_command(self, name: str, argv: list[str]) -> None:
        """Remember a command to run at our end."""
        await self._tell({"add": name, "argv": argv})

    async def forget(self, name: str) -> None:
        """It is gone already."""
        await self._tell({"forget": name})

    async def close(self) -> None:
        """End the process; what it still knows, it removes."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.to_thread(process.wait, 60)

    async def _tell(self, message: dict[str, Any]) -> None:
        async with self._lock:
            if self._process is None:
                self._process = await asyncio.to_thread(_launch)
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()


def _launch() -> subprocess.Popen[bytes]:
    folder = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); from jail.reaper import main; main()"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, start_new_session=True, cwd="/"
    )
