"""``RetryConfig``, under the path where ``ModelClient`` documents it."""

from nemo_evaluator.models.retry import RetryConfig

__all__ = ["RetryConfig"]
