"""All services of a config: up in the order of ``depends_on``, side by side where they can be, down in reverse."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.servers.launch import Say
from nemo_evaluator.services.base import RunningService, all_or_first_error, is_managed

if TYPE_CHECKING:
    from nemo_evaluator.services.servers import ServerGroup


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
    say = say or partial(print, file=sys.stderr, flush=True)
    services = config.services
    managed = {name: service for name, service in services.items() if is_managed(service)}
    planned: dict[str, ServerGroup] = {}
    if managed:
        # Here, as below: most configs name servers that others have started, and starting must stay quick.
        from nemo_evaluator.services.servers import planned_servers  # noqa: PLC0415

        planned = await planned_servers(managed, output_dir, say)
    running, begun = dict[str, RunningService](), AsyncExitStack()

    async def bring_up(name: str) -> None:
        group = planned.get(name)
        service: Any = services[name]
        if group is None:
            key = getattr(service, "api_key", None)
            health_path = getattr(service, "health_path", None)
            if health_path:
                from nemo_evaluator.servers.life import expect_external  # noqa: PLC0415

                await expect_external(name, service.url, health_path, key=key)
            running[name] = RunningService(name, service.url, key)
            return
        say(f"Starting service: {name} ({service.type})")
        begun.push_async_callback(group.stop)
        running[name] = await group.start(name, say)

    async with begun:
        order = TopologicalSorter({name: service.depends_on for name, service in services.items()})
        order.prepare()
        while order.is_active():
            level = order.get_ready()
            await all_or_first_error([bring_up(name) for name in level])
            order.done(*level)
        yield running
