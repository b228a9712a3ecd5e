"""``ray``: the run happens on a Ray cluster."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.fields import EnvMap, Positive
from nemo_evaluator.core.kinds import NOT_YET, Kind


class RayCluster(ClusterBase):
    """Tasks of a Ray cluster, one per shard."""

    type: Literal["ray"] = "ray"
    address: str | None = Field(None, description="Address of the cluster; null: one on this machine.")
    shards: Positive = Field(4, description="Tasks over which the problems are split.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the tasks.")


KIND: Final = Kind(RayCluster, missing=NOT_YET)
