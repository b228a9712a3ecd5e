"""``type: nim``: a NIM container."""

from __future__ import annotations

from typing import Final, Literal

from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import NOT_YET, Kind


class NimService(ManagedService):
    """A NIM container."""

    type: Literal["nim"] = "nim"


KIND: Final = Kind(NimService, missing=NOT_YET)
