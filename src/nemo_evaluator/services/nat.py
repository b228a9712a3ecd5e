"""``type: nat``: a NeMo Agent Toolkit server."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Role
from nemo_evaluator.config.service_base import HelperService
from nemo_evaluator.config.urls import Url
from nemo_evaluator.core.kinds import NOT_YET, Kind


class NatService(HelperService):
    """A NeMo Agent Toolkit server."""

    type: Literal["nat", "nat_agent"] = "nat"
    role: ClassVar[Role] = "agent"
    url: Url | None = Field(None, description="URL of a running server; null: we start one.")
    nat_config_file: str | None = Field(None, description="Workflow file of the agent.")


KIND: Final = Kind(NatService, missing=NOT_YET)
