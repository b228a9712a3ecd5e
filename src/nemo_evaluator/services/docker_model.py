"""``type: docker_model``: any model server in a container."""

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import no_items
from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services._model_server import ModelServer, model_launch, needs_image, refuse_setting
from nemo_evaluator.services.base import Launch, Site


class DockerModelService(ManagedService):
    """Any model server in a container. It must listen on `port` and answer to `served_model_name`."""

    type: Literal["docker_model"] = "docker_model"
    command: list[str] = Field(
        default_factory=no_items, description="Command in the container, before `extra_args`; empty: the image's own."
    )


class DockerModel(ModelServer):
    """Plans a container of which only the port is known. Its port is in `PORT`, its model's name in `MODEL_NAME`."""

    def plan(self, name: str, service: DockerModelService, site: Site) -> Launch:
        """The image's own command, or the one that was given."""
        needs_image(name, service, site)
        for key in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
            refuse_setting(name, key, getattr(service, key), "say it in extra_args, in the words of the server")
        refuse_setting(name, "num_nodes", service.num_nodes > 1, "use replicas")
        env = {"PORT": str(service.port + site.replica), "MODEL_NAME": service.model_id(name)}
        argv = [*service.command, *service.extra_args]
        return model_launch(name, service, site, argv, env=env, entrypoint=not service.command)

    def identity(self, service: DockerModelService) -> JsonDict:
        """The image, and what it is told."""
        return super().identity(service) | {"command": service.command}


KIND: Final = Kind(DockerModelService, DockerModel)
