"""Solves a step within its time and budget, and journals the answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import (
    BoundaryError,
    BudgetError,
    SandboxError,
    SolverError,
    TransportError,
    boundary,
)
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import ErrorKind, SeedResult, SolveResult
from nemo_evaluator.engine.agents import (
    TRIPWIRES,
    check_reached,
    noted,
    real_cause,
    tripped,
    with_calls,
)
from nemo_evaluator.engine.given import checked_answer
from nemo_evaluator.engine.job import StepContext
from nemo_evaluator.engine.loop import Deadlines
from nemo_evaluator.engine.step_record import StepRecorder, StepWork, milliseconds_since
from nemo_evaluator.solvers.base import SANDBOX
from nemo_evaluator.store.records import answer_record

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentSession
    from nemo_evaluator.models.types import CallScope
    from nemo_evaluator.sandbox.base import Sandbox

_SOLVER: Final = boundary(Cause.SOLVER)
# Kinds of answers that report that they ran out of turns, tokens or time.
_OUT_OF_BUDGET: Final = (ErrorKind.GRACEFUL, ErrorKind.SOLVE_TIMEOUT)
# Kinds of answers that report a failure instead of raising an error.
_REPORTED: Final[dict[ErrorKind, type[BoundaryError]]] = {
    ErrorKind.INFRA: TransportError,
    ErrorKind.TOOL_INFRA: SandboxError,
    ErrorKind.SYSTEM: SolverError,
}


class StepSolver:
    """Runs the solver, and journals its answers."""

    def __init__(self, context: StepContext, recorder: StepRecorder) -> None:
        """Set up the solver's time limit.

        Args:
            context: The state that the steps share.
            recorder: Journals the answers.
        """
        self._ctx = context
        self._recorder = recorder
        #: Whether the solver works in a sandbox.
        self.takes_sandbox = SANDBOX in context.solver.needs
        # The shorter of the benchmark's timeout and the step's own limit.
        limits = []
        if context.job.timeout is not None:
            limits.append(context.job.timeout)
        if context.job.step_limits and context.job.step_limits.seconds is not None:
            limits.append(context.job.step_limits.seconds)
        self._deadlines = Deadlines(min(limits)) if limits else None

    async def ask(
        self,
        work: StepWork,
        scope: CallScope,
        sandbox: Sandbox | None,
        session: AgentSession | None,
    ) -> None:
        """Solve a step and journal the answer.

        A spent budget ends the answer, but not the step: the partial answer is verified, with a label.

        Args:
            work: The step.
            scope: The scope of its model calls.
            sandbox: The sandbox in which the solver works, if it needs one.
            session: The calls of an agent outside this process.

        Raises:
            BoundaryError: If the solver could not answer.
        """
        started = time.perf_counter()
        try:
            answer = await self._solve(work.seed, sandbox, session)
            out_of_budget = bool(answer.error) or answer.error_kind in _OUT_OF_BUDGET
            if session is not None and session.spent:
                out_of_budget = True
            work.label = Cause.BUDGET if out_of_budget else None
        except BudgetError as error:
            answer = _answer_so_far(scope, error)
            work.label = Cause.BUDGET
        if session is not None:
            agent_name = str(self._ctx.solver.settings.get("type", "outside"))
            answer = with_calls(answer, session, agent_name)
        if work.seed.tripwires:
            triggered = tripped(work.seed.tripwires, answer.trajectory)
            if triggered:
                answer.scoring_details = noted(answer.scoring_details, {TRIPWIRES: triggered})
        work.timing["model_ms"] = milliseconds_since(started)
        work.answer = answer
        record = answer_record(
            work.step,
            work.fingerprint,
            work.problem,
            seed=work.seed,
            answer=answer,
            label=work.label,
        )
        if work.attempts:
            record["attempts"] = work.attempts + record.get("attempts", 1)
        if sandbox is not None and self.takes_sandbox:
            record["sandbox_used"] = True
        self._recorder.answer(work, record)

    async def _solve(
        self, seed: SeedResult, sandbox: Sandbox | None, session: AgentSession | None
    ) -> SolveResult:
        """Return the answer; raise every failure as the error of the part that failed."""
        access = session.access if session is not None else None
        try:
            with _SOLVER:
                call = self._ctx.solver.solve(seed, sandbox, access)
                try:
                    if self._deadlines is not None:
                        reply = await self._deadlines.within(call)
                    else:
                        reply = await call
                    answer = checked_answer(reply)
                except TimeoutError as error:
                    if self._deadlines is None:
                        raise
                    raise self._too_late(error) from error
        except BoundaryError as error:
            cause = real_cause(error, session)
            if cause is error:
                raise
            raise cause from error
        check_reached(answer, session)
        if answer.error and answer.error_kind in _REPORTED:
            raise _REPORTED[answer.error_kind](answer.error)
        return answer

    def _too_late(self, error: TimeoutError) -> Exception:
        """Return the error for a step that exceeded its own limit or the benchmark's timeout."""
        timeout = self._ctx.job.timeout
        limits = self._ctx.job.step_limits
        own_limit = limits.seconds if limits is not None else None
        if own_limit is not None and (timeout is None or own_limit < timeout):
            return BudgetError(f"the step's {own_limit:g} s are used up")
        if timeout is None:
            return error
        message = f"no answer within the benchmark's timeout of {timeout:g} s"
        # During an outage no request could succeed, so this does not count as an attempt.
        server_is_gone = self._ctx.tally.health.paused is not None
        return TransportError(message, attempts=0 if server_is_gone else 1)


def _answer_so_far(scope: CallScope, error: BudgetError) -> SolveResult:
    """Return the partial answer of a solver whose budget is spent; an empty one if the solver keeps none."""
    if scope.partial:
        partial_answer = scope.partial(f"{error.cause} ({error.message})")
        if partial_answer:
            return partial_answer
    return SolveResult(response="", error=error.message)
