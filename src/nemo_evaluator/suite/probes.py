"""Probes of a config: repeated answers for the noise floor, and attacks on its judges."""

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from nemo_evaluator.config import EvalConfig, MetricBase
from nemo_evaluator.config.groups import METRICS
from nemo_evaluator.config.service_base import ModelService, ServiceBase
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import safe_name, write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import fingerprints_of
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.calibration import tie
from nemo_evaluator.runs.row import Row
from nemo_evaluator.scoring.attack import AttackReport, attack_judge
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics.ensemble_judge import EnsembleJudgeMetric
from nemo_evaluator.scoring.metrics.judge import JudgeMetric
from nemo_evaluator.scoring.metrics.pairwise_judge import PairwiseJudge, PairwiseJudgeMetric
from nemo_evaluator.services import start_services
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.build import Builder
from nemo_evaluator.suite.clients import Clients
from nemo_evaluator.suite.results import Say


@dataclass(frozen=True, slots=True)
class Change:
    """Two runs of the same problems: what differs between them."""

    problems: int
    answers: float
    verdicts: float
    score: float


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """How far one benchmark differs from itself: repeated as before, and at the other level of concurrency."""

    benchmark: str
    model: str
    levels: tuple[int, int]
    again: Change
    other_level: Change
    # Of a run of the config as it is: what this holds for.
    measured_by: JsonDict

    def to_dict(self) -> JsonDict:
        """What is stored beside the run."""
        return {"version": 1, **asdict(self)}


async def measure_noise(
    config: EvalConfig, problems: int, levels: tuple[int, int], *, say: Say
) -> list[NoiseReport]:
    """Ask every benchmark three times and keep what changed in ``noise.json`` in its folder of the config's output."""
    use_datasets(config.datasets)
    still = _still(config, problems)
    found = []
    with tempfile.TemporaryDirectory(prefix="nel-noise-") as folder:
        async with start_services(still, Path(folder), say=say) as running:
            for key in [bench.key for bench in still.benchmarks]:
                runs = []
                async with AsyncExitStack() as stack:
                    plain = Builder(config, running, "noise")
                    job = await plain.build(
                        key, Path(folder) / "plain", stack, resume=False, shard=None
                    )
                    bound = tie(fingerprints_of(job).parts)
                for number, level in enumerate((levels[0], levels[0], levels[1])):
                    say(f"{key}: {number + 1} of 3, concurrency {level}")
                    builder = Builder(_at(still, level), running, f"noise-{number}")
                    async with AsyncExitStack() as stack:
                        job = await builder.build(
                            key, Path(folder) / str(number), stack, resume=False, shard=None
                        )
                        finished = await evaluate(job)
                    if finished.halt.error is not None:
                        raise finished.halt.error
                    runs.append(load_bundle(finished.task.bundles()[-1]))
                rows: list[dict[tuple[int, int], Row]] = []
                for run in runs:
                    rows.append({row.key: row for row in run.rows() if row.reward is not None})
                again, other_level = (_change(rows[0], those) for those in rows[1:])
                report = NoiseReport(
                    runs[0].name,
                    runs[0].model,
                    levels,
                    again=again,
                    other_level=other_level,
                    measured_by=bound,
                )
                target = TaskPaths(Path(config.output.dir) / safe_name(key)).noise
                target.parent.mkdir(parents=True, exist_ok=True)
                write_json(target, report.to_dict())
                found.append(report)
    return found


def _change(left: Mapping[tuple[int, int], Row], right: Mapping[tuple[int, int], Row]) -> Change:
    pairs = [(left[key], right[key]) for key in left if key in right]
    if not pairs:
        hint = "look at one run first: nel eval run CONFIG --limit 5"
        raise NelError("no problem was scored in both runs", hint=hint)
    rewards = [(one.reward or 0.0, two.reward or 0.0) for one, two in pairs]
    return Change(
        problems=len(pairs),
        answers=sum(one.response != two.response for one, two in pairs) / len(pairs),
        verdicts=sum(one != two for one, two in rewards) / len(pairs),
        score=abs(sum(two - one for one, two in rewards)) / len(pairs),
    )


def _still(config: EvalConfig, problems: int) -> EvalConfig:
    """The config at temperature 0, without an answer cache, with few problems and no reports."""
    services = {name: _cold(service) for name, service in config.services.items()}
    benches = []
    for bench in config.benchmarks:
        own = getattr(bench.solver, "generation", None)
        if own is not None:
            cooler = {"generation": own.model_copy(update={"temperature": 0.0})}
        else:
            cooler = {}
        most = min(problems, bench.max_problems or problems)
        update = {
            "solver": bench.solver.model_copy(update=cooler),
            "max_problems": most,
            "repeats": 1,
        }
        benches.append(bench.model_copy(update=update | {"stop_when": None}))
    return config.model_copy(update={"services": services, "benchmarks": benches})


def _cold(service: ServiceBase) -> ServiceBase:
    if not isinstance(service, ModelService):
        return service
    cold = service.generation.model_copy(update={"temperature": 0.0})
    update: JsonDict = {"generation": cold, "max_concurrent": None}
    proxy = service.proxy
    if proxy is not None:
        asked = [one for one in proxy.interceptors if one.name != "caching"]
        off = proxy.cache.model_copy(update={"mode": "off"})
        update["proxy"] = proxy.model_copy(update={"cache": off, "interceptors": asked})
    return service.model_copy(update=update)


def _at(config: EvalConfig, level: int) -> EvalConfig:
    benches = [bench.model_copy(update={"max_concurrent": level}) for bench in config.benchmarks]
    return config.model_copy(update={"benchmarks": benches})


async def attack_config(
    config: EvalConfig, *, problems: int | None, say: Say
) -> list[AttackReport]:
    """Attack every judge of a config. Raises UsageError when it has none."""
    metrics: list[MetricBase] = []
    for bench in config.benchmarks:
        if bench.scoring:
            for metric in bench.scoring.metrics:
                metrics.append(metric)
    judges = (JudgeMetric, EnsembleJudgeMetric, PairwiseJudgeMetric)
    found = {one.name: one for one in metrics if isinstance(one, judges)}
    if not found:
        raise UsageError(
            "the config has no judge", hint="add a metric of type judge, or give --judge-url"
        )
    needed = config.only(name for one in found.values() for name in one.asked(judges=True))
    with tempfile.TemporaryDirectory(prefix="nel-attack-") as folder:
        async with (
            AsyncExitStack() as stack,
            start_services(needed, Path(folder), say=say) as running,
        ):
            clients = Clients(needed.services, running, 8, stack=stack, logged=False)
            results: list[AttackReport] = []
            for name, one in found.items():
                results.append(
                    await attack_judge(
                        name, _built(one, clients), high=float(one.max_score), problems=problems
                    )
                )
            return results


def _built(judge: MetricBase, clients: Clients) -> Metric:
    if isinstance(judge, PairwiseJudgeMetric):
        # The battery brings both answers along: the baseline is never asked.
        return PairwiseJudge(judge, dict.fromkeys(judge.asked(), clients[judge.judge_service]))
    built: Metric = METRICS.build(judge.type, judge, clients, None)
    return built
