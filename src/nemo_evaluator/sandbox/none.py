"""``none``: no sandbox."""

from __future__ import annotations

from typing import Final, Literal

from nemo_evaluator.config.sandbox_base import SandboxBase
from nemo_evaluator.core.kinds import Kind


class NoneConfig(SandboxBase):
    """No sandbox."""

    type: Literal["none"] = "none"


KIND: Final = Kind(NoneConfig)
