"""Describes the plan of a run without running it."""

from pathlib import Path

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.core.wording import counted
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.engine.plan import Shard, chosen_problems, make_plan
from nemo_evaluator.environments.registry import get_environment


@dataclass(frozen=True, slots=True)
class DryRun:
    """The planned benchmarks, with their problems, repeats, models and folders."""

    entries: list[JsonDict]
    output_dir: Path

    @property
    def failed(self) -> bool:
        """True if a benchmark could not be opened."""
        return any(entry.get("error") for entry in self.entries)

    def as_json(self) -> str:
        """Return the plan as JSON."""
        return dumps({"benchmarks": self.entries, "output_dir": str(self.output_dir)}).decode()

    def text(self) -> str:
        """Return the plan as text."""
        lines = [f"{counted(len(self.entries), 'benchmark')}, results in {self.output_dir}"]
        for entry in self.entries:
            lines.append(f"  {entry['id']}: {entry.get('error') or _about(entry)}")
        return "\n".join(lines)


def _about(entry: JsonDict) -> str:
    problems = counted(entry["problems"], "problem")
    steps = counted(entry["steps"], "step")
    solver = f"{entry['solver']} on {entry['model']}, concurrency {entry['max_concurrent']}"
    return f"{problems} x {entry['repeats']} = {steps}, {solver}"


async def describe_plan(config: EvalConfig, output_dir: Path, shard: Shard | None) -> DryRun:
    """Return the plan of a config. Datasets are opened, but no model is called."""
    use_datasets(config.datasets)
    entries = []
    for bench in config.benchmarks:
        entries.append(await _entry(config, bench, output_dir, shard=shard))
    return DryRun(entries, output_dir)


async def _entry(
    config: EvalConfig, bench: BenchmarkConfig, output_dir: Path, shard: Shard | None
) -> JsonDict:
    """Return the plan of one benchmark, or the error if it cannot be opened."""
    service = getattr(bench.solver, "service", None)
    entry: JsonDict = {
        "id": bench.key,
        "name": bench.name,
        "repeats": bench.repeats,
        "solver": bench.solver.type,
        "model": config.model_id(service) if service else None,
        "max_concurrent": bench.max_concurrent,
        "task_dir": str(output_dir / safe_name(bench.key)),
    }
    try:
        environment = get_environment(bench.name, num_fewshot=bench.fewshot, params=bench.params)
        plan = make_plan(
            await environment.dataset_size(),
            repeats=bench.repeats,
            max_problems=bench.max_problems,
            shuffle_seed=bench.shuffle_seed,
            shard=shard,
            only=await chosen_problems(environment, bench.only),
        )
    except NelError as error:
        return entry | {"problems": None, "steps": None, "error": error.message}
    await environment.close()
    return entry | {"problems": len(plan.problems), "steps": len(plan)}
