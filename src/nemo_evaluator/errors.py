"""The errors that solvers and environments raise, under the path where they are documented."""

from nemo_evaluator.core.errors import (
    BoundaryError,
    ConfigError,
    GracefulError,
    InfraError,
    NelError,
    SandboxError,
    UsageError,
)

__all__ = [
    "BoundaryError",
    "ConfigError",
    "GracefulError",
    "InfraError",
    "NelError",
    "SandboxError",
    "UsageError",
]
