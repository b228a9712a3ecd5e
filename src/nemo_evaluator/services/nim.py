"""``type: nim``: a NIM container."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.services._model_server import (
    ModelServer,
    model_launch,
    model_path,
    needs_image,
    port_of,
    refuse_setting,
)
from nemo_evaluator.services.base import Launch, Site

_START: Final = 'exec "$(command -v nim-serve || echo /opt/nim/start_server.sh)" "$@"'


class NimService(ManagedService):
    """A NIM container. Its `NGC_API_KEY` goes into `extra_env`."""

    type: Literal["nim"] = "nim"
    health_path: str = Field("/v1/health/ready", description="Path that answers 200 when the server is up.")


class Nim(ModelServer):
    """Plans a NIM."""

    def plan(self, name: str, service: NimService, site: Site) -> Launch:
        """The image's own server, told what to do by variables."""
        needs_image(name, service, site)
        refuse_setting(name, "data_parallel_size", service.data_parallel_size, "use replicas")
        refuse_setting(name, "num_nodes", service.num_nodes > 1, "use replicas, or vllm for one model over nodes")
        values = {
            "NIM_SERVED_MODEL_NAME": service.model_id(name),
            "NIM_SERVER_PORT": port_of(service, site),
            "NIM_HTTP_API_PORT": port_of(service, site),
            "NIM_TENSOR_PARALLEL_SIZE": service.tensor_parallel_size,
            "NIM_PIPELINE_PARALLEL_SIZE": service.pipeline_parallel_size,
        }
        if service.model.startswith("/"):
            # The name of the setting in version 1, and since version 2.
            values |= dict.fromkeys(("NIM_MODEL_NAME", "NIM_MODEL_PATH"), model_path(service, site))
        env = {name: str(value) for name, value in values.items() if value is not None}
        # A job's step does not run what the image starts by itself: nim-serve, and before version 2 a script.
        start = [] if site.kind == "docker" else ["bash", "-c", _START, "nim"]
        argv = [*start, *service.extra_args]
        return model_launch(name, service, site, argv, env=env, entrypoint=not start)


KIND: Final = Kind(NimService, Nim)
