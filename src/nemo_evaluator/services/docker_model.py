"""``type: docker_model``: any model server in a container."""

from __future__ import annotations

from typing import Final, Literal

from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import NOT_YET, Kind


class DockerModelService(ManagedService):
    """Any model server in a container."""

    type: Literal["docker_model"] = "docker_model"


KIND: Final = Kind(DockerModelService, missing=NOT_YET)
