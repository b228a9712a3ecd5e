"""``type: custom``: a service of your own."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Name, Options
from nemo_evaluator.config.service_base import ServiceBase
from nemo_evaluator.core.kinds import NOT_YET, Kind


class CustomService(ServiceBase):
    """A service of your own."""

    type: Literal["custom"] = "custom"
    class_path: Name = Field(description="The class, as `package.module:Name`.")
    config: Options = Field(default_factory=dict, description="Its settings.")


KIND: Final = Kind(CustomService, missing=NOT_YET)
