"""What the builders of judged metrics share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.scoring._ask import JudgeSettings

if TYPE_CHECKING:
    from nemo_evaluator.models import Client


def settings_of(config: RubricMetric) -> JudgeSettings:
    """How a judge is asked."""
    return JudgeSettings(config.temperature, config.timeout, config.max_retries)


def client_of(clients: Mapping[str, Client], service: str) -> Client:
    """The client of a service that a metric names."""
    try:
        return clients[service]
    except KeyError:
        raise UsageError(f"no service is called {service!r}") from None
