"""The services of a config as a benchmark reaches them: endpoints, and clients that are opened on first use."""

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

# Where a service that is not needed would be: nothing is ever sent there.
_NOWHERE: Final = "http://127.0.0.1:9/v1"


class Clients(Mapping[str, Client]):
    """Clients by service name, opened on first use and closed with the benchmark, whose ``max_concurrent`` they have.

    ``settings`` is what the config says of its services, ``running`` where they answer.
    """

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
        self._settings = settings
        self._running = running
        self._logged = logged
        self._max_concurrent = max_concurrent
        self._stack = stack
        self._batches = batches
        self._detach = detach
        self._open: dict[str, Client] = {}

    def endpoint(self, name: str) -> Endpoint:
        """Where a service answers, with as many requests at once as the benchmark has steps."""
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
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)


def not_started(name: str, service: Any) -> RunningService:
    """A service that was not started, because only its definition is needed."""
    return RunningService(name, getattr(service, "url", None) or _NOWHERE)
