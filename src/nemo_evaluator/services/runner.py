"""Starts all services of a config in the order of ``depends_on``, in parallel where possible; stops them in reverse."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.config.shared_service import SharedService
from nemo_evaluator.core.values import replace
from nemo_evaluator.servers.launch import Say
from nemo_evaluator.services.base import RunningService, all_or_first_error, is_managed

if TYPE_CHECKING:
    from nemo_evaluator.services.servers import ServerGroup


@asynccontextmanager
async def start_services(
    config: EvalConfig, output_dir: Path, *, say: Say | None = None
) -> AsyncIterator[dict[str, RunningService]]:
    """Start the managed services of a config, and yield the addresses of all services.

    ::

        async with start_services(config, output_dir) as running:
            url, key = running["model"].url, running["model"].api_key

    A service with a ``url`` of its own is not started; if it has a ``health_path``, nel waits until that answers. In a
    cluster job, servers are steps of that job (``servers.py``). Logs go to ``logs/server-<name>.log``.

    Args:
        config: The config.
        output_dir: The folder of the run.
        say: Prints the progress; by default to stderr.

    Yields:
        The addresses by the name of the service.

    Raises:
        NelError: A service cannot be started or is not up; those already started are stopped first.
    """
    say = say or partial(print, file=sys.stderr, flush=True)
    services = config.services
    planned = await _planned_groups(services, output_dir, say)
    running = dict[str, RunningService]()
    started = AsyncExitStack()

    async def bring_up(name: str) -> None:
        service = services[name]
        if isinstance(service, SharedService):
            running[name] = replace(running[service.server], name=name)
            return
        group = planned.get(name)
        if group is None:
            running[name] = await _external_service(name, service)
            return
        say(f"Starting service: {name} ({service.type})")
        started.push_async_callback(group.stop)
        running[name] = await group.start(name, say)

    async with started:
        order = TopologicalSorter({name: service.depends_on for name, service in services.items()})
        order.prepare()
        while order.is_active():
            level = order.get_ready()
            await all_or_first_error([bring_up(name) for name in level])
            order.done(*level)
        yield running


async def _planned_groups(
    services: Mapping[str, Any], output_dir: Path, say: Say
) -> dict[str, ServerGroup]:
    """Plan the servers of the services that nel starts itself."""
    managed = {name: service for name, service in services.items() if is_managed(service)}
    if not managed:
        return {}
    # Imported here to start quickly: most configs name servers that nel does not start.
    from nemo_evaluator.services.servers import planned_servers  # noqa: PLC0415

    return await planned_servers(managed, output_dir, say)


async def _external_service(name: str, service: Any) -> RunningService:
    """The address of a service that nel does not start, once its health check answers."""
    key = getattr(service, "api_key", None)
    health_path = getattr(service, "health_path", None)
    if health_path:
        from nemo_evaluator.servers.life import expect_external  # noqa: PLC0415

        await expect_external(name, service.url, health_path, key=key)
    return RunningService(name, service.url, key)
