"""The attack battery on the judges of a config: services up, every judge once, services down."""

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.config.groups import METRICS
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.scoring.attack import AttackReport, attack_judge
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics.ensemble_judge import EnsembleJudgeMetric
from nemo_evaluator.scoring.metrics.judge import JudgeMetric
from nemo_evaluator.scoring.metrics.pairwise_judge import PairwiseJudge, PairwiseJudgeMetric
from nemo_evaluator.services import start_services
from nemo_evaluator.suite.clients import Clients, Services
from nemo_evaluator.suite.run import Say

_JUDGES = (JudgeMetric, EnsembleJudgeMetric, PairwiseJudgeMetric)


async def attack_config(config: EvalConfig, *, problems: int | None, say: Say) -> list[AttackReport]:
    """Attack every judge of a config. Raises UsageError when it has none."""
    metrics = [metric for bench in config.benchmarks if bench.scoring for metric in bench.scoring.metrics]
    found = {one.name: one for one in metrics if isinstance(one, _JUDGES)}
    if not found:
        raise UsageError("the config has no judge", hint="add a metric of type judge, or give --judge-url")
    names = {name for one in found.values() for name in _services(one)}
    needed = config.model_copy(update={"services": {k: v for k, v in config.services.items() if k in names}})
    with tempfile.TemporaryDirectory(prefix="nel-attack-") as folder:
        async with AsyncExitStack() as stack, start_services(needed, Path(folder), say=say) as running:
            clients = Clients(Services(needed.services, running, logged=False), 8, stack)
            return [
                await attack_judge(name, _built(one, clients), high=float(one.max_score), problems=problems)
                for name, one in found.items()
            ]


def _services(judge: JudgeMetric | EnsembleJudgeMetric | PairwiseJudgeMetric) -> list[str]:
    if isinstance(judge, PairwiseJudgeMetric):
        return [judge.judge_service]
    return [*judge.services] if isinstance(judge, EnsembleJudgeMetric) else [judge.service]


def _built(judge: JudgeMetric | EnsembleJudgeMetric | PairwiseJudgeMetric, clients: Clients) -> Metric:
    if isinstance(judge, PairwiseJudgeMetric):
        # The battery brings both answers along: the baseline is never asked.
        return PairwiseJudge(
            judge, dict.fromkeys((judge.judge_service, judge.baseline_service), clients[judge.judge_service])
        )
    built: Metric = METRICS.build(judge.type, judge, clients, None)
    return built
