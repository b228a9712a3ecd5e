"""Handles failed steps by the policy table: a retry, a failed row, or the end of the benchmark."""

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

# Causes raised by the code of benchmarks, scorers and solvers, and how many of their tracebacks are kept.
_OWN_CODE: Final = (Cause.SCORER, Cause.SOLVER, Cause.SEED)
_TRACEBACKS: Final = 200
_BACKOFF_START: Final = 1.0
_BACKOFF_CAP: Final = 30.0
# The benchmark stops if this many first requests all fail.
_FIRST_REJECTIONS: Final = 8
_NO_ANSWER: Final = (
    "check the URL, the model and the server's log, then run the same command with --resume"
)


class FailedSteps:
    """Decides about failed steps, and stops the benchmark if they show a systematic problem."""

    def __init__(self, context: StepContext, recorder: StepRecorder) -> None:
        self._ctx = context
        self._recorder = recorder
        # Number of first requests that were rejected or got no answer.
        self._rejections = 0
        self._tracebacks = 0

    async def may_retry(self, work: StepWork, error: BoundaryError) -> bool:
        """Wait before another attempt, or settle the step.

        Returns:
            Whether to try the step again. If not, it has its outcome, or is left to ``--resume``.
        """
        file_error = out_of_files(error)
        if file_error is not None:
            shortage_error = storage_error(file_error)
            self._ctx.halt.set_error(shortage_error)
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
            delay = min(_BACKOFF_CAP, _BACKOFF_START * 2 ** (work.attempts - 1))
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
        return True

    def _settle(self, work: StepWork, error: BoundaryError) -> None:
        """Apply the policy table to a failure: no row and a stop, a zero, or a failed row."""
        policy = POLICY[error.cause]
        if error.cause is Cause.CANCELLED:
            kind = HaltKind.DETACHED if isinstance(error, DetachedError) else HaltKind.BUDGET
            self._ctx.halt.set(kind, error.message, error=error, drain=DRAIN)
            return
        if policy.stop is Stop.AT_ONCE:
            self._ctx.halt.set_error(error)
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
        """Append the traceback of an error in a benchmark or solver to ``errors.log``: the row has only the message."""
        if self._tracebacks >= _TRACEBACKS:
            return
        self._tracebacks += 1
        traceback_text = scrub("".join(traceback.format_exception(raised)))
        path = self._ctx.journal.path.with_name(ERRORS)
        with path.open("a", encoding="utf-8", errors="replace") as log:
            log.write(f"problem {step.problem_idx}, repeat {step.repeat}\n{traceback_text}\n")

    def _stop_if_first(self, error: BoundaryError) -> None:
        """Stop if the first requests all failed in a way that affects all others."""
        tally = self._ctx.tally
        rejected = error.cause is Cause.REQUEST_REJECTED
        # A resumed run may consist of rows that always fail, which says nothing about the server.
        scored_before = tally.reused if rejected else 0
        if tally.scored > scored_before:
            return
        self._rejections += 1
        if rejected:
            threshold = min(_FIRST_REJECTIONS, max(1, tally.planned))
            description = "rejected"
            hint = error.hint
        else:
            threshold = _FIRST_REJECTIONS
            description = "without an answer"
            hint = error.hint or _NO_ANSWER
        if self._rejections >= threshold:
            message = f"the first requests were all {description}: {error.message}"
            stop_error = type(error)(message, hint=hint)
            self._ctx.halt.set_error(stop_error)

    def _stop_if_solver_is_broken(self, error: BoundaryError) -> None:
        """Stop if the solver raised: at once, or for agents after several failures in a row."""
        self._recorder.crashes += 1
        # An agent may fail at a single task; several failures in a row indicate another cause.
        threshold = min(_FIRST_REJECTIONS, max(1, self._ctx.tally.planned))
        is_agent = bool(self._ctx.solver.needs)
        if is_agent and self._recorder.crashes < threshold:
            return
        hint = "set skip_failed: true to record such rows as failed and continue"
        stop_error = SolverError(f"the solver raised: {error.message}", hint=hint)
        stop_error.__cause__ = error.__cause__
        self._ctx.halt.set_error(stop_error)
