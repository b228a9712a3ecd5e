"""``type: shared``: another way to ask the server of another service."""

from typing import Final

from nemo_evaluator.config.shared_service import SharedService
from nemo_evaluator.core.kinds import Kind

KIND: Final = Kind(SharedService)
