"""The base class of cluster settings. Each kind declares its settings in a file under ``executors/``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from nemo_evaluator.config.benchmarks import BenchmarkConfig
from nemo_evaluator.config.cross_check import WrongReference
from nemo_evaluator.config.fields import Model
from nemo_evaluator.config.groups import CLUSTERS
from nemo_evaluator.config.kinds import KindOf


class ClusterBase(Model):
    """Where a run happens."""

    type: str

    @classmethod
    def findings(cls, data: dict[str, Any]) -> Iterator[WrongReference]:
        """What is wrong in a whole config that says this type, beyond the cluster's own settings."""
        yield from ()

    def cautions(
        self, services: Mapping[str, Any], benchmarks: Sequence[BenchmarkConfig]
    ) -> list[str]:
        """What is allowed, and probably not meant."""
        return []


ClusterConfig: TypeAlias = Annotated[ClusterBase, KindOf(CLUSTERS)]
