"""All services of a config: up in the order of ``depends_on``, side by side where they can be, down in reverse."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Protocol

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.services.base import RunningService, Say
from nemo_evaluator.services.health import expect_external
from nemo_evaluator.services.life import Server
from nemo_evaluator.services.planner import is_managed, plan_service
from nemo_evaluator.services.process import ManagedServer
from nemo_evaluator.services.steps import JobPlace


class HasServices(Protocol):
    """An EvalConfig, as far as it matters here."""

    @property
    def services(self) -> Mapping[str, Any]:
        """Name to service config."""
        ...


@asynccontextmanager
async def start_services(
    config: HasServices, output_dir: Path, *, say: Say | None = None
) -> AsyncIterator[dict[str, RunningService]]:
    """Start what is ours to start and give the address of every service that has one.

    ::

        async with start_services(config, output_dir) as running:
            url, key = running["model"].url, running["model"].api_key

    A service with a ``url`` of its own is not started, only asked for its ``health_path`` where it has one; in a
    job of a cluster servers are steps of that job (``steps.py``). Logs go to ``logs/server-<name>.log``. Raises
    a NelError when a service cannot be started or is not up; those already up are stopped first.
    """
    say, services = say or _to_stderr, config.services
    planned = _servers(services, output_dir)
    running: dict[str, RunningService] = {}
    begun: list[Server] = []

    async def bring_up(name: str) -> None:
        servers = planned.get(name)
        if servers is None:
            running[name] = await _external(name, services[name])
            return
        say(f"Starting service: {name} ({services[name].type})")
        begun.extend(servers)
        await _all_or_first_error([server.start(say) for server in servers])
        urls = [server.launch.url for server in servers]
        key = servers[0].launch.api_key
        running[name] = RunningService(name, urls[0], key, urls if len(urls) > 1 else ())

    try:
        for level in _levels(services):
            await _all_or_first_error([bring_up(name) for name in level])
        yield running
    finally:
        for server in reversed(begun):
            await server.stop()


def _servers(services: Mapping[str, Any], output_dir: Path) -> dict[str, Sequence[Server]]:
    job, logs = JobPlace.here(), output_dir / "logs"
    return {
        name: job.servers(name, service, logs) if job is not None else _ours(name, service, logs)
        for name, service in services.items()
        if is_managed(service)
    }


def _ours(name: str, service: Any, logs: Path) -> list[Server]:
    plans = plan_service(name, service)
    names = [name] if len(plans) == 1 else [f"{name}-{number}" for number in range(len(plans))]
    files = [logs / f"server-{safe_name(each)}.log" for each in names]
    return [ManagedServer(each, plan, log) for each, plan, log in zip(names, plans, files, strict=True)]


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


async def _all_or_first_error(work: list[Any]) -> None:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
