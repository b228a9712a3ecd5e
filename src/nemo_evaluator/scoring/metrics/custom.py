"""``type: custom``: a metric of your own."""

import inspect
from typing import Any, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Name, Options
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.errors import ScorerError, UsageError
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.scoring.metric import Metric, MetricInput, MetricResult
from nemo_evaluator.scoring.metrics.scorer import ScorerMetric
from nemo_evaluator.scoring.types import scorer_version


class CustomMetric(MetricBase):
    """A metric of your own."""

    type: Literal["custom"] = "custom"
    class_path: Name = Field(
        description="The class or function, as `package.module:Name`, or `file.py:Name` beside the config."
    )
    config: Options = Field(default_factory=dict, description="Its settings.")


def build(settings: CustomMetric, clients: object = None, environment: object = None) -> Metric:
    """Load the object at ``class_path``: a class with ``measure``, created with ``config``, or a scorer function.

    Raises:
        UsageError: It is neither, or it does not accept ``config``.
    """
    name = settings.name
    class_path = settings.class_path
    config = dict(settings.config)
    target = load_object(class_path)
    if not inspect.isclass(target):
        if not callable(target):
            raise UsageError(f"{class_path} is neither a class nor a function")
        return ScorerMetric(name, target, config)
    try:
        metric: Any = target(**config)
    except TypeError as error:
        raise UsageError(
            f"metric {name!r}: {class_path} does not take this config: {error}"
        ) from error
    if callable(getattr(metric, "measure", None)):
        return _Named(name, metric, digest(["custom", class_path, scorer_version(metric), config]))
    if callable(metric):
        return ScorerMetric(name, metric, config)
    raise UsageError(
        f"{class_path} has no method `measure`",
        hint="write `async def measure(self, sample: MetricInput) -> MetricResult`",
    )


class _Named:
    """A user's metric, with the name from the config and a fingerprint that includes the config."""

    def __init__(self, name: str, metric: Any, fingerprint: str) -> None:
        self.name = name
        self._metric = metric
        self.fingerprint = digest([fingerprint, getattr(metric, "fingerprint", "")])
        if hasattr(metric, "aggregate"):
            self.aggregate = metric.aggregate

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Call the user's metric, which may be async and may return a plain number.

        Raises:
            ScorerError: It returned neither a ``MetricResult`` nor a number.
        """
        result = self._metric.measure(sample)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, MetricResult):
            return result
        if isinstance(result, (int, float)):
            return MetricResult(float(result))
        raise ScorerError(
            f"metric {self.name!r} returned {result!r}", hint="return MetricResult(reward, details)"
        )


KIND: Final = Kind(CustomMetric, build)
