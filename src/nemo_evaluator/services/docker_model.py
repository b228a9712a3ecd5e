"""``type: docker_model``: any model server in a container."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import ShellText, no_items
from nemo_evaluator.config.service_base import ManagedService
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
    """Plans a container of which only the port is known. Its port is in `PORT`, its model's name in `MODEL_NAME`."""

    def launch(self, server: Planned[DockerModelService]) -> Launch:
        server.needs_image()
        for size in ("tensor", "pipeline", "data"):
            server.refuse(
                f"{size}_parallel_size", "say it in extra_args, in the words of the server"
            )
        server.refuse("num_nodes", "use replicas")
        service = server.service
        env = {"PORT": str(server.port), "MODEL_NAME": service.model_id(server.name)}
        return server.launch(
            [*service.command, *service.extra_args], env=env, entrypoint=not service.command
        )

    def identity(self, service: DockerModelService) -> JsonDict:
        """The image, and what it is told."""
        return super().identity(service) | {"command": service.command}


KIND: Final = Kind(DockerModelService, DockerModel)
