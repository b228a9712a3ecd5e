"""All services of a config: up in the order of ``depends_on``, side by side where they can be, down in reverse."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.services._model_server import filled
from nemo_evaluator.services.base import Launch, RunningService, Say
from nemo_evaluator.services.health import expect_external
from nemo_evaluator.services.leftovers import sweep_leftovers
from nemo_evaluator.services.life import Server
from nemo_evaluator.services.planner import is_managed, plan_service
from nemo_evaluator.services.process import ManagedServer
from nemo_evaluator.services.steps import JobPlace


@asynccontextmanager
async def start_services(
    config: EvalConfig, output_dir: Path, *, say: Say | None = None
) -> AsyncIterator[dict[str, RunningService]]:
    """Start what is ours to start and give the address of every service that has one.

    ::

        async with start_services(config, output_dir) as running:
            url, key = running["model"].url, running["model"].api_key

    A service with a ``url`` of its own is not started, only asked for its ``health_path`` where it has one; in a
    job of a cluster servers are steps of that job (``steps.py``). Logs go to ``logs/server-<name>.log``. Raises
    a NelError when a service cannot be started or is not up; those already up are stopped first.
    """
    say, services = say or partial(print, file=sys.stderr, flush=True), config.services
    planned = _servers(services, output_dir)
    running: dict[str, RunningService] = {}
    begun: list[_Group] = []
    if planned and JobPlace.here() is None:
        await sweep_leftovers(say, containers=any(getattr(services[name], "image", None) for name in planned))

    async def bring_up(name: str) -> None:
        group = planned.get(name)
        if group is None:
            running[name] = await _external(name, services[name])
            return
        say(f"Starting service: {name} ({services[name].type})")
        begun.append(group)
        running[name] = await group.start(name, say)

    try:
        for level in _levels(services):
            await all_or_first_error([bring_up(name) for name in level])
        yield running
    finally:
        for group in reversed(begun):
            await group.stop()


class _Group:
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


def _servers(services: Mapping[str, Any], output_dir: Path) -> dict[str, _Group]:
    job, logs = JobPlace.here(), output_dir / "logs"
    managed = {name: job.placed(one) if job else one for name, one in services.items() if is_managed(one)}
    return {
        name: _group(name, one, job.servers(name, one, logs) if job else _ours(name, one, logs), logs)
        for name, one in managed.items()
    }


def _ours(name: str, service: Any, logs: Path) -> list[Server]:
    plans = plan_service(name, service)
    names = [name] if len(plans) == 1 else [f"{name}-{number}" for number in range(len(plans))]
    return [ManagedServer(each, plan, _log(logs, each)) for each, plan in zip(names, plans, strict=True)]


def _group(name: str, service: Any, servers: Sequence[Server], logs: Path) -> _Group:
    plans = [server.launch for server in servers]
    if len(plans) == 1 or getattr(service, "balancer", "nel") != "haproxy":
        return _Group(servers)
    file = logs / f"haproxy-{safe_name(name)}.cfg"
    logs.mkdir(parents=True, exist_ok=True)
    file.write_text(haproxy_config(plans, service.balancer_port))
    front = f"{name}-haproxy"
    return _Group(servers, ManagedServer(front, haproxy_launch(plans, service.balancer_port, file), _log(logs, front)))


def _log(folder: Path, name: str) -> Path:
    return folder / f"server-{safe_name(name)}.log"


async def _external(name: str, service: Any) -> RunningService:
    key = getattr(service, "api_key", None)
    health_path = getattr(service, "health_path", None)
    if health_path:
        await expect_external(name, service.url, health_path, key)
    return RunningService(name, service.url, key)


def _levels(services: Mapping[str, Any]) -> list[tuple[str, ...]]:
    order = TopologicalSorter({name: service.depends_on for name, service in services.items()})
    order.prepare()
    levels: list[tuple[str, ...]] = []
    while order.is_active():
        levels.append(order.get_ready())
        order.done(*levels[-1])
    return levels


async def all_or_first_error(work: list[Any]) -> None:
    """Wait for all; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
