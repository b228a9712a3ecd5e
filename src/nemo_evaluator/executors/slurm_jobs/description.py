"""A plan in words: what ``--dry-run`` shows of a run on a SLURM cluster."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from nemo_evaluator.config import BenchmarkConfig
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted, folded
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.slurm import SlurmCluster
from nemo_evaluator.executors.slurm_jobs.host import filled
from nemo_evaluator.executors.slurm_jobs.plan import SCRIPT, JobPlan, pool_of
from nemo_evaluator.servers.forms import srun_argv
from nemo_evaluator.services.base import is_managed, plan_service, replicas_of
from nemo_evaluator.services.servers import step_site

_WIDTH: Final = 80
_SIZES: Final = {
    "TP": "tensor_parallel_size",
    "PP": "pipeline_parallel_size",
    "DP": "data_parallel_size",
}


def describe(job: Job, plan: JobPlan) -> tuple[str, JsonDict]:
    """The plan for people, within 80 columns but for long words, and for programs, with all commands whole."""
    config = job.loaded.config
    assert isinstance(config.cluster, SlurmCluster)
    commands: dict[str, list[list[str]]] = {}
    for name, service in config.services.items():
        if is_managed(service):
            commands[name] = _commands(name, service, plan)
    benchmarks = [_benchmark_facts(bench) for bench in config.benchmarks]
    text = _text(job, plan, commands, benchmarks=benchmarks)
    # First those that the run starts, then those that it only reaches.
    services: dict[str, list[str]] = {}
    for name, argvs in commands.items():
        services[name] = [shlex.join(argv) for argv in argvs]
    for name, service in config.services.items():
        if name not in services:
            services[name] = [str(getattr(service, "url", ""))]
    data = asdict(plan)
    data |= {"root": str(plan.root), "services": services, "benchmarks": benchmarks}
    data["worker"] = plan.worker
    return text, data


def _benchmark_facts(bench: BenchmarkConfig) -> JsonDict:
    return {
        "id": bench.key,
        "name": bench.name,
        "repeats": bench.repeats,
        "max_problems": bench.max_problems,
        "solver": bench.solver.type,
        "max_concurrent": bench.max_concurrent,
    }


def _text(
    job: Job, plan: JobPlan, commands: dict[str, list[list[str]]], *, benchmarks: list[JsonDict]
) -> str:
    """The plan for people: a summary, then the main commands and the first one of each service."""
    config = job.loaded.config
    summary = filled(
        "plan.txt.j2",
        plan=plan,
        cluster=config.cluster,
        services={name: _service(service, plan) for name, service in config.services.items()},
        benchmarks=benchmarks,
        many=counted,
    )
    lines = [folded(summary.removesuffix("\n"), _WIDTH)]
    array = [f"--array=0-{plan.shards - 1}"] if plan.shards else []
    lines += _shell(["sbatch", *array, str(plan.root / SCRIPT)])
    lines += _shell([*plan.container, *plan.worker])
    for argvs in commands.values():
        lines += _shell(argvs[0])
    return "\n".join(lines)


def _service(service: Any, plan: JobPlan) -> str:
    """What it is, how many servers of which size, where, and after what."""
    if not is_managed(service):
        return f"{service.type} at {service.url}"
    roles: list[tuple[str, Any]] = []
    for role in ("prefill", "decode"):
        part = getattr(service, role, None)
        if part is not None:
            roles.append((role, part))
    parts = [f"{role} {_servers(part)}" for role, part in roles] or [_servers(service)]
    image = getattr(service, "image", None)
    if image:
        uses_image = plan.step.container != "none"
        parts.append(f"image {image}" if uses_image else "no image: cluster.container is none")
    if service.depends_on:
        parts.append(f"after {', '.join(service.depends_on)}")
    kind = f"{service.type} {getattr(service, 'model', '')}".strip()
    return ", ".join([kind, *parts])


def _servers(part: Any) -> str:
    """How many servers or workers, their size and their pool."""
    nodes = getattr(part, "num_nodes", 1)
    pool = pool_of(part)
    count = getattr(part, "num_workers", None)
    servers = counted(count, "worker") if count else counted(replicas_of(part), "server")
    if nodes > 1:
        servers += f" x {nodes} nodes"
    parts = [servers]
    for short, key in _SIZES.items():
        size = getattr(part, key, None)
        if size:
            parts.append(f"{short} {size}")
    if pool:
        parts.append(f"pool {pool}")
    return ", ".join(parts)


def _commands(name: str, service: Any, plan: JobPlan) -> list[list[str]]:
    """The command of each server; the job chooses nodes, and ports that are free."""
    try:
        launches = plan_service(name, service, step_site(service, plan.step))
    except NelError as error:
        comment = ["#", f"{name}:", *error.message.split()]
        if error.hint:
            comment += f"({error.hint})".split()
        return [comment]
    groups = {pool.name: pool.group for pool in plan.pools}
    commands = []
    for launch in launches:
        pool = launch.pools[0][0] if launch.pools else plan.pools[0].name
        argv = srun_argv(launch, replace(plan.step, het_group=groups.get(pool)))
        commands.append([scrub(word) for word in argv])
    return commands


def _shell(argv: Sequence[str]) -> Iterator[str]:
    """A command over lines that a shell would read as one; of a script inside it, its last line if that is short."""
    line = " "
    for each in argv:
        *before, last = each.split("\n")
        word = shlex.quote(f"...; {last}" if before else each)
        if len(word) > _WIDTH - 8 and " " in word:
            word = "'...'"
        if len(line) + len(word) > _WIDTH - 3 and line.strip():
            yield f"{line} \\"
            line = "     "
        line += f" {word}"
    yield line
