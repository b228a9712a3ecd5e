"""Starting, checking and stopping services: one file per kind, one life cycle for all. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.services.base import Launch, RunningService, ServiceKind, Site
    from nemo_evaluator.services.forms import Step, docker_argv, srun_argv
    from nemo_evaluator.services.planner import is_managed, plan_service, plan_services, service_identity
    from nemo_evaluator.services.runner import start_services

    __all__ = [
        "Launch",
        "RunningService",
        "ServiceKind",
        "Site",
        "Step",
        "docker_argv",
        "is_managed",
        "plan_service",
        "plan_services",
        "service_identity",
        "srun_argv",
        "start_services",
    ]
else:
    _MODULES = {
        "base": ("Launch", "RunningService", "ServiceKind", "Site"),
        "forms": ("Step", "docker_argv", "srun_argv"),
        "planner": ("is_managed", "plan_service", "plan_services", "service_identity"),
        "runner": ("start_services",),
    }
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
