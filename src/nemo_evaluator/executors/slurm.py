"""``slurm``: runs in jobs of a SLURM cluster, submitted here or over ssh."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.benchmarks import BenchmarkConfig
from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.cross_check import Path, WrongReference, benchmarks_of, get_in, number_of
from nemo_evaluator.config.fields import (
    Argument,
    Count,
    EnvMap,
    Line,
    LineName,
    Model,
    Mount,
    NotYet,
    Positive,
    Size,
    no_items,
)
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.shell import (
    control_character,
    is_flag_name,
    is_host_name,
    is_user_name,
    mount_problem,
)

# The product of these is the number of GPUs of a server.
_SIZES: Final = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_DURATION = re.compile(r"(?:(\d{1,4})-)?(\d{1,4}):([0-5]\d):([0-5]\d)", re.ASCII)
# sbatch accepts abbreviated flags, so every prefix of this one is refused.
_WRAP: Final = "wrap"


def seconds_of(walltime: str) -> int | None:
    """Convert ``HH:MM:SS`` or ``D-HH:MM:SS`` to seconds; None for any other text."""
    match = _DURATION.fullmatch(walltime)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _walltime(value: str) -> str:
    if seconds_of(value) is None:
        raise PydanticCustomError(
            "bad_walltime", 'a time such as "04:00:00" or "1-12:00:00" is expected'
        )
    return value


def _flags(value: dict[str, str]) -> dict[str, str]:
    """Check the names and values of sbatch flags."""
    for name, text in value.items():
        if not is_flag_name(name):
            raise PydanticCustomError(
                "bad_flag", "{name} is not an sbatch flag", {"name": ascii(name)}
            )
        if len(name) > 1 and _WRAP.startswith(name.lower()):
            message = "{name} would run another command instead of the job"
            raise PydanticCustomError("bad_flag", message, {"name": repr(name)})
        character = control_character(text)
        if character is not None:
            message = "the value of {name} holds a line break or control character, {character}"
            raise PydanticCustomError(
                "bad_flag", message, {"name": repr(name), "character": character}
            )
    return value


def _pool_name(value: str) -> str:
    # The job script passes pools as lines of NAME=GROUP:NODES.
    if control_character(value) is not None or "=" in value or not value:
        message = "the name of a node pool must be one line without = and control characters"
        raise PydanticCustomError("bad_pool_name", message)
    return value


def _host_name(value: str) -> str:
    if not is_host_name(value):
        message = "a host name, an address or a name of ~/.ssh/config is expected: letters, digits and . _ - :"
        raise PydanticCustomError("bad_host_name", message)
    return value


def _user_name(value: str) -> str:
    if not is_user_name(value):
        raise PydanticCustomError(
            "bad_user_name", "a user name is expected: letters, digits and . _ - + @ \\"
        )
    return value


Walltime = Annotated[str, AfterValidator(_walltime)]
HostName = Annotated[str, AfterValidator(_host_name)]
UserName = Annotated[str, AfterValidator(_user_name)]
PoolName = Annotated[str, AfterValidator(_pool_name)]
SbatchFlags = Annotated[dict[str, str], AfterValidator(_flags)]


class NodePool(Model):
    """A named group of nodes of one partition."""

    partition: LineName = Field(description="SLURM partition.")
    nodes: Positive | None = Field(
        None, description="Nodes; null: one, or as many as the servers of a service need."
    )
    ntasks_per_node: Positive = Field(1, description="Tasks per node.")
    gres: Line | None = Field(None, description='Generic resources, such as "gpu:4".')
    gpus_per_node: Positive | None = Field(None, description="GPUs per node.")
    sbatch_extra_flags: SbatchFlags = Field(
        default_factory=dict, description="Further sbatch flags of the pool."
    )

    @property
    def gpus(self) -> int | None:
        """GPUs per node, when the pool says so."""
        return _gpus(self.gres, self.gpus_per_node)


class SlurmCluster(ClusterBase):
    """Jobs of a SLURM cluster, here or behind ssh."""

    type: Literal["slurm"] = "slurm"
    account: Line | None = Field(None, description="Account.")
    walltime: Walltime = Field("04:00:00", description="Time limit of one job.")
    node_pools: dict[PoolName, NodePool] = Field(min_length=1, description="Groups of nodes.")
    conda_env: Argument | None = Field(None, description="Conda environment on the cluster.")
    eval_image: Argument | None = Field(None, description="Image of the evaluator.")
    container_mounts: list[Mount] = Field(
        default_factory=no_items, description="Mounts, `host:container[:ro]`."
    )
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the job.")
    container: Literal["pyxis", "apptainer", "none"] = Field(
        "pyxis",
        description="What runs images on the nodes; `none`: nothing does, services are plain processes.",
    )
    shm_size: Annotated[Size | None, NotYet("not needed: containers use the node's /dev/shm")] = (
        Field(None, description="Shared memory.")
    )
    mount_home: bool = Field(True, description="Mount the home folder.")
    auto_resume: bool = Field(True, description="Queue a follow-up job that resumes.")
    max_retries: Count = Field(
        3, description="Follow-up jobs in a row that may bring no new answer."
    )
    max_walltime: Walltime | None = Field(None, description="Time limit over all follow-up jobs.")
    shards: Positive | None = Field(None, description="Jobs over which the problems are split.")
    sbatch_comment: Line | None = Field(None, description="Comment of the job.")
    sbatch_extra_flags: SbatchFlags = Field(
        default_factory=dict, description="Further sbatch flags."
    )
    hostname: HostName | None = Field(None, description="Login node, reached over ssh.")
    username: UserName | None = Field(None, description="User on the login node.")

    @classmethod
    def findings(cls, data: dict[str, Any]) -> Iterator[WrongReference]:
        """Pools that do not exist or are too small, shards over several pools, an output folder that is nowhere."""
        yield from _node_pools(data)
        yield from _mounts(data)
        yield from _shards_over_pools(data)
        folder = get_in(data, "output", "dir")
        is_text = isinstance(folder, str)
        is_relative = folder is None or (is_text and not PurePosixPath(folder).is_absolute())
        if get_in(data, "cluster", "hostname") and is_relative:
            message = "must be an absolute path when the cluster is reached over ssh"
            yield WrongReference(("output", "dir"), message, "write a path that begins with /")

    def cautions(
        self, services: Mapping[str, Any], benchmarks: Sequence[BenchmarkConfig]
    ) -> list[str]:
        """Steps that cannot end within the walltime."""
        startup = 0.0
        for service in services.values():
            startup = max(startup, getattr(service, "startup_timeout", 0.0))
        walltime = seconds_of(self.walltime) or 0
        warnings: list[str] = []
        for benchmark in benchmarks:
            if startup + benchmark.timeout > walltime:
                warnings.append(
                    f"benchmark {benchmark.key}: start-up ({startup:.0f} s) and one step "
                    f"({benchmark.timeout:.0f} s) together exceed the walltime {self.walltime}"
                )
        return warnings


def _shards_over_pools(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield the shards of a config that uses more than one node pool."""
    pools: set[str] = set()
    for _, owner in _pool_users(data):
        if isinstance(owner.get("node_pool"), str):
            pools.add(owner["node_pool"])
    if get_in(data, "cluster", "shards") and len(pools) > 1:
        message = f"sharding allows one node pool, this config uses {', '.join(sorted(pools))}"
        yield WrongReference(("cluster", "shards"), message, "use one pool")


def _mounts(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield mounts that contain a comma, which separates mounts on srun's command line."""
    owners: list[tuple[Path, Any]] = [(("cluster",), data.get("cluster"))]
    for name, service in as_dict(data.get("services")).items():
        owners.append((("services", name), service))
    for path, owner in owners:
        mounts = as_list(as_dict(owner).get("container_mounts"))
        for number, mount in enumerate(mounts):
            if not isinstance(mount, str) or mount_problem(mount) is not None:
                continue
            problem = mount_problem(mount, commas=False)
            if problem is not None:
                mount_path = (*path, "container_mounts", number)
                yield WrongReference(
                    mount_path, problem, "write one mount in each entry of the list"
                )


def _node_pools(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield node pools that are unknown, too small, or used by two multi-node services."""
    pools = get_in(data, "cluster", "node_pools")
    if not isinstance(pools, dict):
        return
    multi_node: dict[str, str] = {}
    for path, owner in _pool_users(data):
        name = owner.get("node_pool")
        if not isinstance(name, str):
            continue
        pool_path = (*path, "node_pool")
        if name not in pools:
            message = f"no node pool is called {name!r}"
            yield WrongReference(pool_path, message, did_you_mean(name, pools))
            continue
        yield from _fits(path, owner, name, pool=as_dict(pools[name]))
        is_service = path[0] == "services" and len(path) == 2
        if is_service and _nodes_per_server(owner) > 1:
            if name in multi_node:
                message = f"{multi_node[name]!r} already spans the nodes of pool {name!r}"
                hint = "give each multi-node service a pool of its own"
                yield WrongReference(pool_path, message, hint)
            multi_node[name] = str(path[1])


def _fits(
    path: Path, owner: dict[str, Any], name: str, pool: dict[str, Any]
) -> Iterator[WrongReference]:
    """Yield the problems of a service or sandbox whose nodes or GPUs exceed its pool."""
    nodes = _nodes_per_server(owner)
    pool_nodes = _count(pool, "nodes", default=0)
    if pool_nodes and nodes > pool_nodes:
        message = f"{nodes} nodes are asked for, but pool {name!r} has {pool_nodes}"
        yield WrongReference((*path, "num_nodes"), message, f"raise nodes of the pool to {nodes}")
        return
    sizes = [key for key in _SIZES if owner.get(key)]
    gpus = _gpus(pool.get("gres"), _count(pool, "gpus_per_node", default=0))
    if not gpus or not sizes:
        return
    limit = f"pool {name!r} has {gpus} per node"
    tensor_parallel = _count(owner, _SIZES[0], default=0)
    needed = math.prod(_count(owner, key) for key in _SIZES)
    if tensor_parallel > gpus:
        message = f"{tensor_parallel} GPUs are asked for, but {limit}"
        hint = f"use at most {gpus}, or change the pool"
        yield WrongReference((*path, _SIZES[0]), message, hint)
    elif needed > gpus * nodes:
        message = f"a server needs {needed} GPUs (tensor x pipeline x data parallel) on {nodes} node(s), but {limit}"
        hint = "raise num_nodes, or change the pool"
        yield WrongReference((*path, sizes[-1]), message, hint)
    elif pool_nodes:
        yield from _shared_nodes(owner, name, pool_nodes)


def _shared_nodes(owner: dict[str, Any], pool: str, pool_nodes: int) -> Iterator[WrongReference]:
    """Yield a pool in which servers would share a node: all of them would use its first GPUs."""
    nodes = _nodes_per_server(owner)
    servers = _count(owner, "replicas", "num_instances")
    servers_at_once = max(1, pool_nodes // nodes)
    servers_per_node = math.ceil(servers / servers_at_once)
    if servers_per_node > 1:
        message = f"{servers_per_node} servers would share a node and its GPUs, which is not supported yet"
        hint = f"raise it to {servers * nodes}, or leave it out"
        yield WrongReference(("cluster", "node_pools", pool, "nodes"), message, hint)


def _nodes_per_server(owner: dict[str, Any]) -> int:
    return _count(owner, "num_nodes", "num_nodes_per_instance")


def _gpus(gres: object, counted: int | None) -> int | None:
    """Return the GPUs per node, from the generic resources or otherwise from the count."""
    if isinstance(gres, str):
        match = re.search(r"gpu(?::[A-Za-z0-9_.-]+)?:(\d+)", gres)
        if match is not None:
            return int(match.group(1))
    return counted


def _count(owner: dict[str, Any], *keys: str, default: int = 1) -> int:
    """Return the integer under the last of these keys that is set."""
    for key in reversed(keys):
        if owner.get(key) is not None:
            return number_of(owner[key], default)
    return default


def _pool_users(data: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the services, service roles and sandboxes, which may name a node pool, with their paths."""
    for group in ("services", "sandboxes"):
        members = data.get(group)
        if not isinstance(members, dict):
            continue
        for name, member in members.items():
            if not isinstance(member, dict):
                continue
            yield (group, name), member
            for role in ("prefill", "decode"):
                role_settings = member.get(role)
                if isinstance(role_settings, dict):
                    yield (group, name, role), role_settings
    for path, benchmark in benchmarks_of(data):
        if isinstance(benchmark.get("sandbox"), dict):
            yield (*path, "sandbox"), benchmark["sandbox"]


KIND: Final = Kind(SlurmCluster, "nemo_evaluator.executors.slurm_jobs.executor:Slurm")
