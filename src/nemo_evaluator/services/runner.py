"""All services of a config: up in the order of ``depends_on``, side by side where they can be, down in reverse."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Protocol

from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services.base import RunningService, Say
from nemo_evaluator.services.health import expect_external
from nemo_evaluator.services.process import ManagedServer


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

    A service with a ``url`` of its own is not started, only asked for its ``health_path`` where it has one. Logs go
    to ``logs/server-<name>.log``. Raises a NelError when a service cannot be started or is not up; those already up
    are stopped first.
    """
    say, services = say or _to_stderr, config.services
    planned = {name: _server(name, service, output_dir) for name, service in services.items()}
    running: dict[str, RunningService] = {}
    begun: list[ManagedServer] = []

    async def bring_up(name: str) -> None:
        server = planned[name]
        if server is None:
            running[name] = await _external(name, services[name])
            return
        say(f"Starting service: {name} ({services[name].type})")
        begun.append(server)
        running[name] = await server.start(say)

    try:
        for level in _levels(services):
            await _all_or_first_error([bring_up(name) for name in level])
        yield running
    finally:
        for server in reversed(begun):
            await server.stop()


def service_identity(service: Any) -> JsonDict | None:
    """What a managed service adds to fingerprints; None for a service that somebody else runs."""
    return None if _has_url(service) else SERVICES.build(service.type).identity(service)


def _server(name: str, service: Any, output_dir: Path) -> ManagedServer | None:
    if _has_url(service):
        return None
    launch = SERVICES.build(service.type).plan(name, service)
    return ManagedServer(name, launch, output_dir / "logs" / f"server-{safe_name(name)}.log")


async def _external(name: str, service: Any) -> RunningService:
    key = getattr(service, "api_key", None)
    health_path = getattr(service, "health_path", None)
    if health_path:
        await expect_external(name, service.url, health_path, key)
    return RunningService(name, service.url, key)


def _has_url(service: Any) -> bool:
    return bool(getattr(service, "url", None))


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
