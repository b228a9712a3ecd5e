"""``type: sandbox``: a command in the sandbox; exit code 0 means right."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.command import SandboxCommand
from nemo_evaluator.scoring.metric import Metric


class SandboxMetric(MetricBase):
    """A command in the sandbox; exit code 0 means right."""

    type: Literal["sandbox"] = "sandbox"
    command: str | None = Field(None, description="The command; null: the problem's own.")
    verify_timeout: Above0 = Field(600.0, description="Seconds for the command.")


def build(config: SandboxMetric, clients: Any, environment: object = None) -> Metric:
    """The command."""
    return SandboxCommand(config.name, config.command, config.verify_timeout)


KIND: Final = Kind(SandboxMetric, build)
