"""``ray``: steps run in the workers of a Ray cluster; the run itself, with its journal, stays on this machine."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final, Literal, cast

from pydantic import Field

from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.fields import EnvMap, Line, Positive
from nemo_evaluator.core.errors import MissingExtraError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.local import Local

if TYPE_CHECKING:
    from nemo_evaluator.suite.results import SuitePool


class RayCluster(ClusterBase):
    """Workers of a Ray cluster, which take problems from one queue."""

    type: Literal["ray"] = "ray"
    address: Line | None = Field(
        None, description="Address of the cluster; null: one on this machine."
    )
    shards: Positive = Field(4, description="Workers; each asks `max_concurrent` problems at once.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the workers.")


class Ray(Local):
    """Runs on this machine whose steps are executed on a Ray cluster."""

    def start(self, job: Job) -> int | None:
        """Start like a local run; the cluster is joined before the first step.

        Raises:
            MissingExtraError: If Ray is not installed.
        """
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("Ray", extra="ray")
        return super().start(job)

    def pool(self, job: Job) -> SuitePool:
        """Return the workers of the cluster."""
        pool_class = load_object("nemo_evaluator.executors.ray_pool:RayPool")
        return cast("SuitePool", pool_class(job, cast(RayCluster, job.loaded.config.cluster)))


KIND: Final = Kind(RayCluster, Ray)
