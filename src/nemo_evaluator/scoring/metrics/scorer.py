"""``type: scorer``: a built-in scorer, or one registered by a plugin."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from nemo_evaluator.config.fields import Name
from nemo_evaluator.config.groups import SCORERS
from nemo_evaluator.config.kinds import check_name
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.custom import ScorerMetric
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.registry import get_scorer, list_scorers


def _known(name: str) -> str:
    check_name(SCORERS, name)
    return name


class ScorerMetricConfig(MetricBase):
    """A built-in scorer, or one registered by a plugin."""

    type: Literal["scorer"] = "scorer"
    name: Annotated[Name, AfterValidator(_known)] = Field(
        description="Name of the scorer, such as `exact_match` or `numeric_match`.",
        json_schema_extra=lambda schema: schema.update(examples=[*list_scorers()]),
    )


def build(config: ScorerMetricConfig, clients: Any, environment: object = None) -> Metric:
    """The scorer of that name."""
    return ScorerMetric(config.name, get_scorer(config.name))


KIND: Final = Kind(ScorerMetricConfig, build)
