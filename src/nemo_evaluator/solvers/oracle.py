"""The oracle solver: runs the known solution of a task, to measure the best score that the harness allows."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0
from nemo_evaluator.config.solver_base import SolverBase, TimeoutStrategy
from nemo_evaluator.core.errors import SandboxError, SeedError
from nemo_evaluator.core.json_coerce import as_number
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import (
    ErrorKind,
    JsonDict,
    ModelResponse,
    SeedResult,
    SolveResult,
    ToolCallInfo,
)
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers.tools.sandbox import shown
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

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
    task_limits = (as_number(task.metadata.get(name)) for name in _TASK_LIMITS)
    task_limit = next(
        (seconds for seconds in task_limits if seconds is not None and seconds > 0), None
    )
    candidate_limits: list[float] = []
    for limit in (task_limit, ours) if strategy == "task" else (ours, task_limit):
        if limit is not None:
            candidate_limits.append(limit)
    if strategy == "max" and candidate_limits:
        chosen_limit = max(candidate_limits)
    else:
        chosen_limit = next(iter(candidate_limits), _DEFAULT_TIMEOUT)
    if cap is not None:
        return min(chosen_limit, cap)
    return chosen_limit


def answer_of(
    response: str, details: JsonDict, late: float | None, trajectory: list[JsonDict] | None = None
) -> SolveResult:
    """Build the result of an agent that worked in a sandbox.

    Args:
        response: The agent's answer.
        details: Facts about the run, kept in the row's scoring details.
        late: The time limit in seconds if the agent exceeded it, else None. A timeout is recorded but is not a failure.
        trajectory: The agent's own trajectory, if it has one.
    """
    if late is not None:
        error: str | None = f"the agent did not end within {late:g} s"
    else:
        error = None
    error_kind = ErrorKind.SOLVE_TIMEOUT if error else ErrorKind.NONE
    return SolveResult(
        response,
        None,
        trajectory or [],
        error=error,
        error_kind=error_kind,
        scoring_details=details,
    )


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
        folder = _folder(task)
        if folder is None:
            script = task.metadata.get("solution")
        else:
            script = None
        if folder is None and not isinstance(script, str):
            if sandbox is None and task.expected_answer:
                return SolveResult(response=task.expected_answer)
            raise SeedError("the task has no known solution (no task_dir with solution/solve.sh)")
        if sandbox is None:
            raise SandboxError(
                "the oracle needs a sandbox to run the solution",
                hint="give the benchmark a sandbox",
            )
        target = await writable_place(sandbox, _PLACES)
        if folder is not None:
            await sandbox.upload(folder, target)
        else:
            await sandbox.upload(str(script).encode(), f"{target}/{_SCRIPT}")
        timeout = self.timeout_for(task)
        trajectory = TrajectoryBuilder(
            agent="oracle", asked=[{"role": "user", "content": task.prompt}]
        )
        call = ToolCallInfo("oracle_1", "bash", {"command": f"bash {target}/{_SCRIPT}"})
        trajectory.agent(ModelResponse(content=""), [call])
        started = time.perf_counter()
        result = await sandbox.exec(["bash", f"{target}/{_SCRIPT}"], timeout=timeout)
        elapsed_ms = (time.perf_counter() - started) * 1000
        output = shown(result, timeout)
        trajectory.observe(
            call.id,
            output.content,
            latency_ms=elapsed_ms,
            is_error=output.is_error,
            source="sandbox",
        )
        if result.timed_out:
            error: str | None = f"the solution did not end within {timeout:g} s"
        else:
            error = None
        return SolveResult(
            response="",
            trajectory=trajectory.finish(status="error" if error else "completed", error=error),
            error=error,
            error_kind=ErrorKind.SOLVE_TIMEOUT if error else ErrorKind.NONE,
            scoring_details={"oracle_exit_code": result.exit_code},
        )

    def timeout_for(self, task: SeedResult) -> float:
        """Return how many seconds the solution of a task gets."""
        return time_limit(task, self.run_timeout, self.timeout_strategy, cap=self.max_agent_timeout)

    def describe(self) -> JsonDict:
        """Return the settings that change answers."""
        return {"type": "oracle", **asdict(self)}


def _folder(task: SeedResult) -> Path | None:
    """Return the folder of the known solution, or None; raise SeedError when the task's folder has none."""
    task_folder = task.folder or task.metadata.get("task_dir")
    if not task_folder or not isinstance(task_folder, str | Path):
        return None
    folder = Path(task_folder) / "solution"
    if not (folder / _SCRIPT).is_file():
        raise SeedError(f"the task's folder has no solution/{_SCRIPT}: {folder}")
    return folder


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
