"""From an entry of ``scoring.metrics`` to the metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nemo_evaluator.config.scoring import (
    CustomMetric,
    EnsembleJudgeMetric,
    JudgeMetric,
    MetricConfig,
    PairwiseJudgeMetric,
    RewardModelMetric,
    RubricMetric,
    SandboxMetric,
)
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.scoring._ask import JudgeSettings
from nemo_evaluator.scoring._rubric import Rubric
from nemo_evaluator.scoring.command import SandboxCommand
from nemo_evaluator.scoring.custom import ScorerMetric, custom_metric
from nemo_evaluator.scoring.ensemble import EnsembleJudge
from nemo_evaluator.scoring.judge import EnvironmentJudge, JudgedEnvironment, RubricJudge
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.pairwise import PairwiseJudge
from nemo_evaluator.scoring.registry import get_scorer
from nemo_evaluator.scoring.reward_model import RewardModel

if TYPE_CHECKING:
    from nemo_evaluator.models import Client

JUDGES = (JudgeMetric, PairwiseJudgeMetric, EnsembleJudgeMetric, RewardModelMetric)


def build_metric(config: MetricConfig, clients: Mapping[str, Client], environment: object = None) -> Metric:
    """The metric of one config entry. A judge without a rubric asks what ``environment`` wants asked, if it does."""
    if isinstance(config, JudgeMetric):
        return _judge(config, clients, environment)
    if isinstance(config, PairwiseJudgeMetric):
        judge, baseline = _client(clients, config.judge_service), _client(clients, config.baseline_service)
        rubric, settings = _rubric(config), _settings(config)
        return PairwiseJudge(
            config.name, judge, baseline, rubric, settings, swap_check=config.swap_check, canaries=config.canaries
        )
    if isinstance(config, EnsembleJudgeMetric):
        members = {service: _client(clients, service) for service in config.services}
        return EnsembleJudge(
            config.name, members, _rubric(config), _settings(config), config.aggregation, canaries=config.canaries
        )
    if isinstance(config, RewardModelMetric):
        return RewardModel(
            config.name,
            _client(clients, config.service),
            JudgeSettings(0.0, config.timeout, config.max_retries),
            mode=config.mode,
            aspect=config.aspect,
            score_range=config.score_range,
            threshold=config.threshold,
            canaries=config.canaries,
        )
    if isinstance(config, SandboxMetric):
        return SandboxCommand(config.name, config.command, config.verify_timeout)
    if isinstance(config, CustomMetric):
        return custom_metric(config.name, config.class_path, dict(config.config))
    return ScorerMetric(config.name, get_scorer(config.name))


def default_judge(client: Client, environment: object) -> Metric:
    """The judge of a benchmark that needs one, asked with the default rubric unless the benchmark brings a question."""
    return _judge(JudgeMetric(type="judge", name="judge", service="judge"), {"judge": client}, environment)


def _judge(config: JudgeMetric, clients: Mapping[str, Client], environment: object) -> Metric:
    client, settings = _client(clients, config.service), _settings(config)
    if config.rubric is None and config.rubric_file is None and isinstance(environment, JudgedEnvironment):
        idle = sorted(config.model_fields_set & {"max_score", "swap_check", "reference_free"})
        if idle:
            raise UsageError(
                f"metric {config.name!r}: this benchmark brings its own question for the judge, so {', '.join(idle)} "
                "would have no effect",
                hint="leave it out, or give a rubric",
            )
        return EnvironmentJudge(
            config.name, client, environment, settings, config.system_prompt, canaries=config.canaries
        )
    rubric = _rubric(config, system_prompt=config.system_prompt, reference_free=config.reference_free)
    return RubricJudge(config.name, client, rubric, settings, swap_check=config.swap_check, canaries=config.canaries)


def _rubric(config: RubricMetric, system_prompt: str | None = None, reference_free: bool = False) -> Rubric:
    return Rubric.of(config.rubric, config.rubric_file, config.max_score, system_prompt, reference_free)


def _settings(config: RubricMetric) -> JudgeSettings:
    return JudgeSettings(config.temperature, config.timeout, config.max_retries)


def _client(clients: Mapping[str, Client], service: str) -> Client:
    try:
        return clients[service]
    except KeyError:
        raise UsageError(f"no service is called {service!r}") from None
