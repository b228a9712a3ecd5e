"""``ModelResponse``: what a model said, and what it cost."""

from nemo_evaluator.core.types import ModelResponse

__all__ = ["ModelResponse"]
