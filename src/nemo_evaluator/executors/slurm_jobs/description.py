"""A plan in words: what ``--dry-run`` shows of a run on a SLURM cluster."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

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
    for name, one in config.services.items():
        if is_managed(one):
            commands[name] = _commands(name, one, plan)
    benchmarks = [
        {"id": one.key, "name": one.name, "repeats": one.repeats, "max_problems": one.max_problems}
        | {"solver": one.solver.type, "max_concurrent": one.max_concurrent}
        for one in config.benchmarks
    ]
    words = {name: _service(one, plan) for name, one in config.services.items()}
    shown_plan = filled(
        "plan.txt.j2",
        plan=plan,
        cluster=config.cluster,
        services=words,
        benchmarks=benchmarks,
        many=counted,
    )
    text = [folded(shown_plan.removesuffix("\n"), _WIDTH)]
    array = [f"--array=0-{plan.shards - 1}"] if plan.shards else []
    shown = [["sbatch", *array, str(plan.root / SCRIPT)], [*plan.container, *plan.worker]]
    shown += [found[0] for found in commands.values()]
    for argv in shown:
        for line in _shell(argv):
            text.append(line)
    services: dict[str, list[str]] = {}
    for name, found in commands.items():
        services[name] = [shlex.join(argv) for argv in found]
    services |= {
        name: [str(getattr(one, "url", ""))]
        for name, one in config.services.items()
        if name not in services
    }
    data = asdict(plan) | {"root": str(plan.root), "services": services, "benchmarks": benchmarks}
    return "\n".join(text), data | {"worker": plan.worker}


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
        parts += [
            f"image {image}"
            if plan.step.container != "none"
            else "no image: cluster.container is none"
        ]
    if service.depends_on:
        parts += [f"after {', '.join(service.depends_on)}"]
    return f"{service.type} {getattr(service, 'model', '')}".strip() + f", {', '.join(parts)}"


def _servers(part: Any) -> str:
    """How many servers or workers, their size and their pool."""
    nodes = getattr(part, "num_nodes", 1)
    pool = pool_of(part)
    count = getattr(part, "num_workers", None)
    if count:
        many = counted(count, "worker")
    else:
        many = counted(replicas_of(part), "server")
    sizes: list[str] = []
    for short, key in _SIZES.items():
        size = getattr(part, key, None)
        if size:
            sizes.append(f"{short} {size}")
    where = [f"pool {pool}"] if pool else []
    return ", ".join([many + (f" x {nodes} nodes" if nodes > 1 else ""), *sizes, *where])


def _commands(name: str, service: Any, plan: JobPlan) -> list[list[str]]:
    """The command of each server; the job chooses nodes, and ports that are free."""
    try:
        launches = plan_service(name, service, step_site(service, plan.step))
    except NelError as error:
        return [
            [
                "#",
                f"{name}:",
                *error.message.split(),
                *(f"({error.hint})".split() if error.hint else ()),
            ]
        ]
    groups = {pool.name: pool.group for pool in plan.pools}
    commands = []
    for launch in launches:
        wanted = launch.pools[0][0] if launch.pools else plan.pools[0].name
        argv = srun_argv(launch, replace(plan.step, het_group=groups.get(wanted)))
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
        else:
            word = word
        if len(line) + len(word) > _WIDTH - 3 and line.strip():
            yield f"{line} \\"
            line = "     "
        line += f" {word}"
    yield line
