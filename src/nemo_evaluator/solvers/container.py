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
        """Return what kind of sandbox this solver needs, as a text for the user."""
        return "a harness container needs a sandbox that runs images, e.g. {type: docker, network: bridge}"


class ContainerSolver:
    """Holds the settings of the container; ``container://`` benchmarks do the work.

    Attributes:
        settings: The harness settings, including the values of environment variables.
    """

    def __init__(self, settings: ContainerSolverConfig, context: SolverContext) -> None:
        """Collect the settings that the benchmark passes to the container.

        Args:
            settings: The config of the solver.
            context: The services of the config; not used.
        """
        self.settings = settings.model_dump(include={"endpoint_type", "adapter_config", "mounts"})
        self.settings |= settings.model_dump(include={"pre_cmd", "post_cmd"}, exclude_none=True)
        self.settings["env_vars"] = settings.env_vars

    def describe(self) -> JsonDict:
        """Return the settings that change answers, with only the names of environment variables."""
        return {
            "class": "container",
            **self.settings,
            "env_vars": sorted(self.settings["env_vars"]),
        }

    async def solve(self, task: SeedResult) -> SolveResult:
        """Refuse the problem: the container runs its own loop.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "the container solver runs container:// benchmarks alone",
            hint="name: container://IMAGE#TASK",
        )


KIND: Final = Kind(ContainerSolverConfig, ContainerSolver)
