"""What a kind of service gives (a launch plan), how a config comes to it, and what its users get (an address)."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field, replace
from nemo_evaluator.models import Endpoint
from nemo_evaluator.servers.launch import Launch


@dataclass(frozen=True, slots=True)
class RunningService:
    """Where a service is reached. ``api_key`` is the token of this run when the server is ours and asks for one.
    ``replicas`` are the URLs of all servers behind the service when there are several; ``url`` is the first. ``lost``
    says why none of them will come back."""

    name: str
    url: str
    api_key: Secret | None = None
    replicas: Sequence[str] = ()
    lost: Callable[[], str | None] | None = None

    def reach(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint of a service of the config, as it is reached in this run."""
        key = self.api_key or endpoint.api_key
        return replace(endpoint, url=self.url, api_key=key, replicas=self.replicas, lost=self.lost)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server is to run: as a ``process`` on this machine, in a ``docker`` container there, or as a step of a
    ``slurm`` job, in a container when ``container`` says so. ``replica`` is its number among those of its service."""

    kind: Literal["process", "docker", "slurm"] = "process"
    container: bool = False
    replica: int = 0
    #: What servers ask for that can ask for a key; the same for all replicas of a service.
    token: Secret = field(default_factory=lambda: Secret(secrets.token_urlsafe(24)))

    @property
    def here(self) -> bool:
        """True when the server is a process of this machine: its program and its files are those that we see."""
        return self.kind == "process"

    @property
    def contained(self) -> bool:
        """True when the command is run inside an image."""
        return self.kind == "docker" or self.container

    @property
    def bind(self) -> str:
        """The address to listen on: loopback, unless a container or a network lies between."""
        return "127.0.0.1" if self.here else "0.0.0.0"  # noqa: S104 - published on loopback, or asks for a token


class ServiceKind(Protocol):
    """One kind of managed service, e.g. ``llama_cpp``."""

    def plan(self, name: str, service: Any, site: Site) -> Launch:
        """The launch plan; raises a NelError with the fix when something needed is absent. Starts nothing."""

    def identity(self, service: Any) -> JsonDict:
        """What changes answers: weights and settings, never ports, paths or dates."""


def is_managed(service: Any) -> bool:
    """Whether a service is ours to start: one without a URL of its own."""
    return not getattr(service, "url", None)


def plan_service(name: str, service: Any, site: Site | None = None) -> list[Launch]:
    """The plans of all servers of one managed service, one per replica, on ports that follow each other. Without a
    ``site`` they are for this machine: in a container when the service has an image. Raises a NelError with the fix
    when the service cannot run there."""
    site = site or Site("docker" if getattr(service, "image", None) else "process")
    kind = SERVICES.build(service.type)
    token = Site().token
    sites = [replace(site, replica=number, token=token) for number in range(replicas_of(service))]
    return [kind.plan(name, service, one) for one in sites]


def named_plans(name: str, service: Any, site: Site | None = None) -> dict[str, Launch]:
    """The same by the names of the servers: the service's own, numbered where there are several."""
    plans = plan_service(name, service, site)
    return {
        name if len(plans) == 1 else f"{name}-{number}": plan for number, plan in enumerate(plans)
    }


def replicas_of(service: Any) -> int:
    """How many servers a service has."""
    return int(getattr(service, "replicas", 1))


def service_identity(service: Any) -> JsonDict | None:
    """What a managed service adds to fingerprints; None for a service that somebody else runs."""
    return SERVICES.build(service.type).identity(service) if is_managed(service) else None


async def all_or_first_error(work: list[Any]) -> None:
    """Wait for all; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
