"""``type: custom``: a metric of your own."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Name, Options
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.custom import custom_metric
from nemo_evaluator.scoring.metric import Metric


class CustomMetric(MetricBase):
    """A metric of your own."""

    type: Literal["custom"] = "custom"
    class_path: Name = Field(
        description="The class or function, as `package.module:Name`, or `file.py:Name` beside the config."
    )
    config: Options = Field(default_factory=dict, description="Its settings.")


def build(config: CustomMetric, clients: Any, environment: object = None) -> Metric:
    """The class or function that the config names."""
    return custom_metric(config.name, config.class_path, dict(config.config))


KIND: Final = Kind(CustomMetric, build)
