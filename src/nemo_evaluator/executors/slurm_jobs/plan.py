"""Plans the jobs, node pools and containers of a run on a SLURM cluster, as plain data."""

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
# Seconds before the time limit in which requests in flight end, reports are written and services stop.
_CLOSING: Final = 120
# A flag and its value; None for a flag without a value.
Directive = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class JobNodes:
    """Nodes of one pool that the job holds; ``group`` is the number of their component in a heterogeneous job."""

    name: str
    group: int | None
    nodes: int
    directives: tuple[Directive, ...]
    sandboxes: bool = False


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The job of one run (or ``shards`` jobs), and the command that each of them runs."""

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
        """The path of the request file that the worker reads."""
        return self.root / f"nel_request-{self.run_id}.json"

    @property
    def worker(self) -> list[str]:
        """The command that executes the run."""
        return [*self.nel, "eval", "run", "--request", str(self.request)]

    @property
    def merge(self) -> list[str]:
        """The command that merges the shards, run by the shard that ends last."""
        return [*self.nel, "eval", "merge", str(self.root)]

    @property
    def closing(self) -> int:
        """Seconds before the time limit at which the job asks the run to close."""
        return min(_CLOSING, self.walltime // 4)


def plan_job(job: Job) -> JobPlan:
    """Return the plan of a checked request."""
    config = job.loaded.config
    cluster = config.cluster
    assert isinstance(cluster, SlurmCluster)
    root = PurePosixPath(config.output.dir if cluster.hostname else job.folder)
    step = JobStep(cluster.container, tuple(cluster.container_mounts), cluster.mount_home)
    directives: list[Directive] = []
    if cluster.sbatch_comment:
        directives.append(("comment", cluster.sbatch_comment))
    directives += _flags(cluster.sbatch_extra_flags)
    return JobPlan(
        name=f"nel-eval-{_short_name(config)}",
        run_id=job.run.run_id,
        root=root,
        pools=tuple(_pools(config, cluster)),
        directives=tuple(directives),
        walltime=seconds_of(cluster.walltime) or 0,
        auto_resume=cluster.auto_resume,
        max_retries=cluster.max_retries,
        max_walltime=seconds_of(cluster.max_walltime or "") or 0,
        nel=_nel_command(cluster),
        step=step,
        container=tuple(_container(cluster, step, root)),
        container_env=tuple(cluster.container_env),
        conda_env=cluster.conda_env,
        shards=cluster.shards or 0,
    )


def _short_name(config: EvalConfig) -> str:
    """Return the name of the only benchmark, or ``multi``."""
    if len(config.benchmarks) == 1:
        return safe_name(config.benchmarks[0].key)
    return "multi"


def _nel_command(cluster: SlurmCluster) -> tuple[str, ...]:
    """Return how the job runs nel: as installed in the image, the environment or on the login node, else as here."""
    if cluster.eval_image or cluster.conda_env or cluster.hostname:
        return ("nel",)
    return (sys.executable, "-m", "nemo_evaluator.cli.main")


def pool_of(owner: Any) -> str | None:
    """Return the node pool that a service or sandbox names; None if it names none."""
    name = getattr(owner, "node_pool", None)
    if isinstance(name, str):
        return name
    return None


def _container(cluster: SlurmCluster, step: JobStep, root: PurePosixPath) -> list[str]:
    """Return the srun command that runs the evaluator's image; empty if it runs as a plain process."""
    if not cluster.eval_image or step.container == "none":
        return []
    # srun passes the values of these variables on.
    env = dict.fromkeys(cluster.container_env, "")
    launch = Launch([], 1, image=cluster.eval_image, env=env, gpus=0)
    run_folder = mount(f"{root}:{root}", commas=False)
    return srun_argv(launch, replace(step, mounts=[*step.mounts, run_folder]))


def _pools(config: EvalConfig, cluster: SlurmCluster) -> Iterator[JobNodes]:
    """Yield the node pools in use, in the order of the config; the first pool if none is named."""
    sandbox_pools = {pool_of(sandbox) for sandbox in config.sandboxes.values()}
    for bench in config.benchmarks:
        sandbox_pools.add(pool_of(bench.sandbox))
    used_pools = set(sandbox_pools)
    for name, _ in _spanned_nodes(config):
        used_pools.add(name)
    names = [name for name in cluster.node_pools if name in used_pools]
    if not names:
        names = [next(iter(cluster.node_pools))]
    is_heterogeneous = len(names) > 1
    for number, name in enumerate(names):
        nodes = _node_count(config, name, cluster.node_pools[name].nodes)
        yield JobNodes(
            name=name,
            group=number if is_heterogeneous else None,
            nodes=nodes,
            directives=tuple(_pool_directives(cluster, name, nodes)),
            sandboxes=name in sandbox_pools,
        )


def _node_count(config: EvalConfig, pool: str, configured: int | None) -> int:
    """Return how many nodes a pool needs: unless configured, one for each server of its largest service."""
    largest = 1
    for service in config.services.values():
        if pool_of(service) == pool:
            largest = max(largest, replicas_of(service))
    spanned = sum(nodes for name, nodes in _spanned_nodes(config) if name == pool)
    return max(configured or largest, spanned)


def _pool_directives(cluster: SlurmCluster, name: str, nodes: int) -> Iterator[Directive]:
    """Yield the sbatch flags for the nodes of a pool."""
    pool = cluster.node_pools[name]
    yield "time", cluster.walltime
    yield "nodes", str(nodes)
    yield "ntasks-per-node", str(pool.ntasks_per_node)
    yield "partition", pool.partition
    if pool.gres is not None:
        yield "gres", pool.gres
    if pool.gpus_per_node is not None:
        yield "gpus-per-node", str(pool.gpus_per_node)
    if cluster.account is not None:
        yield "account", cluster.account
    yield from _flags(pool.sbatch_extra_flags)


def _spanned_nodes(config: EvalConfig) -> Iterator[tuple[str, int]]:
    """Yield the pool of each service, with the nodes it needs for multi-node servers; 0 for single-node servers."""
    for service in config.services.values():
        for part in (service, getattr(service, "prefill", None), getattr(service, "decode", None)):
            pool = pool_of(part)
            if pool is None:
                continue
            nodes_per_server = getattr(part, "num_nodes", 1)
            spanned_nodes = 0
            if nodes_per_server > 1:
                servers = getattr(part, "num_workers", 1) * getattr(part, "replicas", 1)
                spanned_nodes = nodes_per_server * servers
            yield pool, spanned_nodes


def _flags(flags: dict[str, str]) -> Iterator[Directive]:
    """Convert the flags of a config: ``true`` means a flag without a value, ``false`` omits the flag."""
    for name, value in flags.items():
        if value.lower() == "true":
            yield name, None
        elif value.lower() != "false":
            yield name, value
