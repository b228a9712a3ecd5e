"""What Gym and agent servers share."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_evaluator.config.service_base import HelperService
from nemo_evaluator.services.base import Launch, Site


def helper_launch(
    service: HelperService, site: Site, argv: Sequence[str], health: Sequence[str], *, mounts: Sequence[str] = ()
) -> Launch:
    """The plan of a server that is no model."""
    return Launch(
        argv=argv,
        port=service.port,
        base_path="",
        health_paths=health,
        startup_timeout=service.startup_timeout,
        env={"PORT": str(service.port)},
        stop_grace=service.stop_grace,
        restarts=service.restarts,
        image=service.image if site.contained else None,
        mounts=mounts if site.contained and service.image else (),
        gpus=0,
        pools=[(service.node_pool, 1)] if service.node_pool else (),
    )
