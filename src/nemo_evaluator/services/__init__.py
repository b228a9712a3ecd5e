"""Starting, checking and stopping services: one file per kind, one life cycle for all. Names load on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.servers.forms import JobStep as JobStep
    from nemo_evaluator.servers.forms import docker_argv as docker_argv
    from nemo_evaluator.servers.forms import srun_argv as srun_argv
    from nemo_evaluator.servers.launch import Launch as Launch
    from nemo_evaluator.services.base import RunningService as RunningService
    from nemo_evaluator.services.base import ServiceKind as ServiceKind
    from nemo_evaluator.services.base import Site as Site
    from nemo_evaluator.services.base import is_managed as is_managed
    from nemo_evaluator.services.base import plan_service as plan_service
    from nemo_evaluator.services.base import service_identity as service_identity
    from nemo_evaluator.services.runner import start_services as start_services

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "JobStep": "nemo_evaluator.servers.forms",
        "Launch": "nemo_evaluator.servers.launch",
        "RunningService": "nemo_evaluator.services.base",
        "ServiceKind": "nemo_evaluator.services.base",
        "Site": "nemo_evaluator.services.base",
        "docker_argv": "nemo_evaluator.servers.forms",
        "is_managed": "nemo_evaluator.services.base",
        "plan_service": "nemo_evaluator.services.base",
        "service_identity": "nemo_evaluator.services.base",
        "srun_argv": "nemo_evaluator.servers.forms",
        "start_services": "nemo_evaluator.services.runner",
    },
)
