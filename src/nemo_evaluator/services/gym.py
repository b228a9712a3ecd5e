"""``type: gym``: a Gym resource server, started by the command that the config gives."""

import sys
from typing import ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Argument, Role, ShellText, Url
from nemo_evaluator.config.managed_service import HelperService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import helper_launch
from nemo_evaluator.services.base import Site


class GymService(HelperService):
    """A Gym server; started by us unless it has a `url`."""

    type: Literal["gym"] = "gym"
    role: ClassVar[Role] = "gym"
    url: Url | None = Field(None, description="URL of a running server; null: we start one.")
    benchmark: Argument | None = Field(
        None, description="Benchmark that the started server offers."
    )
    server_cmd: ShellText | None = Field(None, description="Command that starts the server.")


class Gym:
    """Plans a Gym server. A service with a ``url`` needs no plan."""

    def plan(self, name: str, service: GymService, site: Site) -> Launch:
        """``server_cmd`` in a shell with ``PORT`` in its environment, or ``nel serve`` with the benchmark.

        Args:
            name: The name of the service in the config.
            service: Its settings.
            site: Where the server is to run.

        Raises:
            UsageError: The config has no command, and no benchmark that can be served here.
        """
        if service.server_cmd:
            argv = ["bash", "-c", service.server_cmd]
            return helper_launch(service, site, argv, health=("/health", "/openapi.json"))
        if not service.benchmark:
            raise UsageError(
                f"services.{name}: there is nothing to start",
                hint=f"give services.{name}.server_cmd, benchmark or url",
            )
        if not site.here:
            raise UsageError(
                f"services.{name}: a benchmark is served on this machine alone",
                hint=f"give services.{name}.server_cmd or url",
            )
        argv = [sys.executable, "-m", "nemo_evaluator.cli.main", "serve", "--gym-compat"]
        argv += ["--no-token", "--port", str(service.port), "-b", service.benchmark]
        return helper_launch(service, site, argv, health=("/health",))

    def identity(self, service: GymService) -> JsonDict:
        """The command, image and benchmark, which define what the server offers."""
        identity: JsonDict = {"type": "gym", "server_cmd": service.server_cmd}
        if service.image:
            identity["image"] = service.image
        if service.benchmark:
            identity["benchmark"] = service.benchmark
        return identity


KIND: Final = Kind(GymService, Gym)
