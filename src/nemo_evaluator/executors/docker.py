"""``docker``: the run happens in one container on this machine."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.fields import EnvMap, Size
from nemo_evaluator.core.kinds import NOT_YET, Kind


class DockerCluster(ClusterBase):
    """One container on this machine."""

    type: Literal["docker"] = "docker"
    image: str | None = Field(None, description="Image with nel inside; null or `local`: built from this checkout.")
    container_mounts: list[str] = Field(default_factory=list, description="Mounts, `host:container[:ro]`.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the container.")
    mount_home: bool = Field(True, description="Mount the home folder.")
    shm_size: Size | None = Field(None, description="Shared memory.")


KIND: Final = Kind(DockerCluster, missing=NOT_YET)
