"""Scoring of answers: the environment's own scorer, and the metrics that ``scoring:`` adds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.config.groups import METRICS
from nemo_evaluator.core.errors import JudgeError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import JsonDict, SeedResult, VerifyResult
from nemo_evaluator.engine.given import checked_reward, checked_verdict
from nemo_evaluator.environments.base import EnvironmentFacts, EvalEnvironment
from nemo_evaluator.runs.row_file import read_rows
from nemo_evaluator.scoring.metric import Checkable, Metric, MetricInput, MetricResult

if TYPE_CHECKING:
    from nemo_evaluator.config import ScoringConfig
    from nemo_evaluator.environments.schemes.gym import GymVerifier
    from nemo_evaluator.models import Client
    from nemo_evaluator.sandbox.base import Sandbox
    from nemo_evaluator.store.bundle_document import ValueEntry
    from nemo_evaluator.store.journal_record import JudgeCheck

JUDGES: Final = frozenset({"judge", "pairwise_judge", "ensemble_judge", "reward_model"})
# The name of the judge's client, if the Python API supplies one.
_JUDGE_CLIENT: Final = "judge"
_SHORT: Final = 40
# What a judge that the benchmark needs replied; a configured metric keeps it under the metric's name.
_OF_THE_JUDGE: Final = ("raw", "reasoning")
NEEDS_JUDGE: Final = "this benchmark is scored by a judge, and none is configured"
_ADD_JUDGE: Final = (
    "give --judge-url and --judge-id, or in a config: "
    "scoring: {metrics: [{type: judge, name: judge, service: <a model service>}]}"
)
_FALL_BACK: Final = (
    "; or accept its simpler stand-in, which every headline then names: --allow-fallback"
)
_SCORER: Final = boundary(Cause.SCORER)
Summary = Callable[[Iterable[JsonDict]], Mapping[str, float]]


class Verifier:
    """Scores answers with an environment and the metrics of a config.

    The headline reward is that of ``primary``; otherwise that of the first metric if ``include_defaults`` is off;
    otherwise that of the first judge if the benchmark leaves its verdict to a judge; otherwise the environment's own.
    """

    def __init__(
        self,
        environment: EvalEnvironment,
        scoring: ScoringConfig | None = None,
        clients: Mapping[str, Client] | None = None,
        *,
        allow_fallback: bool = False,
        elsewhere: GymVerifier | None = None,
    ) -> None:
        """Build the metrics.

        Args:
            environment: The benchmark.
            scoring: The ``scoring`` section of the config.
            clients: Model clients of the judges, by name.
            allow_fallback: Accept the benchmark's fallback scorer if no judge is configured.
            elsewhere: A scoring service that replaces the environment's own scorer.

        Raises:
            UsageError: If a needed judge is not configured, or no metric is left.
        """
        self._environment = environment
        # What scores by default: the benchmark itself, unless the config names a scoring service.
        self._own = elsewhere or environment
        self._fallback = allow_fallback or (scoring is not None and scoring.allow_fallback)
        self._metrics: list[Metric] = []
        self._primary: str | None = None
        self._judge: str | None = None
        self._defaults = scoring is None or scoring.include_defaults
        # The judge for benchmarks that need one, if the Python API supplied it instead of a config.
        self._stand_by: Metric | None = None
        if elsewhere is not None:
            self.fingerprint = elsewhere.fingerprint
        else:
            self.fingerprint = environment.scorer_fingerprint()
        if scoring is not None and (scoring.metrics or not scoring.include_defaults):
            self._compose(scoring, clients or {})
        elif scoring is None and clients and _JUDGE_CLIENT in clients:
            from nemo_evaluator.scoring.metrics.judge import default_judge  # noqa: PLC0415 - few have one

            self._stand_by = default_judge(clients[_JUDGE_CLIENT], environment)
        has_judge = self._judge is not None or self._stand_by is not None
        # The reward then comes from a metric or from the scoring service, not from the benchmark.
        is_replaced = self._primary is not None or elsewhere is not None
        if not has_judge and not is_replaced:
            facts = environment.facts()
            if lacks_judge(facts, allow_fallback=self._fallback):
                raise UsageError(NEEDS_JUDGE, hint=judge_hint(facts))

    def _compose(self, scoring: ScoringConfig, clients: Mapping[str, Client]) -> None:
        """Build the metrics of a config and choose the headline.

        Raises:
            UsageError: If nothing is left to score with.
        """
        if not scoring.metrics:
            raise UsageError(
                "include_defaults: false leaves nothing to score with",
                hint="add a metric to `scoring:`",
            )
        for settings in scoring.metrics:
            metric = METRICS.build(settings.type, settings, clients, self._environment)
            self._metrics.append(metric)
        self._primary = scoring.primary or None
        if not self._primary and not self._defaults:
            self._primary = self._metrics[0].name
        judges = [metric.name for metric in scoring.metrics if metric.type in JUDGES]
        if judges:
            self._judge = judges[0]
        metric_fingerprints = [metric.fingerprint for metric in self._metrics]
        self.fingerprint = digest(
            [self.fingerprint, self._defaults, self._primary, metric_fingerprints]
        )

    @property
    def reward_from(self) -> str:
        """The source of the reward: the name of a metric or judge, or "benchmark"."""
        return self._primary or self._judge or "benchmark"

    @property
    def compares_target(self) -> bool:
        """Whether the reward is that of the benchmark, which compares answers with the expected ones."""
        is_own = self._defaults and self._own is self._environment
        return is_own and self.reward_from == "benchmark" and self._environment.compares_target

    @property
    def beside(self) -> list[str]:
        """Names of the metrics that are reported in addition to the benchmark's own reward."""
        if self.reward_from == "benchmark":
            return [f"scorer:{metric.name}" for metric in self._metrics]
        return []

    async def verify(
        self,
        response: str,
        seed: SeedResult,
        sandbox: Sandbox | None = None,
        given: VerifyResult | None = None,
    ) -> VerifyResult:
        """Score an answer.

        Args:
            response: The text of the answer.
            seed: The problem.
            sandbox: The sandbox in which the answer was produced, if any.
            given: The verdict of a solver that grades its own work; replaces the environment's.

        Raises:
            BoundaryError: If the harness failed, as opposed to the answer.
        """
        if given is not None and self._defaults:
            verdict = given
        elif self._defaults:
            try:
                own_verdict = await self._own.verify_answer(response, seed, sandbox)
                verdict = checked_verdict(own_verdict)
            except BaseException as error:
                _SCORER.attribute(error)
                raise
        else:
            # The headline metric fills in the reward.
            verdict = VerifyResult(0.0, None, {"method": f"metric:{self._primary}"})
        needs_judge = verdict.scoring_details.get("needs_judge")
        if not self._metrics and not needs_judge:
            return verdict
        sample = MetricInput(response, seed, sandbox, found=verdict.scoring_details)
        if self._metrics:
            await self._measure(verdict, sample)
        elif self._stand_by is None:
            self._without_judge(verdict)
        else:
            result = await self._run_metric(self._stand_by, sample)
            details = dict(verdict.scoring_details)
            del details["needs_judge"]
            verdict.scoring_details = details
            _lead_with(result, verdict)
            for field in _OF_THE_JUDGE:
                if field in result.details:
                    details[field] = result.details[field]
        return verdict

    async def _measure(self, verdict: VerifyResult, sample: MetricInput) -> None:
        """Run all metrics on a sample and add their results to the verdict."""
        measurements = [self._run_metric(metric, sample) for metric in self._metrics]
        outcomes = await asyncio.gather(*measurements, return_exceptions=True)
        results: dict[str, MetricResult] = {}
        # All metrics finish before the first failure is raised: their requests are already paid for.
        for metric, result in zip(self._metrics, outcomes, strict=True):
            if isinstance(result, BaseException):
                raise result
            results[metric.name] = result
        # A copy, because the metrics have seen the original as their input.
        details = dict(verdict.scoring_details)
        needs_judge = bool(details.pop("needs_judge", False))
        verdict.scoring_details = details
        headline = self._primary
        if not headline and needs_judge:
            headline = self._judge
        if headline is not None:
            _lead_with(results[headline], verdict)
        elif needs_judge:
            self._without_judge(verdict)
        for name, result in results.items():
            details[f"scorer:{name}"] = {**result.details, "reward": result.reward}

    def _without_judge(self, verdict: VerifyResult) -> None:
        """Raise JudgeError unless fallback scores are allowed and the verdict names its fallback."""
        if self._fallback and "fallback" in verdict.scoring_details:
            return
        error = JudgeError(NEEDS_JUDGE, hint=judge_hint(self._environment.facts()))
        error.final = True
        raise error

    @property
    def judged(self) -> bool:
        """Whether any metric is a judge that can be checked."""
        if self._stand_by is not None:
            return True
        return any(isinstance(metric, Checkable) for metric in self._metrics)

    async def check_judges(self, first: SeedResult) -> dict[str, JudgeCheck]:
        """Check that every judge can tell a right answer from a wrong one.

        Args:
            first: A problem of the benchmark.

        Returns:
            What each check cost, by metric.

        Raises:
            JudgeError: If a judge fails the check: its verdicts would be meaningless.
        """
        metrics = list(self._metrics)
        if self._stand_by is not None and self._environment.facts().needs_judge:
            metrics.append(self._stand_by)
        costs: dict[str, JudgeCheck] = {}
        for metric in metrics:
            if isinstance(metric, Checkable):
                costs[metric.name] = await metric.check(first)
        return costs

    async def _run_metric(self, metric: Metric, sample: MetricInput) -> MetricResult:
        """Run one metric and check its reward."""
        with boundary(Cause.SCORER):
            result = await metric.measure(sample)
            result.reward = checked_reward(result.reward)
            return result

    @property
    def sums_up(self) -> bool:
        """Whether ``aggregate`` can return anything."""
        environment = self._environment
        if type(environment).summarize is not EvalEnvironment.summarize:
            return True
        if environment.facts().summary is not None:
            return True
        return any(getattr(metric, "aggregate", None) is not None for metric in self._metrics)

    def aggregate(self, results: Path) -> dict[str, ValueEntry]:
        """Compute the scores that need all rows, such as the benchmark's summary or the agreement of judges.

        Args:
            results: The results file.

        Returns:
            An entry for each score, by name.
        """
        own_scores = self._environment.summarize(_details(results))
        scores: dict[str, ValueEntry] = {}
        for name, value in own_scores.items():
            scores[name] = {"value": value}
            if name in self._environment.facts().headline:
                scores[name]["headline"] = True
        for metric in self._metrics:
            summarize: Summary | None = getattr(metric, "aggregate", None)
            if summarize is not None:
                metric_scores = summarize(_details(results, f"scorer:{metric.name}"))
                for name, value in metric_scores.items():
                    scores[f"{metric.name}.{name}"] = {"value": value}
        return scores


def _lead_with(result: MetricResult, verdict: VerifyResult) -> None:
    """Make a metric's result the headline of a verdict, replacing flags of the earlier headline."""
    verdict.reward = result.reward
    details = verdict.scoring_details
    for stale in ("unparsed", "fallback", "warning", "correct", "scored_by"):
        details.pop(stale, None)
    for key, value in result.details.items():
        if _is_short(key, value):
            details[key] = value
    if "extracted" in result.details:
        extracted = result.details["extracted"]
        if extracted is None:
            verdict.extracted_answer = None
        else:
            verdict.extracted_answer = str(extracted)


def _is_short(key: str, value: object) -> bool:
    """Whether a detail of the headline metric is a grade or flag that is copied to the top level."""
    if key.startswith("judge_"):
        return False
    if isinstance(value, str):
        return len(value) < _SHORT
    return isinstance(value, (bool, int, float))


def lacks_judge(facts: EnvironmentFacts, *, allow_fallback: bool) -> bool:
    """Whether a benchmark needs a judge and has no permitted fallback, so that it must not start."""
    return facts.needs_judge and not (allow_fallback and facts.has_fallback)


def judge_hint(facts: EnvironmentFacts) -> str:
    """Return a hint on how to configure a judge, and whether a fallback exists."""
    if facts.has_fallback:
        return f"{_ADD_JUDGE}{_FALL_BACK}"
    return _ADD_JUDGE


def _details(results: Path, key: str | None = None) -> Iterator[JsonDict]:
    """Yield the scoring details of each scored row, or the part of them under ``key``."""
    for row in read_rows(results):
        if not row.failed:
            if key is None:
                yield row.scoring_details
            elif key in row.scoring_details:
                yield row.scoring_details[key]
