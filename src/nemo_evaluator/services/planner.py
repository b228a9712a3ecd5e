"""From the services of a config to launch plans: one door for the local runner, for containers and for SLURM."""

from dataclasses import replace
from typing import Any

from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services.base import Launch, Site


def is_managed(service: Any) -> bool:
    """Whether a service is ours to start: one without a URL of its own."""
    return not getattr(service, "url", None)


def local_site(service: Any) -> Site:
    """Where a service runs when it runs on this machine: in a container when it has an image."""
    return Site("docker" if getattr(service, "image", None) else "process")


def plan_service(name: str, service: Any, site: Site | None = None) -> list[Launch]:
    """The plans of all servers of one managed service, one per replica, on ports that follow each other.

    Pure: nothing is started. Raises a NelError with the fix when the service cannot run there.
    """
    site, kind, token = site or local_site(service), SERVICES.build(service.type), Site().token
    sites = [replace(site, replica=number, token=token) for number in range(replicas_of(service))]
    return [kind.plan(name, service, one) for one in sites]


def replicas_of(service: Any) -> int:
    """How many servers a service has."""
    return int(getattr(service, "replicas", 1))


def service_identity(service: Any) -> JsonDict | None:
    """What a managed service adds to fingerprints; None for a service that somebody else runs."""
    return SERVICES.build(service.type).identity(service) if is_managed(service) else None
