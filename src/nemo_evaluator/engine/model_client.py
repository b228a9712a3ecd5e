"""``ModelClient``, importable from the module in which it is documented."""

from nemo_evaluator.adapters.model_client import ModelClient, ToolCallingResponse
from nemo_evaluator.core.types import ToolCallInfo

__all__ = ["ModelClient", "ToolCallInfo", "ToolCallingResponse"]
