"""The oracle solver: runs the known solution of a task, to measure the best score that the harness allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0
from nemo_evaluator.config.solver_base import SolverBase, TimeoutStrategy
from nemo_evaluator.core.errors import SandboxError, SeedError
from nemo_evaluator.core.json_coerce import as_number
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import (
    ErrorKind,
    JsonDict,
    ModelAccess,
    ModelResponse,
    SeedResult,
    SolveResult,
    ToolCallInfo,
)
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers.tools.base import ToolResult
from nemo_evaluator.solvers.tools.sandbox import shown
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument

# The second is for sandboxes whose root directory is read-only.
_PLACES: Final = ("/solution", "/tmp/solution")
_SCRIPT: Final = "solve.sh"
_TASK_LIMITS: Final = ("agent_timeout_sec", "agent_timeout", "max_agent_timeout_sec", "timeout")
_DEFAULT_TIMEOUT: Final = 1800.0


def time_limit(
    task: SeedResult, ours: float | None, strategy: TimeoutStrategy, cap: float | None
) -> float:
    """Return how many seconds an agent gets for a task.

    Args:
        task: The problem; its metadata may hold a limit of its own.
        ours: The limit from the solver's settings.
        strategy: ``override`` prefers the settings, ``task`` prefers the task, ``max`` takes the larger limit.
        cap: An upper bound on the result.

    Returns:
        The limit; 1800 seconds when neither side sets one.
    """
    task_limit = _limit_of_task(task)
    if ours is None:
        limit = task_limit or _DEFAULT_TIMEOUT
    elif task_limit is None:
        limit = ours
    elif strategy == "max":
        limit = max(ours, task_limit)
    elif strategy == "task":
        limit = task_limit
    else:
        limit = ours
    if cap is not None:
        return min(limit, cap)
    return limit


def _limit_of_task(task: SeedResult) -> float | None:
    """Return the first positive limit in the task's metadata, in seconds, or None."""
    for name in _TASK_LIMITS:
        seconds = as_number(task.metadata.get(name))
        if seconds is not None and seconds > 0:
            return seconds
    return None


def answer_of(
    response: str,
    details: JsonDict,
    late: float | None,
    trajectory: list[TrajectoryDocument] | None = None,
) -> SolveResult:
    """Build the result of an agent that worked in a sandbox.

    Args:
        response: The agent's answer.
        details: Facts about the run, kept in the row's scoring details.
        late: The time limit in seconds if the agent exceeded it, else None. A timeout is recorded but is not a failure.
        trajectory: The agent's own trajectory, if it has one.
    """
    result = SolveResult(response, trajectory=trajectory or [], scoring_details=details)
    if late is not None:
        result.error = f"the agent did not end within {late:g} s"
        result.error_kind = ErrorKind.SOLVE_TIMEOUT
    return result


class OracleSolverConfig(SolverBase):
    """The known solution of the task: measures the ceiling of the harness."""

    type: Literal["oracle"] = "oracle"
    run_timeout: Above0 | None = Field(None, description="Seconds for the solution.")
    timeout_strategy: TimeoutStrategy = "override"
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the solution's time.")


@dataclass(frozen=True, kw_only=True)
class OracleSolver:
    """Copies the known solution of a task into the sandbox and runs its ``solve.sh``.

    The solution is ``<task_dir>/solution``, or ``metadata["solution"]``, a script. It is copied to ``/solution``, or to
    ``/tmp/solution`` where the root directory is read-only. A script that fails is only recorded in the trajectory:
    verification decides. A problem with a known answer and without a sandbox is answered with the known answer.

    Attributes:
        run_timeout: Seconds for the solution, or None for the task's own limit.
        timeout_strategy: Whether the settings or the task decide the limit; see ``time_limit``.
        max_agent_timeout: An upper bound on the limit.
    """

    run_timeout: float | None = None
    timeout_strategy: TimeoutStrategy = "override"
    max_agent_timeout: float | None = None

    async def solve(self, task: SeedResult, sandbox: Sandbox | None = None) -> SolveResult:
        """Run the known solution of one problem.

        Args:
            task: The problem.
            sandbox: Where the solution runs; may be None only for a problem with a known answer and no solution.

        Raises:
            SeedError: The task has no known solution.
            SandboxError: There is no sandbox, or it failed.
        """
        solution = _solution(task)
        if solution is None:
            if sandbox is None and task.expected_answer:
                return SolveResult(response=task.expected_answer)
            raise SeedError("the task has no known solution (no task_dir with solution/solve.sh)")
        if sandbox is None:
            raise SandboxError(
                "the oracle needs a sandbox to run the solution",
                hint="give the benchmark a sandbox",
            )
        target = await writable_place(sandbox, _PLACES)
        script = f"{target}/{_SCRIPT}"
        if isinstance(solution, Path):
            await sandbox.upload(solution, target)
        else:
            await sandbox.upload(solution.encode(), script)
        timeout = self.timeout_for(task)
        started = time.perf_counter()
        result = await sandbox.exec(["bash", script], timeout=timeout)
        elapsed_ms = (time.perf_counter() - started) * 1000
        trajectory = _trajectory(task, script, shown(result, timeout), latency_ms=elapsed_ms)
        solve_result = SolveResult(
            response="", scoring_details={"oracle_exit_code": result.exit_code}
        )
        if result.timed_out:
            solve_result.error = f"the solution did not end within {timeout:g} s"
            solve_result.error_kind = ErrorKind.SOLVE_TIMEOUT
            solve_result.trajectory = trajectory.finish(status="error", error=solve_result.error)
        else:
            solve_result.trajectory = trajectory.finish(status="completed")
        return solve_result

    def timeout_for(self, task: SeedResult) -> float:
        """Return how many seconds the solution of a task gets."""
        return time_limit(task, self.run_timeout, self.timeout_strategy, cap=self.max_agent_timeout)

    def describe(self) -> JsonDict:
        """Return the settings that change answers."""
        return {"type": "oracle", **asdict(self)}


def _solution(task: SeedResult) -> Path | str | None:
    """Return the folder of the known solution, else its script, or None when the task has no solution.

    Raises:
        SeedError: The task's folder has no solution.
    """
    task_folder = task.folder or task.metadata.get("task_dir")
    if task_folder and isinstance(task_folder, str | Path):
        folder = Path(task_folder) / "solution"
        if not (folder / _SCRIPT).is_file():
            raise SeedError(f"the task's folder has no solution/{_SCRIPT}: {folder}")
        return folder
    script = task.metadata.get("solution")
    if isinstance(script, str):
        return script
    return None


def _trajectory(
    task: SeedResult, script: str, output: ToolResult, latency_ms: float
) -> TrajectoryBuilder:
    """Record the run of the script as one tool call."""
    trajectory = TrajectoryBuilder(agent="oracle", asked=[{"role": "user", "content": task.prompt}])
    call = ToolCallInfo("oracle_1", "bash", {"command": f"bash {script}"})
    trajectory.agent(ModelResponse(content=""), [call])
    trajectory.observe(
        call.id,
        output.content,
        latency_ms=latency_ms,
        is_error=output.is_error,
        source="sandbox",
    )
    return trajectory


def model_url_inside(sandbox: Sandbox, model: ModelAccess) -> str:
    """Return the model's URL as an agent in the sandbox reaches it.

    Args:
        sandbox: Where the agent works.
        model: The model's access, with its URL on this machine.
    """
    url = sandbox.resolved_endpoint_url("MODEL_BASE_URL")
    return url or sandbox.resolve_outside_endpoint(model.url)


async def writable_place(sandbox: Sandbox, places: Sequence[str]) -> str:
    """Return the first folder that can be created and written to.

    Args:
        sandbox: Where to create the folder.
        places: The folders to try, in order.

    Raises:
        SandboxError: None of the folders is writable.
    """
    for folder in places:
        result = await sandbox.exec(
            ["sh", "-c", 'mkdir -p "$1" && test -w "$1"', "sh", folder], timeout=30.0
        )
        if result.ok:
            return folder
    raise SandboxError(f"nothing can be written to {', '.join(places)}: {result.stderr.strip()}")


KIND: Final = Kind(
    OracleSolverConfig, lambda config, context: OracleSolver(**config.model_dump(exclude={"type"}))
)
