"""Probes of a config: repeated answers to measure noise, and attacks on its judges."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nemo_evaluator.config import EvalConfig, MetricBase
from nemo_evaluator.config.groups import METRICS
from nemo_evaluator.config.service_base import ModelService, ServiceBase
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import safe_name, write_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import fingerprints_of
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.runs.calibration import tie
from nemo_evaluator.runs.row import Row
from nemo_evaluator.scoring.attack import AttackReport, attack_judge
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics.ensemble_judge import EnsembleJudgeMetric
from nemo_evaluator.scoring.metrics.judge import JudgeMetric
from nemo_evaluator.scoring.metrics.pairwise_judge import PairwiseJudge, PairwiseJudgeMetric
from nemo_evaluator.services import RunningService, start_services
from nemo_evaluator.statistics.run_noise import FlipRate, NoisySide, flip_rate, self_difference
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.build import Builder
from nemo_evaluator.suite.clients import Clients
from nemo_evaluator.suite.results import Say

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import MeasuredBy
    from nemo_evaluator.suite.summary_document import ChangeEntry, NoiseDocument

Judge: TypeAlias = JudgeMetric | EnsembleJudgeMetric | PairwiseJudgeMetric


@dataclass(frozen=True, slots=True)
class Change:
    """The difference between two runs of the same problems.

    Attributes:
        problems: How many answers were compared.
        answers: The share of answers that differ.
        verdicts: The share of rewards that differ.
        score: The absolute difference of the mean rewards.
    """

    problems: int
    answers: float
    verdicts: float
    score: float

    def to_dict(self) -> ChangeEntry:
        """Return the difference as JSON."""
        return {
            "problems": self.problems,
            "answers": self.answers,
            "verdicts": self.verdicts,
            "score": self.score,
        }


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """The run-to-run noise of one benchmark, over four runs at two levels of concurrency.

    Attributes:
        benchmark: The benchmark.
        model: The model.
        levels: The concurrency of the first two runs, and that of the last two.
        rate: How often a verdict changes, over all four runs.
        again: The second run against the first.
        again_high: The fourth run against the third.
        other_level: The third run against the first.
        measured_by: Fingerprints of the unchanged config, to which this measurement applies.
    """

    benchmark: str
    model: str
    levels: tuple[int, int]
    rate: FlipRate
    again: Change
    again_high: Change
    other_level: Change
    measured_by: MeasuredBy

    def self_difference(self, problems: int) -> float:
        """How far two runs over so many problems, with one answer each, differ by noise alone, with 95 %."""
        side = NoisySide(self.rate, 1)
        return self_difference((side, side), problems)

    def to_dict(self) -> NoiseDocument:
        """Return the content of ``noise.json``."""
        lower, upper = self.rate.bounds()
        return {
            "version": 2,
            "benchmark": self.benchmark,
            "model": self.model,
            "levels": self.levels,
            "flip_rate": {
                "value": self.rate.value,
                "ci_lower": lower,
                "ci_upper": upper,
                "problems": self.rate.problems,
                "unit": self.rate.unit,
            },
            "again": self.again.to_dict(),
            "again_high": self.again_high.to_dict(),
            "other_level": self.other_level.to_dict(),
            "measured_by": self.measured_by,
        }


async def measure_noise(
    config: EvalConfig, problems: int, levels: tuple[int, int], *, say: Say
) -> list[NoiseReport]:
    """Run every benchmark four times, and write the flip rate to ``noise.json`` in its output folder.

    Args:
        config: The config.
        problems: The maximum number of problems per benchmark.
        levels: The concurrency of the first two runs, and that of the last two.
        say: Receives messages for the user.

    Raises:
        NelError: The error that stopped a benchmark.
    """
    use_datasets(config.datasets)
    quiet_config = _without_sampling(config, problems)
    reports = []
    with tempfile.TemporaryDirectory(prefix="nel-noise-") as temporary:
        folder = Path(temporary)
        async with start_services(quiet_config, folder, say=say) as running:
            for bench in quiet_config.benchmarks:
                key = bench.key
                measured_by = await _fingerprints(config, running, key, folder=folder)
                runs: list[Bundle] = []
                low, high = levels
                for index, concurrency in enumerate((low, low, high, high)):
                    say(f"{key}: {index + 1} of 4, concurrency {concurrency}")
                    run_config = _at(quiet_config, concurrency)
                    builder = Builder(run_config, running, f"noise-{index}")
                    bundle = await _run_once(builder, key, folder / str(index))
                    runs.append(bundle)
                report = _noise_report(runs, levels, measured_by)
                target = TaskPaths(Path(config.output.dir) / safe_name(key)).noise
                target.parent.mkdir(parents=True, exist_ok=True)
                write_json(target, report.to_dict())
                reports.append(report)
    return reports


async def _fingerprints(
    config: EvalConfig, running: Mapping[str, RunningService], key: str, folder: Path
) -> MeasuredBy:
    """Return the fingerprints of a benchmark under the unchanged config."""
    async with AsyncExitStack() as stack:
        builder = Builder(config, running, "noise")
        job = await builder.build(key, folder / "plain", stack, resume=False, shard=None)
        return tie(fingerprints_of(job).parts)


def _noise_report(
    runs: Sequence[Bundle], levels: tuple[int, int], measured_by: MeasuredBy
) -> NoiseReport:
    """Estimate the flip rate from all runs, and compare them at the same and at the other concurrency.

    Raises:
        NelError: If no problem was scored in all of them.
    """
    rows = [_scored_rows(run) for run in runs]
    first, second, third, fourth = rows
    shared = [key for key in first if all(key in other for other in rows)]
    if not shared:
        hint = "look at one run first: nel eval run CONFIG --limit 5"
        raise NelError("no problem was scored in all runs", hint=hint)
    columns: list[list[float | None]] = []
    for run_rows in rows:
        columns.append([run_rows[key].reward for key in shared])
    rewards = np.array(columns, dtype=float).T
    return NoiseReport(
        benchmark=runs[0].name,
        model=runs[0].model,
        levels=levels,
        rate=flip_rate(rewards),
        again=_change(first, second),
        again_high=_change(third, fourth),
        other_level=_change(first, third),
        measured_by=measured_by,
    )


async def _run_once(builder: Builder, key: str, folder: Path) -> Bundle:
    """Run one benchmark and return its bundle; raise the error that stopped it."""
    async with AsyncExitStack() as stack:
        job = await builder.build(key, folder, stack, resume=False, shard=None)
        finished = await evaluate(job)
    if finished.halt.error is not None:
        raise finished.halt.error
    return load_bundle(finished.task.bundles()[-1])


def _scored_rows(run: Bundle) -> dict[tuple[int, int], Row]:
    """Return the scored rows of a run, by problem and repeat."""
    return {row.key: row for row in run.rows() if row.reward is not None}


def _change(left: Mapping[tuple[int, int], Row], right: Mapping[tuple[int, int], Row]) -> Change:
    """Compare two runs that share problems."""
    pairs = [(left[key], right[key]) for key in left if key in right]
    other_answers = 0
    other_verdicts = 0
    difference = 0.0
    for left_row, right_row in pairs:
        left_reward = left_row.reward or 0.0
        right_reward = right_row.reward or 0.0
        other_answers += left_row.response != right_row.response
        other_verdicts += left_reward != right_reward
        difference += right_reward - left_reward
    return Change(
        problems=len(pairs),
        answers=other_answers / len(pairs),
        verdicts=other_verdicts / len(pairs),
        score=abs(difference) / len(pairs),
    )


def _without_sampling(config: EvalConfig, problems: int) -> EvalConfig:
    """Return the config at temperature 0, without an answer cache, with few problems and no reports."""
    services = {name: _cold(service) for name, service in config.services.items()}
    benches = []
    for bench in config.benchmarks:
        solver = bench.solver
        generation = getattr(solver, "generation", None)
        if generation is not None:
            generation_settings = generation.model_copy(update={"temperature": 0.0})
            solver = solver.model_copy(update={"generation": generation_settings})
        update = {
            "solver": solver,
            "max_problems": min(problems, bench.max_problems or problems),
            "repeats": 1,
            "stop_when": None,
        }
        benches.append(bench.model_copy(update=update))
    return config.model_copy(update={"services": services, "benchmarks": benches})


def _cold(service: ServiceBase) -> ServiceBase:
    """Return a service at temperature 0, without an answer cache or a concurrency limit."""
    if not isinstance(service, ModelService):
        return service
    generation = service.generation.model_copy(update={"temperature": 0.0})
    update: JsonDict = {"generation": generation, "max_concurrent": None}
    proxy = service.proxy
    if proxy is not None:
        interceptors = [entry for entry in proxy.interceptors if entry.name != "caching"]
        cache = proxy.cache.model_copy(update={"mode": "off"})
        update["proxy"] = proxy.model_copy(update={"cache": cache, "interceptors": interceptors})
    return service.model_copy(update=update)


def _at(config: EvalConfig, level: int) -> EvalConfig:
    benches = [bench.model_copy(update={"max_concurrent": level}) for bench in config.benchmarks]
    return config.model_copy(update={"benchmarks": benches})


async def attack_config(
    config: EvalConfig, *, problems: int | None, say: Say
) -> list[AttackReport]:
    """Attack every judge of a config.

    Args:
        config: The config.
        problems: The maximum number of problems per judge; None for all.
        say: Receives messages for the user.

    Raises:
        UsageError: If the config has no judge.
    """
    judges = _judges(config)
    if not judges:
        raise UsageError(
            "the config has no judge", hint="add a metric of type judge, or give --judge-url"
        )
    services: list[str] = []
    for judge in judges.values():
        services += judge.asked(judges=True)
    needed_config = config.only(services)
    reports: list[AttackReport] = []
    with tempfile.TemporaryDirectory(prefix="nel-attack-") as folder:
        async with (
            AsyncExitStack() as stack,
            start_services(needed_config, Path(folder), say=say) as running,
        ):
            clients = Clients(needed_config.services, running, 8, stack=stack, logged=False)
            for name, judge in judges.items():
                metric = _built(judge, clients)
                high = float(judge.max_score)
                reports.append(await attack_judge(name, metric, high=high, problems=problems))
    return reports


def _judges(config: EvalConfig) -> dict[str, Judge]:
    """Return the judges of all benchmarks, by name."""
    judges: dict[str, Judge] = {}
    for bench in config.benchmarks:
        for metric in bench.scoring.metrics:
            if isinstance(metric, Judge):
                judges[metric.name] = metric
    return judges


def _built(judge: MetricBase, clients: Clients) -> Metric:
    """Build the metric of a judge."""
    if isinstance(judge, PairwiseJudgeMetric):
        # The attacks supply both answers, so the baseline model is never called.
        return PairwiseJudge(judge, dict.fromkeys(judge.asked(), clients[judge.judge_service]))
    metric: Metric = METRICS.build(judge.type, judge, clients, None)
    return metric
