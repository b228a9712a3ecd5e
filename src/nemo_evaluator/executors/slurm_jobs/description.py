"""Describes the plan of a run on a SLURM cluster, for ``--dry-run``."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.config.shared_service import SharedService
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.secret_values import public_url
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted, folded
from nemo_evaluator.executors.base import Job, PlanDescription
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


def describe(job: Job, plan: JobPlan) -> PlanDescription:
    """Describe a plan; the text has at most 80 columns, apart from long words."""
    config = job.loaded.config
    assert isinstance(config.cluster, SlurmCluster)
    commands: dict[str, list[list[str]]] = {}
    for name, service in config.services.items():
        if is_managed(service):
            commands[name] = _commands(name, service, plan)
    benchmarks = [_benchmark_facts(bench) for bench in config.benchmarks]
    text = _text(job, plan, commands, benchmarks=benchmarks)
    data = asdict(plan)
    data["root"] = str(plan.root)
    data["services"] = _service_facts(config, commands)
    data["benchmarks"] = benchmarks
    data["worker"] = plan.worker
    return PlanDescription(text, data)


def _service_facts(
    config: EvalConfig, commands: dict[str, list[list[str]]]
) -> dict[str, list[str]]:
    """Return the commands of the services that the run starts, then the URLs of those that already exist."""
    services: dict[str, list[str]] = {}
    for name, argvs in commands.items():
        services[name] = [shlex.join(argv) for argv in argvs]
    for name, service in config.services.items():
        if name not in services:
            services[name] = [_address(service)]
    return services


def _benchmark_facts(bench: BenchmarkConfig) -> JsonDict:
    """Return the settings of a benchmark that the description shows."""
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
    """Return the text: a summary, the main commands, and the first command of each service."""
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
    submission = ["sbatch"]
    if plan.shards:
        submission.append(f"--array=0-{plan.shards - 1}")
    submission.append(str(plan.root / SCRIPT))
    lines += _shell(submission)
    lines += _shell([*plan.container, *plan.worker])
    for argvs in commands.values():
        lines += _shell(argvs[0])
    return "\n".join(lines)


def _address(service: Any) -> str:
    """Return the URL of a service that nel does not start, without its secrets, or the service that has its server."""
    if isinstance(service, SharedService):
        return f"the server of {service.server}"
    return scrub(public_url(str(getattr(service, "url", ""))))


def _service(service: Any, plan: JobPlan) -> str:
    """Describe a service: its type and model, its servers, its image and its dependencies."""
    if isinstance(service, SharedService):
        return f"the server of {service.server}, {service.protocol}"
    if not is_managed(service):
        return f"{service.type} at {_address(service)}"
    details = [f"{service.type} {getattr(service, 'model', '')}".strip()]
    details += _roles(service) or [_servers(service)]
    image = getattr(service, "image", None)
    if image:
        if plan.step.container == "none":
            details.append("no image: cluster.container is none")
        else:
            details.append(f"image {image}")
    if service.depends_on:
        details.append(f"after {', '.join(service.depends_on)}")
    return ", ".join(details)


def _roles(service: Any) -> list[str]:
    """Describe the servers of each role, for a service that has roles."""
    roles: list[str] = []
    for role in ("prefill", "decode"):
        part = getattr(service, role, None)
        if part is not None:
            roles.append(f"{role} {_servers(part)}")
    return roles


def _servers(part: Any) -> str:
    """Describe how many servers or workers there are, their size and their node pool."""
    workers = getattr(part, "num_workers", None)
    if workers:
        servers = counted(workers, "worker")
    else:
        servers = counted(replicas_of(part), "server")
    nodes = getattr(part, "num_nodes", 1)
    if nodes > 1:
        servers += f" x {nodes} nodes"
    details = [servers]
    for abbreviation, key in _SIZES.items():
        size = getattr(part, key, None)
        if size:
            details.append(f"{abbreviation} {size}")
    pool = pool_of(part)
    if pool:
        details.append(f"pool {pool}")
    return ", ".join(details)


def _commands(name: str, service: Any, plan: JobPlan) -> list[list[str]]:
    """Return the command of each server, or a comment with the error; nodes and ports are chosen by the job."""
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
        pool = plan.pools[0].name
        if launch.pools:
            pool = launch.pools[0][0]
        argv = srun_argv(launch, replace(plan.step, het_group=groups.get(pool)))
        commands.append([scrub(argument) for argument in argv])
    return commands


def _shell(argv: Sequence[str]) -> Iterator[str]:
    """Wrap a command over several lines, as a shell would read it."""
    line = " "
    for argument in argv:
        shown_argument = _shown_argument(argument)
        if len(line) + len(shown_argument) > _WIDTH - 3 and line.strip():
            yield f"{line} \\"
            line = "     "
        line += f" {shown_argument}"
    yield line


def _shown_argument(argument: str) -> str:
    """Quote an argument; of several lines show the last one, and of a long text nothing."""
    _, line_break, last_line = argument.rpartition("\n")
    if line_break:
        argument = f"...; {last_line}"
    quoted_argument = shlex.quote(argument)
    if len(quoted_argument) > _WIDTH - 8 and " " in quoted_argument:
        return "'...'"
    return quoted_argument
