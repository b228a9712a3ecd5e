"""Describes the plan of a run without running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, safe_name
from nemo_evaluator.core.values import dataclass, replace
from nemo_evaluator.core.wording import counted
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.engine.plan import Shard, chosen_problems, make_plan
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.suite.repeats import repeats_of

if TYPE_CHECKING:
    from nemo_evaluator.suite.summary_document import PlannedEntry


@dataclass(frozen=True, slots=True)
class PlannedBenchmark:
    """The plan of one benchmark.

    Attributes:
        id: Its key in the config.
        name: Its name.
        repeats: Answers per problem.
        solver: The type of the solver.
        model: The model, if the solver uses one of the config.
        max_concurrent: The maximum number of steps that run at once.
        task_dir: The folder of its results.
        problems: How many problems run; None if the benchmark cannot be opened, or only its harness knows them.
        steps: How many steps run; None like the problems.
        replaces: The task of another harness in whose place it runs, if any.
        error: Why the benchmark cannot be opened; None if it can.
    """

    id: str
    name: str
    repeats: int
    solver: str
    model: str | None
    max_concurrent: int
    task_dir: str
    problems: int | None = None
    steps: int | None = None
    replaces: str | None = None
    error: str | None = None

    def as_dict(self) -> PlannedEntry:
        """Return the plan as data, without ``error`` if there is none."""
        data: PlannedEntry = {
            "id": self.id,
            "name": self.name,
            "repeats": self.repeats,
            "solver": self.solver,
            "model": self.model,
            "max_concurrent": self.max_concurrent,
            "task_dir": self.task_dir,
            "problems": self.problems,
            "steps": self.steps,
        }
        if self.replaces is not None:
            data["replaces"] = self.replaces
        if self.error is not None:
            data["error"] = self.error
        return data

    def text(self) -> str:
        """Return the plan as one line."""
        if self.error is not None:
            return f"{self.id}: {self.error}"
        if self.problems is None or self.steps is None:
            # The harness decides about concurrency itself.
            return f"{self.id}: problems: known after the run, {self.solver} on {self.model}"
        problems = counted(self.problems, "problem")
        steps = counted(self.steps, "step")
        solver = f"{self.solver} on {self.model}, concurrency {self.max_concurrent}"
        text = f"{self.id}: {problems} x {self.repeats} = {steps}, {solver}"
        if self.replaces is not None:
            text += f"; {self.name} of nel in place of {self.replaces}"
        return text


@dataclass(frozen=True, slots=True)
class DryRun:
    """The planned benchmarks, with their problems, repeats, models and folders."""

    benchmarks: list[PlannedBenchmark]
    output_dir: Path

    @property
    def failed(self) -> bool:
        """True if a benchmark could not be opened."""
        return any(benchmark.error is not None for benchmark in self.benchmarks)

    def as_json(self) -> str:
        """Return the plan as JSON."""
        benchmarks = [benchmark.as_dict() for benchmark in self.benchmarks]
        return dumps({"benchmarks": benchmarks, "output_dir": str(self.output_dir)}).decode()

    def text(self) -> str:
        """Return the plan as text."""
        lines = [f"{counted(len(self.benchmarks), 'benchmark')}, results in {self.output_dir}"]
        for benchmark in self.benchmarks:
            lines.append(f"  {benchmark.text()}")
        return "\n".join(lines)


async def describe_plan(config: EvalConfig, output_dir: Path, shard: Shard | None) -> DryRun:
    """Return the plan of a config. Datasets are opened, but no model is called.

    Args:
        config: The config.
        output_dir: The folder of the run.
        shard: The part to run; None for all.
    """
    use_datasets(config.datasets)
    benchmarks = []
    for bench in config.benchmarks:
        benchmarks.append(await _planned(config, bench, output_dir, shard=shard))
    return DryRun(benchmarks, output_dir)


async def _planned(
    config: EvalConfig, bench: BenchmarkConfig, output_dir: Path, shard: Shard | None
) -> PlannedBenchmark:
    """Return the plan of one benchmark, or the error if it cannot be opened."""
    service = getattr(bench.solver, "service", None)
    planned = PlannedBenchmark(
        id=bench.key,
        name=bench.name,
        repeats=bench.repeats,
        solver=bench.solver.type,
        model=config.model_id(service) if service else None,
        max_concurrent=bench.max_concurrent,
        task_dir=str(output_dir / safe_name(bench.key)),
        replaces=bench.replaces,
    )
    try:
        name = getattr(bench.solver, "uri", None) or bench.name
        environment = get_environment(name, num_fewshot=bench.fewshot, params=bench.params)
        if bench.solver.owns_loop:
            await environment.close()
            return planned
        planned = replace(planned, repeats=repeats_of(bench, environment))
        plan = make_plan(
            await environment.dataset_size(),
            repeats=planned.repeats,
            max_problems=bench.max_problems,
            shuffle_seed=bench.shuffle_seed,
            shard=shard,
            only=await chosen_problems(environment, bench.only),
        )
    except NelError as error:
        return replace(planned, error=error.message)
    await environment.close()
    return replace(planned, problems=len(plan.problems), steps=len(plan))
