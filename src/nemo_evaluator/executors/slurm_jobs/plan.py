"""What a run asks of a SLURM cluster, as plain data: jobs, pools, containers. Nothing is started here."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Final

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.shell import mount
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.slurm import SlurmCluster, seconds_of
from nemo_evaluator.servers.forms import JobStep, srun_argv
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services.base import replicas_of

SCRIPT: Final = "nel_eval.sbatch"
SECRETS: Final = ".secrets.env"
# Seconds between the warning and the time limit: requests in flight end, reports are written, services stop.
_CLOSING: Final = 120
# Of a flag and its value; a flag without one is None.
Directive = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class JobNodes:
    """Nodes of one kind that the job holds; ``group`` is its number in a heterogeneous job."""

    name: str
    group: int | None
    nodes: int
    directives: tuple[Directive, ...]
    sandboxes: bool = False


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One run: its job (or ``shards`` of them), and the command that each of them runs."""

    name: str
    run_id: str
    root: PurePosixPath
    pools: tuple[JobNodes, ...]
    directives: tuple[Directive, ...]
    walltime: int
    auto_resume: bool
    max_retries: int
    max_walltime: int
    nel: tuple[str, ...]
    step: JobStep
    container: tuple[str, ...] = ()
    container_env: tuple[str, ...] = ()
    conda_env: str | None = None
    shards: int = 0

    @property
    def request(self) -> PurePosixPath:
        """The file that tells the worker what to do."""
        return self.root / f"nel_request-{self.run_id}.json"

    @property
    def worker(self) -> list[str]:
        """The command of the run itself."""
        return [*self.nel, "eval", "run", "--request", str(self.request)]

    @property
    def merge(self) -> list[str]:
        """The command of whichever shard ends last."""
        return [*self.nel, "eval", "merge", str(self.root)]

    @property
    def closing(self) -> int:
        """Seconds before the time limit at which the job asks the run to close."""
        return min(_CLOSING, self.walltime // 4)


def plan_job(job: Job) -> JobPlan:
    """The plan of a checked request."""
    config = job.loaded.config
    cluster = config.cluster
    assert isinstance(cluster, SlurmCluster)
    root = PurePosixPath(config.output.dir if cluster.hostname else job.folder)
    names = [safe_name(bench.key) for bench in config.benchmarks]
    step = JobStep(cluster.container, tuple(cluster.container_mounts), cluster.mount_home)
    elsewhere = cluster.eval_image or cluster.conda_env or cluster.hostname
    if cluster.sbatch_comment:
        comment: list[Directive] = [("comment", cluster.sbatch_comment)]
    else:
        comment = []
    return JobPlan(
        name=f"nel-eval-{names[0] if len(names) == 1 else 'multi'}",
        run_id=job.run.run_id,
        root=root,
        pools=tuple(_pools(config, cluster)),
        directives=(*comment, *_flags(cluster.sbatch_extra_flags)),
        walltime=seconds_of(cluster.walltime) or 0,
        auto_resume=cluster.auto_resume,
        max_retries=cluster.max_retries,
        max_walltime=seconds_of(cluster.max_walltime or "") or 0,
        # What the image, the environment or the login node has; here this very one.
        nel=("nel",) if elsewhere else (sys.executable, "-m", "nemo_evaluator.cli.main"),
        step=step,
        container=tuple(_container(cluster, step, root)),
        container_env=tuple(cluster.container_env),
        conda_env=cluster.conda_env,
        shards=cluster.shards or 0,
    )


def pool_of(owner: Any) -> str | None:
    """The node pool that a service or sandbox names."""
    name = getattr(owner, "node_pool", None)
    if isinstance(name, str):
        return name
    return None


def _container(cluster: SlurmCluster, step: JobStep, root: PurePosixPath) -> list[str]:
    """The step that holds the evaluator's image; nothing where it runs as a plain process of the node."""
    if not cluster.eval_image or step.container == "none":
        return []
    launch = Launch(
        [], 1, image=cluster.eval_image, env=dict.fromkeys(cluster.container_env, ""), gpus=0
    )
    return srun_argv(
        launch, replace(step, mounts=[*step.mounts, mount(f"{root}:{root}", commas=False)])
    )


def _pools(config: EvalConfig, cluster: SlurmCluster) -> Iterator[JobNodes]:
    """The pools that something names, in the order of the config; the first one when nothing does."""
    sandboxes = [*config.sandboxes.values(), *(bench.sandbox for bench in config.benchmarks)]
    contained = {name for one in sandboxes if (name := pool_of(one))}
    used = contained | {name for name, _ in _wanted(config)}
    names = [name for name in cluster.node_pools if name in used] or [
        next(iter(cluster.node_pools))
    ]
    for number, name in enumerate(names):
        pool = cluster.node_pools[name]
        # A pool that leaves their number open has a node for each server of the service that has most.
        servers = max(
            (replicas_of(one) for one in config.services.values() if pool_of(one) == name),
            default=1,
        )
        nodes = max(
            pool.nodes or servers, sum(n for wanted, n in _wanted(config) if wanted == name)
        )
        directives: list[Directive] = [("time", cluster.walltime), ("nodes", str(nodes))]
        directives += [
            ("ntasks-per-node", str(pool.ntasks_per_node)),
            ("partition", pool.partition),
        ]
        given = {"gres": pool.gres, "gpus-per-node": pool.gpus_per_node, "account": cluster.account}
        directives += [(flag, str(value)) for flag, value in given.items() if value is not None]
        directives += _flags(pool.sbatch_extra_flags)
        yield JobNodes(
            name,
            number if len(names) > 1 else None,
            nodes,
            directives=tuple(directives),
            sandboxes=name in contained,
        )


def _wanted(config: EvalConfig) -> Iterator[tuple[str, int]]:
    """Pools with the nodes that each service needs there for servers that span several."""
    for service in config.services.values():
        for part in (service, getattr(service, "prefill", None), getattr(service, "decode", None)):
            name = pool_of(part)
            if name is not None:
                servers = getattr(part, "num_workers", 1) * getattr(part, "replicas", 1)
                yield (
                    name,
                    getattr(part, "num_nodes", 1) * servers
                    if getattr(part, "num_nodes", 1) > 1
                    else 0,
                )


def _flags(given: dict[str, str]) -> Iterator[Directive]:
    """Flags as a config writes them: ``true`` is a flag alone, ``false`` none."""
    for name, value in given.items():
        if value.lower() != "false":
            yield name, None if value.lower() == "true" else value
