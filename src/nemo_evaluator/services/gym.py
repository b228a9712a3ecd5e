"""``type: gym``: a Gym resource server, started by the command that the config gives."""

import sys
from typing import ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Argument, Role, ShellText, Url
from nemo_evaluator.config.service_base import HelperService
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
    """Plans a Gym server; one that has a ``url`` is never planned."""

    def plan(self, name: str, service: GymService, site: Site) -> Launch:
        """``server_cmd`` through the shell, with ``PORT`` in its environment; else ``nel serve`` with the benchmark."""
        if service.server_cmd:
            return helper_launch(
                service,
                site,
                ["bash", "-c", service.server_cmd],
                health=("/health", "/openapi.json"),
            )
        if not service.benchmark or not site.here:
            if service.benchmark:
                what = "a benchmark is served on this machine alone"
            else:
                what = "there is nothing to start"
            hint = f"give services.{name}.server_cmd{'' if service.benchmark else ', benchmark'} or url"
            raise UsageError(f"services.{name}: {what}", hint=hint)
        words = [
            "-m",
            "nemo_evaluator.cli.main",
            "serve",
            "--gym-compat",
            "--no-token",
            "--port",
            str(service.port),
        ]
        return helper_launch(
            service, site, [sys.executable, *words, "-b", service.benchmark], health=("/health",)
        )

    def identity(self, service: GymService) -> JsonDict:
        """The command that defines what the server offers."""
        given = {"image": service.image, "benchmark": service.benchmark}
        return {
            "type": "gym",
            "server_cmd": service.server_cmd,
            **{k: v for k, v in given.items() if v},
        }


KIND: Final = Kind(GymService, Gym)
