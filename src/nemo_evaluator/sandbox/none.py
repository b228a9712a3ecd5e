"""``none``: no sandbox."""

from typing import Final, Literal

from nemo_evaluator.config.sandbox_base import SandboxBase
from nemo_evaluator.core.kinds import Kind


class NoneConfig(SandboxBase):
    """No sandbox."""

    type: Literal["none"] = "none"


KIND: Final = Kind(NoneConfig)
