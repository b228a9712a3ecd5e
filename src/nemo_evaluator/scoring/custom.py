"""Scorers by name and metrics of one's own, behind the contract of a metric."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nemo_evaluator.core.errors import ScorerError, UsageError
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring.metric import Metric, MetricInput, MetricResult
from nemo_evaluator.scoring.registry import reward_of, run_scorer
from nemo_evaluator.scoring.types import ScorerInput, scorer_version


class ScorerMetric:
    """``type: scorer``, or a function given by ``class_path``: a scorer's score is the reward."""

    def __init__(self, name: str, scorer: Callable[..., Any], config: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._scorer, self._config = scorer, dict(config or {})
        self.fingerprint = digest(["scorer", scorer_version(_bare(scorer)), self._config])

    async def measure(self, sample: MetricInput) -> MetricResult:
        """The score of one answer."""
        seed = sample.seed
        scored = ScorerInput(sample.response, seed.expected_answer, seed.metadata, self._config, sample.sandbox)
        score = await run_scorer(self._scorer, scored)
        try:
            reward = reward_of(score)
        except (KeyError, TypeError, ValueError):
            raise ScorerError(
                f"metric {self.name!r} returned {score!r}", hint='return {"correct": ...} or {"reward": ...}'
            ) from None
        return MetricResult(reward, {key: value for key, value in score.items() if key != "reward"})


def _bare(scorer: Callable[..., Any]) -> Callable[..., Any]:
    return scorer.func if isinstance(scorer, partial) else scorer


def custom_metric(name: str, class_path: str, config: JsonDict) -> Metric:
    """The object at ``class_path``: a class with ``measure`` (made with ``config``), or a scorer function."""
    target = load_object(class_path)
    if not inspect.isclass(target):
        if not callable(target):
            raise UsageError(f"{class_path} is neither a class nor a function")
        return ScorerMetric(name, target, config)
    try:
        metric: Any = target(**config)
    except TypeError as error:
        raise UsageError(f"metric {name!r}: {class_path} does not take this config: {error}") from error
    if callable(getattr(metric, "measure", None)):
        return _Named(name, metric, digest(["custom", class_path, scorer_version(metric), config]))
    if callable(metric):
        return ScorerMetric(name, metric, config)
    raise UsageError(
        f"{class_path} has no method `measure`",
        hint="write `async def measure(self, sample: MetricInput) -> MetricResult`",
    )


class _Named:
    """A user's metric under the name and with the identity that the config gives it."""

    def __init__(self, name: str, metric: Any, fingerprint: str) -> None:
        self.name, self._metric = name, metric
        self.fingerprint = digest([fingerprint, getattr(metric, "fingerprint", "")])
        if hasattr(metric, "aggregate"):
            self.aggregate = metric.aggregate

    async def measure(self, sample: MetricInput) -> MetricResult:
        result = self._metric.measure(sample)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, MetricResult):
            return result
        if isinstance(result, (int, float)):
            return MetricResult(float(result))
        raise ScorerError(f"metric {self.name!r} returned {result!r}", hint="return MetricResult(reward, details)")
