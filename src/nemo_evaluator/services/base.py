"""The contract of a kind of service (a launch plan), the plans of a config, and the address that users get."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.config.shared_service import SharedService
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field, replace
from nemo_evaluator.models import Endpoint
from nemo_evaluator.servers.launch import Launch


@dataclass(frozen=True, slots=True)
class RunningService:
    """The address of a service in this run.

    Attributes:
        name: The name of the service in the config.
        url: Its base URL; the first where there are several.
        api_key: The token of this run, if nel started the server and it asks for a key.
        replicas: The URLs of all servers of the service, if there are several.
        lost: Returns why no server of the service will come back, or None while one may.
    """

    name: str
    url: str
    api_key: Secret | None = None
    replicas: Sequence[str] = ()
    lost: Callable[[], str | None] | None = None

    def reach(self, endpoint: Endpoint) -> Endpoint:
        """A configured endpoint of this service, with the address and the key of this run."""
        key = self.api_key or endpoint.api_key
        return replace(endpoint, url=self.url, api_key=key, replicas=self.replicas, lost=self.lost)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server is to run."""

    #: A process of this machine, a docker container on it, or a step of a SLURM job.
    kind: Literal["process", "docker", "slurm"] = "process"
    #: Whether the step of a SLURM job runs in a container.
    container: bool = False
    #: The number of the server among those of its service.
    replica: int = 0
    #: The API key of servers that support one; the same for all replicas of a service.
    token: Secret = field(default_factory=lambda: Secret(secrets.token_urlsafe(24)))

    @property
    def here(self) -> bool:
        """Whether the server is a process of this machine, which has the programs and files that nel sees."""
        return self.kind == "process"

    @property
    def contained(self) -> bool:
        """Whether the command runs in a container."""
        return self.kind == "docker" or self.container

    @property
    def bind(self) -> str:
        """The address to listen on: loopback, unless users come from outside a container or from another node."""
        return "127.0.0.1" if self.here else "0.0.0.0"  # noqa: S104 - published on loopback, or asks for a token


class ServiceKind(Protocol):
    """One kind of managed service, e.g. ``llama_cpp``."""

    def plan(self, name: str, service: Any, site: Site) -> Launch:
        """The launch plan of one server; starts nothing.

        Args:
            name: The name of the service in the config.
            service: Its settings.
            site: Where the server is to run.

        Raises:
            NelError: A program or a file is missing; its hint names the fix.
        """

    def identity(self, service: Any) -> JsonDict:
        """The settings that change answers, such as weights and arguments; never ports, paths or dates."""


def is_managed(service: Any) -> bool:
    """Whether nel starts a service: one with a server of its own, and without a URL."""
    return not isinstance(service, SharedService) and not getattr(service, "url", None)


def plan_service(name: str, service: Any, site: Site | None = None) -> list[Launch]:
    """The plans of all servers of one managed service.

    Args:
        name: The name of the service in the config.
        service: Its settings.
        site: Where the servers run; None: on this machine, in a container when the service has an image.

    Returns:
        One plan per replica, on consecutive ports.

    Raises:
        NelError: The service cannot run there; its hint names the fix.
    """
    site = site or Site("docker" if getattr(service, "image", None) else "process")
    kind = SERVICES.build(service.type)
    token = Site().token
    plans: list[Launch] = []
    for number in range(replicas_of(service)):
        plans.append(kind.plan(name, service, replace(site, replica=number, token=token)))
    return plans


def named_plans(name: str, service: Any, site: Site | None = None) -> dict[str, Launch]:
    """The plans of ``plan_service`` by server name: the name of the service, numbered if there are replicas."""
    plans = plan_service(name, service, site)
    if len(plans) == 1:
        return {name: plans[0]}
    return {f"{name}-{number}": plan for number, plan in enumerate(plans)}


def replicas_of(service: Any) -> int:
    """How many servers a service has."""
    return int(getattr(service, "replicas", 1))


def service_identity(service: Any) -> JsonDict | None:
    """What a service on a server that nel starts adds to fingerprints; None for any other server."""
    if isinstance(service, SharedService):
        service = service.as_asked()
    if not is_managed(service):
        return None
    identity: JsonDict = SERVICES.build(service.type).identity(service)
    return identity


async def all_or_first_error(work: list[Any]) -> None:
    """Wait for all coroutines; the first that fails cancels the others, and its error is raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
