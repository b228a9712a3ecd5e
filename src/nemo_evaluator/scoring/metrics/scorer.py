"""``type: scorer``: a built-in scorer, or one registered by a plugin."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from nemo_evaluator.config.fields import Name
from nemo_evaluator.config.groups import SCORERS
from nemo_evaluator.config.kinds import check_name
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.metric import Metric, MetricInput, MetricResult
from nemo_evaluator.scoring.registry import get_scorer, list_scorers, reward_of, run_scorer
from nemo_evaluator.scoring.types import ScorerInput, scorer_version


class ScorerMetric:
    """``type: scorer``, or a function at a ``class_path``: the scorer's score is the reward."""

    def __init__(
        self, name: str, scorer: Callable[..., Any], config: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self._scorer = scorer
        self._config = dict(config or {})
        if isinstance(scorer, partial):
            function = scorer.func
        else:
            function = scorer
        self.fingerprint = digest(["scorer", scorer_version(function), self._config])

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Run the scorer.

        Raises:
            ScorerError: Its score has no reward.
        """
        seed = sample.seed
        scorer_input = ScorerInput(
            sample.response,
            seed.expected_answer,
            seed.metadata,
            config=self._config,
            sandbox=sample.sandbox,
        )
        score = await run_scorer(self._scorer, scorer_input)
        try:
            reward = reward_of(score)
        except (KeyError, TypeError, ValueError):
            raise ScorerError(
                f"metric {self.name!r} returned {score!r}",
                hint='return {"correct": ...} or {"reward": ...}',
            ) from None
        return MetricResult(reward, {key: value for key, value in score.items() if key != "reward"})


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
    """Create the metric of the scorer that the config names."""
    return ScorerMetric(config.name, get_scorer(config.name))


KIND: Final = Kind(ScorerMetricConfig, build)
