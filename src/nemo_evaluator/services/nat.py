"""``type: nat``: a NeMo Agent Toolkit server."""

import shutil
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Line, Role, Url
from nemo_evaluator.config.managed_service import HelperService
from nemo_evaluator.core.errors import UsageError, install_line
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import helper_launch
from nemo_evaluator.services.base import Site

_INSIDE: Final = "/nel/nat-config.yml"


class NatService(HelperService):
    """A NeMo Agent Toolkit server."""

    type: Literal["nat", "nat_agent"] = "nat"
    role: ClassVar[Role] = "agent"
    url: Url | None = Field(None, description="URL of a running server; null: we start one.")
    nat_config_file: Line | None = Field(
        None, description="Workflow file of the agent; null: `config.yml`."
    )


class Nat:
    """Plans an agent server. A service with a ``url`` needs no plan."""

    def plan(self, name: str, service: NatService, site: Site) -> Launch:
        """``nat serve`` with the workflow file. Raises UsageError when either is missing on this machine."""
        file = Path(service.nat_config_file or "config.yml").absolute()
        if site.here and shutil.which("nat") is None:
            hint = f"{install_line('nat')}; or give services.{name}.image or url"
            raise UsageError("nat is not on PATH", hint=hint)
        if site.here and not file.is_file():
            raise UsageError(
                f"services.{name}.nat_config_file: {file} does not exist",
                hint="give the workflow file",
            )
        path = _INSIDE if site.contained else str(file)
        argv = ["nat", "serve", "--config_file", path]
        argv += ["--host", site.bind, "--port", str(service.port)]
        return helper_launch(
            service, site, argv, health=("/health",), mounts=[f"{file}:{_INSIDE}:ro"]
        )

    def identity(self, service: NatService) -> JsonDict:
        """The name of the workflow file: its requests are the agent's own."""
        return {"type": "nat", "nat_config_file": service.nat_config_file, "image": service.image}


KIND: Final = Kind(NatService, Nat)
