"""``type: gym``: a Gym resource server, started by the command that the config gives."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Role
from nemo_evaluator.config.service_base import HelperService
from nemo_evaluator.config.urls import Url
from nemo_evaluator.core.errors import NotBuiltError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services._helper_server import helper_launch
from nemo_evaluator.services.base import Launch, Site


class GymService(HelperService):
    """A Gym server; started by us unless it has a `url`."""

    type: Literal["gym"] = "gym"
    role: ClassVar[Role] = "gym"
    url: Url | None = Field(None, description="URL of a running server; null: we start one.")
    benchmark: str | None = Field(None, description="Benchmark that the started server offers.")
    server_cmd: str | None = Field(None, description="Command that starts the server.")


class Gym:
    """Plans a Gym server; one that has a ``url`` is never planned."""

    def plan(self, name: str, service: GymService, site: Site) -> Launch:
        """``server_cmd`` through the shell, with ``PORT`` in its environment."""
        if not service.server_cmd:
            raise NotBuiltError(
                f"services.{name}: serving a benchmark as a Gym server is not supported yet",
                hint=f"give services.{name}.server_cmd, or the url of a running server",
            )
        return helper_launch(service, site, ["bash", "-c", service.server_cmd], ("/health", "/openapi.json"))

    def identity(self, service: GymService) -> JsonDict:
        """The command that defines what the server offers."""
        image = {"image": service.image} if service.image else {}
        return {"type": "gym", "server_cmd": service.server_cmd, **image}


KIND: Final = Kind(GymService, Gym)
