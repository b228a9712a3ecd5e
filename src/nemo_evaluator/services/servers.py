"""The servers that are ours to start: a group for each service, and HAProxy before it where that is asked for."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.values import replace
from nemo_evaluator.services._model_server import filled
from nemo_evaluator.services.base import Launch, RunningService, Say, all_or_first_error
from nemo_evaluator.services.leftovers import sweep_leftovers
from nemo_evaluator.services.life import Server
from nemo_evaluator.services.planner import plan_service
from nemo_evaluator.services.process import ManagedServer
from nemo_evaluator.services.steps import JobPlace


async def planned_servers(managed: Mapping[str, Any], output_dir: Path, say: Say) -> dict[str, Group]:
    """The servers of every service that is ours to start; what earlier runs left behind on this machine is ended."""
    job, logs = JobPlace.here(), output_dir / "logs"
    placed = {name: job.placed(one) if job else one for name, one in managed.items()}
    planned = {
        name: _group(name, one, job.servers(name, one, logs) if job else _ours(name, one, logs), logs)
        for name, one in placed.items()
    }
    if job is None:
        await sweep_leftovers(say, containers=any(getattr(one, "image", None) for one in managed.values()))
    return planned


class Group:
    """The servers of one service, kept up while the run lasts, and what stands before them."""

    def __init__(self, servers: Sequence[Server], front: Server | None = None) -> None:
        self._servers, self._front = servers, front
        self._keepers: list[asyncio.Task[None]] = []
        self._losses: list[str] = []

    async def start(self, name: str, say: Say) -> RunningService:
        await all_or_first_error([server.start(say) for server in self._servers])
        if self._front is not None:
            await self._front.start(say)
        self._keepers = [asyncio.create_task(self._keep(server, say)) for server in self._all]
        urls = [server.launch.url for server in ([self._front] if self._front else self._servers)]
        key = self._servers[0].launch.api_key
        return RunningService(name, urls[0], key, urls if len(urls) > 1 else (), self._lost)

    async def stop(self) -> None:
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(server.stop() for server in self._all))

    @property
    def _all(self) -> list[Server]:
        return [*([self._front] if self._front else []), *self._servers]

    async def _keep(self, server: Server, say: Say) -> None:
        try:
            await server.keep(say)
        except TransportError as error:
            say(error.message)
            self._losses += [error.message] * (len(self._servers) if server is self._front else 1)

    def _lost(self) -> str | None:
        """Why nothing will answer any more: the last server is gone, or what stands before them."""
        return self._losses[-1] if len(self._losses) >= len(self._servers) else None


def _ours(name: str, service: Any, logs: Path) -> list[Server]:
    plans = plan_service(name, service)
    names = [name] if len(plans) == 1 else [f"{name}-{number}" for number in range(len(plans))]
    return [ManagedServer(each, plan, _log(logs, each)) for each, plan in zip(names, plans, strict=True)]


def _group(name: str, service: Any, servers: Sequence[Server], logs: Path) -> Group:
    plans = [server.launch for server in servers]
    if len(plans) == 1 or getattr(service, "balancer", "nel") != "haproxy":
        return Group(servers)
    file = logs / f"haproxy-{safe_name(name)}.cfg"
    logs.mkdir(parents=True, exist_ok=True)
    file.write_text(haproxy_config(plans, service.balancer_port))
    front = f"{name}-haproxy"
    return Group(servers, ManagedServer(front, haproxy_launch(plans, service.balancer_port, file), _log(logs, front)))


def _log(folder: Path, name: str) -> Path:
    return folder / f"server-{safe_name(name)}.log"


def haproxy_config(servers: Sequence[Launch], port: int) -> str:
    """The whole file: least connections first, servers that fail their health check are left out."""
    lines = filled("haproxy.cfg", port=port, health=servers[0].health_paths[0])
    for number, server in enumerate(servers):
        lines.append(f"    server server-{number} {server.host}:{server.port} check inter 1s fall 2 rise 1")
    return "\n".join(lines) + "\n"


def haproxy_launch(servers: Sequence[Launch], port: int, file: Path) -> Launch:
    """The plan of HAProxy itself; ``file`` holds its config."""
    if shutil.which("haproxy") is None:
        raise UsageError("haproxy is not on PATH", hint="install it, or leave out balancer: nel then balances itself")
    argv = ["haproxy", "-db", "-f", str(file)]
    return replace(
        servers[0], argv=argv, host="127.0.0.1", port=port, env={}, image=None, mounts=(), gpus=0, nodes=1, pools=()
    )
