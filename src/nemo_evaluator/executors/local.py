"""``local``: the run happens on this machine."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.fields import EnvMap, Later, NotYet, Size
from nemo_evaluator.core.kinds import Kind


class LocalCluster(ClusterBase):
    """This machine."""

    type: Literal["local"] = "local"
    gpus: Later[list[int]] = Field(None, description="GPUs that services may use.")
    max_memory: Later[Size] = Field(None, description="Memory limit of the run.")
    container_env: Annotated[EnvMap, NotYet()] = Field(default_factory=dict, description="Environment of the run.")


KIND: Final = Kind(LocalCluster)
