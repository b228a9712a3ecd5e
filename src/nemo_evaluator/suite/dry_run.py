"""The plan of a run, without running it."""

from __future__ import annotations

from pathlib import Path

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, safe_name
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.engine.only import chosen_problems
from nemo_evaluator.engine.plan import Shard, make_plan
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.suite.run import use_datasets
from nemo_evaluator.suite.stop_rule import check_baselines


async def describe_plan(config: EvalConfig, output_dir: Path, shard: Shard | None, *, as_json: bool) -> str:
    """What would be asked: benchmarks, problems, repeats, models, folders. Datasets are opened, models are not."""
    check_baselines(config, shard)
    use_datasets(config)
    entries = [await _entry(config, bench_index, output_dir, shard) for bench_index in range(len(config.benchmarks))]
    if as_json:
        return dumps({"benchmarks": entries, "output_dir": str(output_dir)}).decode()
    lines = [f"{len(entries)} benchmark(s), results in {output_dir}"]
    for entry in entries:
        steps = f"{entry['problems']} problems x {entry['repeats']} = {entry['steps']} steps"
        lines.append(
            f"  {entry['id']}: {steps}, {entry['solver']} on {entry['model']}, {entry['max_concurrent']} at once"
        )
        if entry.get("error"):
            lines[-1] = f"  {entry['id']}: {entry['error']}"
    return "\n".join(lines)


async def _entry(config: EvalConfig, at: int, output_dir: Path, shard: Shard | None) -> JsonDict:
    bench = config.benchmarks[at]
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
