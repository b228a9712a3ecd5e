"""Where a run happens: this machine, a container, SLURM, Ray."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from nemo_evaluator.config._base import Count, EnvMap, Model, Name, Positive, Size

_DURATION = re.compile(r"(?:(\d{1,4})-)?(\d{1,4}):([0-5]\d):([0-5]\d)")


def seconds_of(walltime: str) -> int | None:
    """Seconds of ``HH:MM:SS`` or ``D-HH:MM:SS``; None when it is neither."""
    match = _DURATION.fullmatch(walltime)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _walltime(value: str) -> str:
    if seconds_of(value) is None:
        raise PydanticCustomError("bad_walltime", 'a time such as "04:00:00" or "1-12:00:00" is expected')
    return value


def _flags(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
            raise PydanticCustomError("bad_flag", "{name} is not an sbatch flag", {"name": repr(name)})
        if "\n" in text or "\r" in text:
            raise PydanticCustomError("bad_flag", "the value of {name} holds a line break", {"name": repr(name)})
    return value


Walltime = Annotated[str, AfterValidator(_walltime)]
SbatchFlags = Annotated[dict[str, str], AfterValidator(_flags)]


class LocalCluster(Model):
    """This machine."""

    type: Literal["local"] = "local"
    gpus: list[int] | None = Field(None, description="GPUs that services may use.")
    max_memory: Size | None = Field(None, description="Memory limit of the run.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the run.")


class DockerCluster(Model):
    """One container on this machine."""

    type: Literal["docker"]
    image: str | None = Field(None, description="Image with nel inside; null or `local`: built from this checkout.")
    container_mounts: list[str] = Field(default_factory=list, description="Mounts, `host:container[:ro]`.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the container.")
    mount_home: bool = Field(True, description="Mount the home folder.")
    shm_size: Size | None = Field(None, description="Shared memory.")


class NodePool(Model):
    """A named group of nodes of one partition."""

    partition: Name = Field(description="SLURM partition.")
    nodes: Positive = Field(1, description="Nodes.")
    ntasks_per_node: Positive = Field(1, description="Tasks per node.")
    gres: str | None = Field(None, description='Generic resources, such as "gpu:4".')
    gpus_per_node: Positive | None = Field(None, description="GPUs per node.")
    sbatch_extra_flags: SbatchFlags = Field(default_factory=dict, description="Further sbatch flags of the pool.")

    @property
    def gpus(self) -> int | None:
        """GPUs per node, when the pool says so."""
        match = re.search(r"gpu(?::[A-Za-z0-9_.-]+)?:(\d+)", self.gres or "")
        return int(match.group(1)) if match else self.gpus_per_node


class SlurmCluster(Model):
    """Jobs of a SLURM cluster, here or behind ssh."""

    type: Literal["slurm"]
    account: str | None = Field(None, description="Account.")
    walltime: Walltime = Field("04:00:00", description="Time limit of one job.")
    node_pools: dict[str, NodePool] = Field(min_length=1, description="Groups of nodes.")
    conda_env: str | None = Field(None, description="Conda environment on the cluster.")
    eval_image: str | None = Field(None, description="Image of the evaluator.")
    container_mounts: list[str] = Field(default_factory=list, description="Mounts, `host:container[:ro]`.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the job.")
    shm_size: Size | None = Field(None, description="Shared memory.")
    mount_home: bool = Field(True, description="Mount the home folder.")
    auto_resume: bool = Field(True, description="Queue a follow-up job that resumes.")
    max_retries: Count = Field(3, description="Follow-up jobs.")
    max_walltime: Walltime | None = Field(None, description="Time limit over all follow-up jobs.")
    shards: Positive | None = Field(None, description="Jobs over which the problems are split.")
    sbatch_comment: str | None = Field(None, description="Comment of the job.")
    sbatch_extra_flags: SbatchFlags = Field(default_factory=dict, description="Further sbatch flags.")
    hostname: str | None = Field(None, description="Login node, reached over ssh.")
    username: str | None = Field(None, description="User on the login node.")


class RayCluster(Model):
    """Tasks of a Ray cluster, one per shard."""

    type: Literal["ray"]
    address: str | None = Field(None, description="Address of the cluster; null: one on this machine.")
    shards: Positive = Field(4, description="Tasks over which the problems are split.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the tasks.")


ClusterConfig: TypeAlias = Annotated[
    LocalCluster | DockerCluster | SlurmCluster | RayCluster, Field(discriminator="type")
]
