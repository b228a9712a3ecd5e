"""The oracle solver: runs the known solution of a task, which measures the ceiling of the harness."""

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

# The second is for sandboxes whose root cannot be written to.
_PLACES: Final = ("/solution", "/tmp/solution")
_SCRIPT: Final = "solve.sh"
_TASK_LIMITS: Final = ("agent_timeout_sec", "agent_timeout", "max_agent_timeout_sec", "timeout")
_DEFAULT_TIMEOUT: Final = 1800.0


def time_limit(
    task: SeedResult, ours: float | None, strategy: TimeoutStrategy, cap: float | None
) -> float:
    """Seconds for the agent of a task."""
    told = (as_number(task.metadata.get(name)) for name in _TASK_LIMITS)
    theirs = next((seconds for seconds in told if seconds is not None and seconds > 0), None)
    known: list[float] = []
    for limit in (theirs, ours) if strategy == "task" else (ours, theirs):
        if limit is not None:
            known.append(limit)
    if strategy == "max" and known:
        chosen = max(known)
    else:
        chosen = next(iter(known), _DEFAULT_TIMEOUT)
    if cap is not None:
        return min(chosen, cap)
    return chosen


def answer_of(
    response: str, details: JsonDict, late: float | None, trajectory: list[JsonDict] | None = None
) -> SolveResult:
    """What an agent left besides its workspace. One whose time was up (``late``, in seconds) is no failure."""
    if late is not None:
        error: str | None = f"the agent did not end within {late:g} s"
    else:
        error = None
    kind = ErrorKind.SOLVE_TIMEOUT if error else ErrorKind.NONE
    return SolveResult(
        response, None, trajectory or [], error=error, error_kind=kind, scoring_details=details
    )


class OracleSolverConfig(SolverBase):
    """The known solution of the task: measures the ceiling of the harness."""

    type: Literal["oracle"] = "oracle"
    run_timeout: Above0 | None = Field(None, description="Seconds for the solution.")
    timeout_strategy: TimeoutStrategy = "override"
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the solution's time.")


@dataclass(frozen=True, kw_only=True)
class OracleSolver:
    """Copies ``<task_dir>/solution`` (or ``metadata["solution"]``, a script) into the sandbox and runs ``solve.sh``.
    The place is ``/solution``, or ``/tmp/solution`` where the root cannot be written to.

    A script that fails only says so in the trajectory: verification decides. A problem without a sandbox and with a
    known answer is answered with it.
    """

    run_timeout: float | None = None
    timeout_strategy: TimeoutStrategy = "override"
    max_agent_timeout: float | None = None

    async def solve(self, task: SeedResult, sandbox: Sandbox | None = None) -> SolveResult:
        """Run the solution. Raises SeedError when there is none, SandboxError when there is no place to run it."""
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
        place = await writable_place(sandbox, _PLACES)
        if folder is not None:
            await sandbox.upload(folder, place)
        else:
            await sandbox.upload(str(script).encode(), f"{place}/{_SCRIPT}")
        timeout = self.timeout_for(task)
        document = TrajectoryBuilder(
            agent="oracle", asked=[{"role": "user", "content": task.prompt}]
        )
        call = ToolCallInfo("oracle_1", "bash", {"command": f"bash {place}/{_SCRIPT}"})
        document.agent(ModelResponse(content=""), [call])
        started = time.perf_counter()
        result = await sandbox.exec(["bash", f"{place}/{_SCRIPT}"], timeout=timeout)
        took = (time.perf_counter() - started) * 1000
        output = shown(result, timeout)
        document.observe(
            call.id, output.content, latency_ms=took, is_error=output.is_error, source="sandbox"
        )
        if result.timed_out:
            error: str | None = f"the solution did not end within {timeout:g} s"
        else:
            error = None
        return SolveResult(
            response="",
            trajectory=document.finish(status="error" if error else "completed", error=error),
            error=error,
            error_kind=ErrorKind.SOLVE_TIMEOUT if error else ErrorKind.NONE,
            scoring_details={"oracle_exit_code": result.exit_code},
        )

    def timeout_for(self, task: SeedResult) -> float:
        return time_limit(task, self.run_timeout, self.timeout_strategy, cap=self.max_agent_timeout)

    def describe(self) -> JsonDict:
        return {"type": "oracle", **asdict(self)}


def _folder(task: SeedResult) -> Path | None:
    """The folder of the known solution, if the task has one."""
    place = task.folder or task.metadata.get("task_dir")
    if not place or not isinstance(place, str | Path):
        return None
    folder = Path(place) / "solution"
    if not (folder / _SCRIPT).is_file():
        raise SeedError(f"the task's folder has no solution/{_SCRIPT}: {folder}")
    return folder


async def writable_place(sandbox: Sandbox, places: Sequence[str]) -> str:
    """The first of some folders that can be made and written to. Raises SandboxError when none can."""
    for place in places:
        made = await sandbox.exec(
            ["sh", "-c", 'mkdir -p "$1" && test -w "$1"', "sh", place], timeout=30.0
        )
        if made.ok:
            return place
    raise SandboxError(f"nothing can be written to {', '.join(places)}: {made.stderr.strip()}")


KIND: Final = Kind(
    OracleSolverConfig, lambda config, context: OracleSolver(**config.model_dump(exclude={"type"}))
)
