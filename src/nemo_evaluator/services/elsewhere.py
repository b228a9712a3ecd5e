"""Servers that somebody else starts from our plans, such as the script of a SLURM job: only asked and watched here.

The evaluator is told of them by a JSON file that ``NEL_STARTED_SERVICES`` names::

    {"model": {"api_key_env": "NEL_KEY_MODEL",
               "servers": [{"host": "node-7", "port": 8000, "log": "logs/server-model.log",
                            "exit_code_file": "logs/server-model.exit"}]}}

``api_key_env`` names the variable that holds the servers' token. ``exit_code_file`` appears when the server has ended
and holds its exit code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.services.base import Launch
from nemo_evaluator.services.life import Server

STARTED: Final = "NEL_STARTED_SERVICES"
_LOOK: Final = 0.5


@dataclass(frozen=True, slots=True)
class StartedServer:
    """Where one such server is, or will be."""

    host: str
    port: int
    log: Path | None = None
    exit_code_file: Path | None = None


@dataclass(frozen=True, slots=True)
class StartedService:
    """The servers of one service."""

    servers: list[StartedServer] = field(default_factory=list)
    api_key: Secret | None = None


def started_services(environment: Mapping[str, str] = os.environ) -> dict[str, StartedService]:
    """What was started for this run, by service name; nothing when no file was named."""
    named = environment.get(STARTED)
    return {name: _service(one, environment) for name, one in read_json(Path(named)).items()} if named else {}


def _service(data: dict[str, object], environment: Mapping[str, str]) -> StartedService:
    servers = data.get("servers")
    assert isinstance(servers, list), f"{STARTED}: servers is a list"
    variable = data.get("api_key_env")
    if variable and str(variable) not in environment:
        raise UsageError(f"{STARTED} names the variable {variable}, which is not set")
    return StartedService(
        servers=[
            StartedServer(one["host"], one["port"], _path(one, "log"), _path(one, "exit_code_file")) for one in servers
        ],
        api_key=Secret(environment[str(variable)]) if variable else None,
    )


def _path(data: dict[str, str], key: str) -> Path | None:
    return Path(data[key]) if data.get(key) else None


class WatchedServer(Server):
    """A server whose start and end are somebody else's business."""

    def __init__(self, name: str, launch: Launch, started: StartedServer) -> None:
        super().__init__(name, launch, started.log or Path(os.devnull))
        self._end = started.exit_code_file

    async def _begin(self) -> None:
        return

    def _exit_code(self) -> int | None:
        text = self._end.read_text().strip() if self._end is not None and self._end.is_file() else ""
        return int(text) if text else None

    async def _ended(self) -> None:
        while self._exit_code() is None:
            await asyncio.sleep(_LOOK)

    async def stop(self) -> None:
        """Whoever started it stops it."""
