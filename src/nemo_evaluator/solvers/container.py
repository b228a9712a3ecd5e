"""``container``: a harness container that owns its whole evaluation loop."""

from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import EnvMap, MountPath, ServiceName, ShellText
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, SeedResult, SolveResult
from nemo_evaluator.solvers.base import SolverContext


class ContainerSolverConfig(SolverBase):
    """A harness container that owns its whole evaluation loop."""

    type: Literal["container"] = "container"
    owns_loop: ClassVar[bool] = True
    service: ServiceName = Field(description="The model.")
    uri: str | None = Field(
        None, description="`container://image#task`; null: the name of the benchmark."
    )
    endpoint_type: str | None = Field(
        None, description="Endpoint type of the harness; null: by the protocol."
    )
    adapter_config: dict[str, Any] | None = Field(
        None, description="Adapter settings inside the container."
    )
    env_vars: EnvMap = Field(default_factory=dict, description="Environment of the container.")
    mounts: dict[MountPath, MountPath] = Field(
        default_factory=dict, description="Mounts, host path to container path."
    )
    pre_cmd: ShellText | None = Field(
        None, description="Shell in the container before the harness, in the same process."
    )
    post_cmd: ShellText | None = Field(
        None, description="Shell in the container after the harness, also when that failed."
    )

    def needs_sandbox(self) -> str | None:
        return "a harness container needs a sandbox that runs images, e.g. {type: docker, network: bridge}"


class ContainerSolver:
    """Carries the settings of the container; ``container://`` does the work."""

    def __init__(self, settings: ContainerSolverConfig, context: SolverContext) -> None:
        self.settings = settings.model_dump(include={"endpoint_type", "adapter_config", "mounts"})
        self.settings |= settings.model_dump(include={"pre_cmd", "post_cmd"}, exclude_none=True)
        self.settings["env_vars"] = settings.env_vars

    def describe(self) -> JsonDict:
        """What changes answers; of the environment, the names."""
        return {
            "class": "container",
            **self.settings,
            "env_vars": sorted(self.settings["env_vars"]),
        }

    async def solve(self, task: SeedResult) -> SolveResult:
        raise UsageError(
            "the container solver runs container:// benchmarks alone",
            hint="name: container://IMAGE#TASK",
        )


KIND: Final = Kind(ContainerSolverConfig, ContainerSolver)
