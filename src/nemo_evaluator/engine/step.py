"""One step: seed, solve, journal the answer, verify, journal the outcome."""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import (
    BoundaryError,
    BudgetError,
    DetachedError,
    SandboxError,
    SolverError,
    TransportError,
    boundary,
)
from nemo_evaluator.core.failures import POLICY, Cause, Failure, RowOutcome, Stop
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.slots import lent_slot
from nemo_evaluator.core.storage import out_of_files, storage_error
from nemo_evaluator.core.types import (
    ErrorKind,
    Failed,
    JsonDict,
    Outcome,
    Scored,
    SeedResult,
    SolveResult,
    Step,
    VerifyResult,
)
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.engine.agents import (
    TRIPWIRES,
    check_reached,
    endpoints_of,
    noted,
    real_cause,
    tripped,
    with_calls,
)
from nemo_evaluator.engine.given import checked_answer
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import DRAIN, StepContext
from nemo_evaluator.engine.loop import Deadlines
from nemo_evaluator.engine.plan import VERIFY
from nemo_evaluator.environments.base import BatchRow
from nemo_evaluator.solvers.base import SANDBOX
from nemo_evaluator.store.fingerprints import problem_hash
from nemo_evaluator.store.layout import ERRORS, TaskPaths
from nemo_evaluator.store.records import answer_record, outcome_record, unanswered

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentSession
    from nemo_evaluator.models.types import CallScope
    from nemo_evaluator.sandbox.base import Sandbox

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
_SEED: Final = boundary(Cause.SEED)
_UNSEEDED: Final = SeedResult(prompt="", expected_answer="")
_SOLVER: Final = boundary(Cause.SOLVER)


@dataclass(slots=True)
class _Work:
    """A step on its way."""

    step: Step
    seed: SeedResult
    problem: str
    fingerprint: str
    started: float
    timing: JsonDict = field(default_factory=dict)
    answer: SolveResult | None = None
    label: Cause | None = None
    attempts: int = 0
    # The checksum of the answer's record, which binds the verdict to it.
    sealed: str = ""


class StepRunner:
    """Runs steps; whatever a step meets ends in its outcome, or in ``halt``."""

    def __init__(self, context: StepContext) -> None:
        self._ctx = context
        self._takes_sandbox = SANDBOX in context.solver.needs
        self._rejections = 0
        # Solvers that raised since a row was last scored.
        self._crashes = 0
        self._tracebacks = 0
        # The shorter of the benchmark's timeout and the step's own limit.
        if context.job.step_limits:
            own = context.job.step_limits.seconds
        else:
            own = None
        limits = [limit for limit in (context.job.timeout, own) if limit is not None]
        if limits:
            self._deadlines: Deadlines | None = Deadlines(min(limits))
        else:
            self._deadlines = None

    async def run(self, step: Step) -> None:
        """Bring one step to its outcome."""
        ctx = self._ctx
        work = _Work(step, _UNSEEDED, "", fingerprint="", started=time.perf_counter())
        while True:
            try:
                with _SEED:
                    raw = await ctx.environment.seed(step.problem_idx)
                    if ctx.template:
                        work.seed = ctx.template.apply(raw)
                    else:
                        work.seed = raw
                break
            except BoundaryError as error:
                if not await self._goes_on(work, error):
                    return
        work.attempts = 0
        work.problem = problem_hash(raw)
        work.fingerprint = ctx.prints.answer(work.problem, step)
        work.timing["seed_ms"] = _since(work.started)
        if ctx.reuse.decision(step) == VERIFY:
            work.answer, work.label, work.sealed = self._stored_answer(step)
        await self._attempts(work)

    def take(self, step: Step, row: BatchRow) -> None:
        """Journal the row of an environment that asked and judged by itself."""
        problem = problem_hash(row.seed)
        work = _Work(
            step,
            row.seed,
            problem,
            fingerprint=self._ctx.prints.answer(problem, step),
            started=time.perf_counter(),
        )
        if isinstance(row.outcome, Scored):
            work.answer = checked_answer(row.answer)
            self._keep(
                work,
                answer_record(
                    step,
                    work.fingerprint,
                    problem,
                    seed=work.seed,
                    answer=work.answer,
                    label=row.outcome.label,
                ),
            )
        self._record(work, row.outcome)

    async def _attempts(self, work: _Work) -> None:
        while True:
            try:
                # With its number: equal problems are asked side by side.
                name = f"{work.fingerprint[:12]}{work.attempts:04x}{work.step.problem_idx:x}"
                scope = self._ctx.scopes.enter(work.step, name)
                if self._ctx.job.door is None or work.answer is not None:
                    await self._once(work, scope, None)
                else:
                    with self._ctx.job.door.session(scope) as session:
                        await self._once(work, scope, session)
                return
            except BoundaryError as error:
                if not await self._goes_on(work, error):
                    return

    async def _goes_on(self, work: _Work, error: BoundaryError) -> bool:
        """Whether a step tries again after an error, once it has waited; else it is settled or left to --resume."""
        fault = out_of_files(error)
        if fault is not None:
            told = storage_error(fault)
            self._ctx.halt.set(HaltKind.ERROR, told.message, error=told)
            return False
        work.attempts += error.attempts
        if self._ctx.halt.interrupted and POLICY[error.cause].retry:
            return False  # A retry would be a new request.
        if (
            error.final
            or not POLICY[error.cause].retry
            or work.attempts >= max(1, self._ctx.job.max_system_retries)
        ):
            self._settle(work, error)
            return False
        async with lent_slot():
            pause = min(_BACKOFF_CAP, _BACKOFF_START * 2 ** (work.attempts - 1))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        return True

    async def _once(self, work: _Work, scope: CallScope, agent: AgentSession | None) -> None:
        sandboxes = self._ctx.job.sandboxes
        if sandboxes is None:
            if work.answer is None:
                await self._ask(work, scope, None, session=agent)
            await self._judge(work, None)
            return
        async with sandboxes.session(work.seed, outside_endpoints=endpoints_of(agent)) as session:
            asked = work.answer is None
            if asked:
                await self._ask(work, scope, session.agent, session=agent)
            kept = TaskPaths(self._ctx.journal.path.parent).workspace(work.step, work.sealed)
            try:
                if asked and self._takes_sandbox:
                    await session.keep(kept)
                elif not asked and kept.is_file():
                    await session.restore(kept)
                await self._judge(work, await session.for_verify())
            except SandboxError:
                # What an agent left dies with its sandbox, unless it was kept.
                if self._takes_sandbox and not kept.is_file():
                    work.answer = None
                raise

    async def _ask(
        self, work: _Work, scope: CallScope, sandbox: Sandbox | None, session: AgentSession | None
    ) -> None:
        started = time.perf_counter()
        try:
            answer = await self._solve(work.seed, sandbox, session)
            limited = answer.error or answer.error_kind in (
                ErrorKind.GRACEFUL,
                ErrorKind.SOLVE_TIMEOUT,
            )
            if limited or (session is not None and session.spent):
                work.label = Cause.BUDGET
            else:
                work.label = None
        except BudgetError as error:
            why = f"{error.cause} ({error.message})"
            partial = scope.partial and scope.partial(why)
            answer = partial or SolveResult(response="", error=error.message)
            work.label = Cause.BUDGET
        if session is not None:
            answer = with_calls(
                answer, session, str(self._ctx.solver.settings.get("type", "outside"))
            )
        if work.seed.tripwires and (seen := tripped(work.seed.tripwires, answer.trajectory)):
            answer.scoring_details = noted(answer.scoring_details, {TRIPWIRES: seen})
        work.timing["model_ms"] = _since(started)
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
        if sandbox is not None and self._takes_sandbox:
            record["sandbox_used"] = True
        self._keep(work, record)

    def _keep(self, work: _Work, record: JsonDict) -> None:
        self._ctx.index.set_answer(work.step, self._ctx.journal.append(record))
        work.sealed = self._ctx.journal.checksum

    async def _solve(
        self, seed: SeedResult, sandbox: Sandbox | None, session: AgentSession | None
    ) -> SolveResult:
        try:
            with _SOLVER:
                call = self._ctx.solver.solve(
                    seed, sandbox, session.access if session is not None else None
                )
                try:
                    answer = checked_answer(
                        await (self._deadlines.within(call) if self._deadlines else call)
                    )
                except TimeoutError as error:
                    if self._deadlines is None:
                        raise
                    raise self._too_late(error) from error
        except BoundaryError as error:
            real = real_cause(error, session)
            if real is error:
                raise
            raise real from error
        check_reached(answer, session)
        if answer.error and answer.error_kind in _RAISED:
            raise _RAISED[answer.error_kind](answer.error)
        return answer

    def _too_late(self, error: TimeoutError) -> Exception:
        limits = self._ctx.job.step_limits
        timeout = self._ctx.job.timeout
        if (
            limits is not None
            and limits.seconds is not None
            and (timeout is None or limits.seconds < timeout)
        ):
            return BudgetError(f"the step's {limits.seconds:g} s are used up")
        if timeout is None:
            return error
        # While the server is gone nothing could have answered: that is no try of this step.
        gone = self._ctx.tally.health.paused is not None
        return TransportError(
            f"no answer within the benchmark's timeout of {timeout:g} s", attempts=0 if gone else 1
        )

    async def _judge(self, work: _Work, sandbox: Sandbox | None) -> None:
        assert work.answer is not None
        started = time.perf_counter()
        self._ctx.scopes.enter_verify()
        work.seed.trajectory = work.answer.trajectory
        reward = work.answer.reward
        if reward is not None:
            own: VerifyResult | None = VerifyResult(reward, scoring_details={"method": "solver"})
        else:
            own = None
        verdict = await self._ctx.verifier.verify(
            work.answer.response, work.seed, sandbox, given=own
        )
        if work.answer.scoring_details:
            verdict.scoring_details = noted(work.answer.scoring_details, verdict.scoring_details)
        work.timing["verify_ms"] = _since(started)
        self._record(work, Scored(verdict, work.label))

    def _settle(self, work: _Work, error: BoundaryError) -> None:
        """Turn a failure into what the policy table says."""
        policy = POLICY[error.cause]
        if error.cause is Cause.CANCELLED:
            if isinstance(error, DetachedError):
                kind = HaltKind.DETACHED
            else:
                kind = HaltKind.BUDGET
            self._ctx.halt.set(kind, error.message, error=error, drain=DRAIN)
            return
        if policy.stop is Stop.AT_ONCE:
            self._ctx.halt.set(HaltKind.ERROR, error.message, error=error)
            return
        if policy.row is RowOutcome.ZERO:
            verdict = VerifyResult(0.0, None, {"method": "not_asked", "error": error.message})
            self._record(work, Scored(verdict, error.cause))
        else:
            self._record(work, Failed(Failure(error.cause, error.message, max(1, work.attempts))))
            if error.cause in _OWN_CODE and error.__cause__ is not None:
                self._keep_traceback(work.step, error.__cause__)
        self._stop_early(error, policy.stop)

    def _keep_traceback(self, step: Step, raised: BaseException) -> None:
        """What code of a benchmark or solver raised, whole, in ``errors.log``: its row has only the message."""
        if self._tracebacks >= _TRACEBACKS:
            return
        self._tracebacks += 1
        told = scrub("".join(traceback.format_exception(raised)))
        with self._ctx.journal.path.with_name(ERRORS).open(
            "a", encoding="utf-8", errors="replace"
        ) as log:
            log.write(f"problem {step.problem_idx}, repeat {step.repeat}\n{told}\n")

    def _stop_early(self, error: BoundaryError, stop: Stop) -> None:
        tally = self._ctx.tally
        rejected = error.cause is Cause.REQUEST_REJECTED
        # What is left of a resumed run may be the rows that always fail: they say nothing about the server.
        if stop is Stop.IF_FIRST and tally.scored <= (tally.reused if rejected else 0):
            self._rejections += 1
            if self._rejections >= (
                min(_FIRST_REJECTIONS, max(1, tally.planned)) if rejected else _FIRST_REJECTIONS
            ):
                if rejected:
                    word = "rejected"
                    hint = error.hint
                else:
                    word = "without an answer"
                    hint = error.hint or _NO_ANSWER
                told = type(error)(
                    f"the first requests were all {word}: {error.message}", hint=hint
                )
                self._ctx.halt.set(HaltKind.ERROR, told.message, error=told)
        if error.cause is Cause.SOLVER and not self._ctx.job.skip_failed:
            self._crashes += 1
            # An agent may well break over one task; when all of them do, it is not the task.
            systematic = min(_FIRST_REJECTIONS, max(1, tally.planned))
            if self._ctx.solver.needs and self._crashes < systematic:
                return
            hint = "set skip_failed: true to record such rows as failed and go on"
            failure = SolverError(f"the solver raised: {error.message}", hint=hint)
            failure.__cause__ = error.__cause__
            self._ctx.halt.set(HaltKind.ERROR, failure.message, error=failure)

    def _record(self, work: _Work, outcome: Outcome) -> None:
        work.timing["total_ms"] = _since(work.started)
        fingerprint = self._ctx.prints.verdict(work.fingerprint, work.seed)
        of = work.sealed if work.answer is not None else None
        record = outcome_record(work.step, fingerprint, outcome, timing=work.timing, of=of)
        if work.answer is None:
            record = unanswered(record, work.seed, work.problem)
        reply = work.answer.model_response if work.answer else None
        tokens = (reply.total_tokens or 0) if reply else 0
        cost = (reply.cost_usd or 0.0) if reply else 0.0
        tally = self._ctx.tally
        offset = self._ctx.journal.append(record, lambda: tally.add(record, tokens, cost))
        self._ctx.index.set_outcome(work.step, offset)
        if isinstance(outcome, Scored):
            self._crashes = 0
        if self._ctx.stop is not None:
            self._ctx.ended(
                work.step,
                work.problem,
                outcome.verdict.reward if isinstance(outcome, Scored) else None,
            )

    def _stored_answer(self, step: Step) -> tuple[SolveResult, Cause | None, str]:
        offset = self._ctx.index.answer(step)
        assert offset is not None
        record = self._ctx.journal.read_at(offset)
        label = record.get("label")
        answer = SolveResult(
            response=record.get("response", ""),
            trajectory=record.get("trajectory", []),
            reward=record.get("solver_reward"),
            scoring_details=record.get("solve_details", {}),
            error=record.get("error"),
        )
        return answer, Cause(label) if label else None, record.get("crc", "")


_RAISED: Final[dict[ErrorKind, type[BoundaryError]]] = {
    ErrorKind.INFRA: TransportError,
    ErrorKind.TOOL_INFRA: SandboxError,
    ErrorKind.SYSTEM: SolverError,
}


def _since(started: float) -> float:
    # Rounding to digits takes longer.
    return int((time.perf_counter() - started) * 10_000 + 0.5) / 10
