"""What follows from the failure of a step, by the policy table: a retry, a row, or the end of the benchmark."""

from __future__ import annotations

import asyncio
import random
import traceback
from typing import Final

from nemo_evaluator.core.errors import BoundaryError, DetachedError, SolverError
from nemo_evaluator.core.failures import POLICY, Cause, Failure, RowOutcome, Stop
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.storage import out_of_files, storage_error
from nemo_evaluator.core.types import Failed, Scored, Step, VerifyResult
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import DRAIN, StepContext
from nemo_evaluator.engine.step_record import StepRecorder, StepWork
from nemo_evaluator.store.layout import ERRORS

# Causes that are raised by code of benchmarks, scorers and solvers; how many tracebacks of them are kept.
_OWN_CODE: Final = (Cause.SCORER, Cause.SOLVER, Cause.SEED)
_TRACEBACKS: Final = 200
_BACKOFF_START: Final = 1.0
_BACKOFF_CAP: Final = 30.0
# The benchmark stops when this many first answers are all refusals of the request as such.
_FIRST_REJECTIONS: Final = 8
_NO_ANSWER: Final = (
    "check the URL, the model and the server's log, then run the same command with --resume"
)


class FailedSteps:
    """Decides about failed steps, and stops the benchmark when they show that it cannot go well."""

    def __init__(self, context: StepContext, recorder: StepRecorder) -> None:
        self._ctx = context
        self._recorder = recorder
        # First answers that were refused, or did not come.
        self._rejections = 0
        self._tracebacks = 0

    async def may_retry(self, work: StepWork, error: BoundaryError) -> bool:
        """Wait before another attempt, or settle the step.

        Returns:
            Whether the step is tried again. If not, it has its outcome, or is left to ``--resume``.
        """
        fault = out_of_files(error)
        if fault is not None:
            shortage = storage_error(fault)
            self._ctx.halt.set(HaltKind.ERROR, shortage.message, error=shortage)
            return False
        work.attempts += error.attempts
        retriable = POLICY[error.cause].retry
        if retriable and self._ctx.halt.interrupted:
            return False  # A retry would be a new request.
        attempts_allowed = max(1, self._ctx.job.max_system_retries)
        if error.final or not retriable or work.attempts >= attempts_allowed:
            self._settle(work, error)
            return False
        async with lent_slot():
            pause = min(_BACKOFF_CAP, _BACKOFF_START * 2 ** (work.attempts - 1))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        return True

    def _settle(self, work: StepWork, error: BoundaryError) -> None:
        """Turn a failure into what the policy table says: no row and a stop, a zero, or a failed row."""
        policy = POLICY[error.cause]
        if error.cause is Cause.CANCELLED:
            kind = HaltKind.DETACHED if isinstance(error, DetachedError) else HaltKind.BUDGET
            self._ctx.halt.set(kind, error.message, error=error, drain=DRAIN)
            return
        if policy.stop is Stop.AT_ONCE:
            self._ctx.halt.set(HaltKind.ERROR, error.message, error=error)
            return
        if policy.row is RowOutcome.ZERO:
            verdict = VerifyResult(0.0, None, {"method": "not_asked", "error": error.message})
            self._recorder.outcome(work, Scored(verdict, error.cause))
        else:
            failure = Failure(error.cause, error.message, max(1, work.attempts))
            self._recorder.outcome(work, Failed(failure))
            if error.cause in _OWN_CODE and error.__cause__ is not None:
                self._keep_traceback(work.step, error.__cause__)
        if policy.stop is Stop.IF_FIRST:
            self._stop_if_first(error)
        if error.cause is Cause.SOLVER and not self._ctx.job.skip_failed:
            self._stop_if_solver_is_broken(error)

    def _keep_traceback(self, step: Step, raised: BaseException) -> None:
        """Write what code of a benchmark or solver raised to ``errors.log``: its row has only the message."""
        if self._tracebacks >= _TRACEBACKS:
            return
        self._tracebacks += 1
        trace = scrub("".join(traceback.format_exception(raised)))
        path = self._ctx.journal.path.with_name(ERRORS)
        with path.open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"problem {step.problem_idx}, repeat {step.repeat}\n{trace}\n")

    def _stop_if_first(self, error: BoundaryError) -> None:
        """Stop when the first requests all failed in a way that all others would."""
        tally = self._ctx.tally
        rejected = error.cause is Cause.REQUEST_REJECTED
        # What is left of a resumed run may be the rows that always fail: they say nothing about the server.
        scored_before = tally.reused if rejected else 0
        if tally.scored > scored_before:
            return
        self._rejections += 1
        if rejected:
            enough = min(_FIRST_REJECTIONS, max(1, tally.planned))
            what = "rejected"
            hint = error.hint
        else:
            enough = _FIRST_REJECTIONS
            what = "without an answer"
            hint = error.hint or _NO_ANSWER
        if self._rejections >= enough:
            message = f"the first requests were all {what}: {error.message}"
            stop = type(error)(message, hint=hint)
            self._ctx.halt.set(HaltKind.ERROR, stop.message, error=stop)

    def _stop_if_solver_is_broken(self, error: BoundaryError) -> None:
        """Stop when the solver raises: at once, or for agents when all of the last steps did."""
        self._recorder.crashes += 1
        # An agent may well break over one task; when all of them do, it is not the task.
        systematic = min(_FIRST_REJECTIONS, max(1, self._ctx.tally.planned))
        is_agent = bool(self._ctx.solver.needs)
        if is_agent and self._recorder.crashes < systematic:
            return
        hint = "set skip_failed: true to record such rows as failed and continue"
        stop = SolverError(f"the solver raised: {error.message}", hint=hint)
        stop.__cause__ = error.__cause__
        self._ctx.halt.set(HaltKind.ERROR, stop.message, error=stop)
