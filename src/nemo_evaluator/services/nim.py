"""``type: nim``: a NIM container."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import UrlPath
from nemo_evaluator.config.managed_service import ManagedService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import ModelServer, Planned

_START: Final = 'exec "$(command -v nim-serve || echo /opt/nim/start_server.sh)" "$@"'


class NimService(ManagedService):
    """A NIM container. Its `NGC_API_KEY` goes into `extra_env`."""

    type: Literal["nim"] = "nim"
    health_path: UrlPath = Field(
        "/v1/health/ready", description="Path that answers 200 when the server is up."
    )


class Nim(ModelServer[NimService]):
    """Plans the image's own server, which is configured by variables."""

    def launch(self, server: Planned[NimService]) -> Launch:
        """The container, with the settings in its environment."""
        server.needs_image()
        server.refuse("data_parallel_size", "use replicas")
        server.refuse("num_nodes", "use replicas, or vllm for one model over nodes")
        service = server.service
        values = {
            "NIM_SERVED_MODEL_NAME": service.model_id(server.name),
            "NIM_SERVER_PORT": server.port,
            "NIM_HTTP_API_PORT": server.port,
            "NIM_TENSOR_PARALLEL_SIZE": service.tensor_parallel_size,
            "NIM_PIPELINE_PARALLEL_SIZE": service.pipeline_parallel_size,
        }
        if service.model.startswith("/"):
            # The name of the setting in version 1, and since version 2.
            values |= dict.fromkeys(("NIM_MODEL_NAME", "NIM_MODEL_PATH"), server.model)
        env = {name: str(value) for name, value in values.items() if value is not None}
        if server.site.kind == "docker":
            return server.launch(service.extra_args, env=env, entrypoint=True)
        # A job's step does not run the image's entrypoint: nim-serve, or a script before version 2.
        argv = ["bash", "-c", _START, "nim", *service.extra_args]
        return server.launch(argv, env=env)


KIND: Final = Kind(NimService, Nim)
