"""``type: docker_model``: any model server in a container."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import ShellText, no_items
from nemo_evaluator.config.managed_service import ManagedService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import ModelServer, Planned


class DockerModelService(ManagedService):
    """Any model server in a container. It must listen on `port` and answer to `served_model_name`."""

    type: Literal["docker_model"] = "docker_model"
    command: list[ShellText] = Field(
        default_factory=no_items,
        description="Command in the container, before `extra_args`; empty: the image's own.",
    )


class DockerModel(ModelServer[DockerModelService]):
    """Plans a container with any server in it; `PORT` and `MODEL_NAME` in its environment hold port and model name."""

    def launch(self, server: Planned[DockerModelService]) -> Launch:
        """The container, with the command of the config or the image's own."""
        server.needs_image()
        for size in ("tensor", "pipeline", "data"):
            server.refuse(f"{size}_parallel_size", "use the server's own option in extra_args")
        server.refuse("num_nodes", "use replicas")
        service = server.service
        env = {"PORT": str(server.port), "MODEL_NAME": service.model_id(server.name)}
        return server.launch(
            [*service.command, *service.extra_args], env=env, entrypoint=not service.command
        )

    def identity(self, service: DockerModelService) -> JsonDict:
        """The image, its command and its arguments."""
        return super().identity(service) | {"command": service.command}


KIND: Final = Kind(DockerModelService, DockerModel)
