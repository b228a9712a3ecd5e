"""Endpoints of the services of a config, and clients for them that are opened on first use."""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.registry import config_folder
from nemo_evaluator.core.values import replace
from nemo_evaluator.models import Client, Endpoint, endpoint_of
from nemo_evaluator.services import RunningService, service_identity

# The URL of services that are not needed: no request is ever sent to it.
_NOWHERE: Final = "http://127.0.0.1:9/v1"


class Clients(Mapping[str, Client]):
    """Clients by service name, opened on first use and closed with the benchmark."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        running: Mapping[str, RunningService],
        max_concurrent: int,
        stack: AsyncExitStack,
        *,
        logged: bool = True,
        batches: Path | None = None,
        detach: bool = False,
    ) -> None:
        """Set up the clients of one benchmark.

        Args:
            settings: The settings of the services, by name.
            running: The running services, by name.
            max_concurrent: The concurrency of the benchmark, for services that set none.
            stack: Closes the clients.
            logged: Whether traffic is recorded.
            batches: The folder for the state of batches.
            detach: Stop once every step waits for a batch.
        """
        self._settings = settings
        self._running = running
        self._logged = logged
        self._max_concurrent = max_concurrent
        self._stack = stack
        self._batches = batches
        self._detach = detach
        self._open: dict[str, Client] = {}

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of a service, with the benchmark's concurrency unless the service sets its own."""
        service = self._settings[name]
        running = self._running[name]
        endpoint = running.reach(
            endpoint_of(name, service, url=running.url, base_dir=config_folder.get())
        )
        return replace(
            endpoint,
            max_concurrent=service.max_concurrent or self._max_concurrent,
            identity=service_identity(service) or endpoint.identity,
            traffic=endpoint.traffic if self._logged else None,
        )

    def __getitem__(self, name: str) -> Client:
        """Return the client of a service, opening it on first use.

        Raises:
            UsageError: If there is no such service.
        """
        if name not in self._open:
            if name not in self._running:
                raise UsageError(f"no service is called {name!r}")
            endpoint = self.endpoint(name)
            if endpoint.batch is not None and self._batches is not None:
                folder = self._batches / safe_name(name)
                endpoint = replace(
                    endpoint, batch=replace(endpoint.batch, folder=folder, detach=self._detach)
                )
            client = self._open[name] = open_client(endpoint)
            self._stack.push_async_callback(client.close)
        return self._open[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the running services."""
        return iter(self._running)

    def __len__(self) -> int:
        """Return the number of running services."""
        return len(self._running)


def not_started(name: str, service: Any) -> RunningService:
    """Return a service that is not started, for uses that need only its definition."""
    return RunningService(name, getattr(service, "url", None) or _NOWHERE)
