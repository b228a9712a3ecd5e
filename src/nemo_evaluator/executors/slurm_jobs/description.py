"""A plan in words: what ``--dry-run`` shows of a run on a SLURM cluster."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.slurm_jobs.plan import SCRIPT, JobPlan, Pool
from nemo_evaluator.services.base import Launch
from nemo_evaluator.services.forms import srun_argv
from nemo_evaluator.services.planner import is_managed, plan_service
from nemo_evaluator.services.steps import step_site

if TYPE_CHECKING:
    from nemo_evaluator.executors.base import Job


def describe(job: Job, plan: JobPlan) -> tuple[str, JsonDict]:
    """The plan for people and for programs."""
    config = job.loaded.config
    lines = [f"Run {plan.name} on SLURM, results in {plan.root}"]
    jobs = f"an array of {plan.shards} jobs, merged by the last one" if plan.shards else "1 job"
    again = f"follow-up jobs resume it (at most {plan.max_retries} in a row without progress)"
    lines.append(f"Jobs: {jobs}, {config.cluster.walltime} each; {again if plan.auto_resume else 'no follow-up jobs'}")  # type: ignore[attr-defined]
    lines += [f"  pool {pool.name}: {_pool(pool)}" for pool in plan.pools]
    services = {name: _service(name, one, plan) for name, one in config.services.items()}
    lines.append("Services:")
    for name, commands in services.items():
        after = f", after {', '.join(config.services[name].depends_on)}" if config.services[name].depends_on else ""
        lines += [f"  {name} ({config.services[name].type}{after}):", *(f"    {text}" for text in commands)]
    lines.append("Benchmarks:")
    benchmarks = [
        {"id": one.key, "name": one.name, "repeats": one.repeats, "max_problems": one.max_problems}
        | {"solver": one.solver.type, "max_concurrent": one.max_concurrent}
        for one in config.benchmarks
    ]
    for one in benchmarks:
        size = f"at most {one['max_problems']} problems" if one["max_problems"] else "all problems"
        lines.append(f"  {one['id']}: {size} x {one['repeats']}, {one['solver']}, concurrency {one['max_concurrent']}")
    array = f" --array=0-{plan.shards - 1}" if plan.shards else ""
    lines += ["Commands:", f"  sbatch{array} {plan.root / SCRIPT}", f"  {shlex.join([*plan.container, *plan.worker])}"]
    data = asdict(plan) | {"root": str(plan.root), "services": services, "benchmarks": benchmarks}
    return "\n".join(lines), data | {"worker": plan.worker}


def _pool(pool: Pool) -> str:
    flags = " ".join(f"--{flag}" + (f"={value}" if value is not None else "") for flag, value in pool.directives)
    return flags + (" (sandboxes)" if pool.sandboxes else "")


def _service(name: str, service: Any, plan: JobPlan) -> list[str]:
    """Where a service is, or the command of each of its servers; the job chooses nodes, and ports that are free."""
    if not is_managed(service):
        return [str(service.url)]
    try:
        plans = plan_service(name, service, step_site(service, plan.step))
    except NelError as error:
        return [f"{error.message}" + (f" ({error.hint})" if error.hint else "")]
    return [_command(launch, plan) for launch in plans]


def _command(launch: Launch, plan: JobPlan) -> str:
    wanted = launch.pools[0][0] if launch.pools else plan.pools[0].name
    group = next((pool.group for pool in plan.pools if pool.name == wanted), None)
    container = plan.step.container if launch.image else "none"
    return scrub(shlex.join(srun_argv(launch, replace(plan.step, container=container, het_group=group))))
