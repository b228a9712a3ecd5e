"""Runs one step: seed, solve, journal the answer, verify, journal the outcome."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import BoundaryError, SandboxError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import (
    REWARD_OF,
    JsonDict,
    Scored,
    SeedResult,
    SolveResult,
    Step,
    VerifyResult,
)
from nemo_evaluator.engine.agents import endpoints_of, noted
from nemo_evaluator.engine.given import checked_answer
from nemo_evaluator.engine.job import StepContext
from nemo_evaluator.engine.plan import VERIFY
from nemo_evaluator.engine.step_failure import FailedSteps
from nemo_evaluator.engine.step_record import StepRecorder, StepWork, milliseconds_since
from nemo_evaluator.engine.step_solve import StepSolver
from nemo_evaluator.environments.base import BatchRow
from nemo_evaluator.store.fingerprints import problem_hash
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.records import answer_record

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentSession
    from nemo_evaluator.models.types import CallScope
    from nemo_evaluator.sandbox.base import Sandbox
    from nemo_evaluator.sandbox.manager import SandboxManager

_SEED: Final = boundary(Cause.SEED)
_UNSEEDED: Final = SeedResult(prompt="", expected_answer="")


class StepRunner:
    """Runs steps; every error ends in the outcome of its step, or in ``halt``."""

    def __init__(self, context: StepContext) -> None:
        self._ctx = context
        self._recorder = StepRecorder(context)
        self._solver = StepSolver(context, self._recorder)
        self._failures = FailedSteps(context, self._recorder)

    async def run(self, step: Step) -> None:
        """Run a step to its outcome: seed it, then retry until it is answered and verified."""
        context = self._ctx
        work = StepWork(step, _UNSEEDED, "", fingerprint="", started=time.perf_counter())
        while True:
            try:
                with _SEED:
                    problem = await context.environment.seed(step.problem_idx)
                    context.environment.add_cluster(step.problem_idx, problem)
                    work.seed = context.template.apply(problem) if context.template else problem
                break
            except BoundaryError as error:
                if not await self._failures.may_retry(work, error):
                    return
        work.attempts = 0
        work.problem = problem_hash(problem)
        work.fingerprint = context.prints.answer(work.problem, step)
        work.timing["seed_ms"] = milliseconds_since(work.started)
        if context.reuse.decision(step) == VERIFY:
            self._load_answer(work)
        while True:
            try:
                await self._attempt(work)
                return
            except BoundaryError as error:
                if not await self._failures.may_retry(work, error):
                    return

    def take(self, step: Step, row: BatchRow) -> None:
        """Journal the row of an environment that solves and judges by itself."""
        with _SEED:
            self._ctx.environment.add_cluster(row.problem_idx, row.seed)
        problem = problem_hash(row.seed)
        fingerprint = self._ctx.prints.answer(problem, step)
        work = StepWork(
            step, row.seed, problem, fingerprint=fingerprint, started=time.perf_counter()
        )
        if isinstance(row.outcome, Scored):
            work.answer = checked_answer(row.answer)
            record = answer_record(
                step,
                work.fingerprint,
                problem,
                seed=work.seed,
                answer=work.answer,
                label=row.outcome.label,
            )
            self._recorder.answer(work, record)
        self._recorder.outcome(work, row.outcome)

    async def _attempt(self, work: StepWork) -> None:
        """Make one attempt at a step, with a session for external agents if they call the model."""
        # Includes the problem's number, because equal problems may run concurrently.
        session_name = f"{work.fingerprint[:12]}{work.attempts:04x}{work.step.problem_idx:x}"
        scope = self._ctx.scopes.enter(work.step, session_name)
        door = self._ctx.job.door
        if door is None or work.answer is not None:
            await self._ask_and_verify(work, scope, None)
        else:
            with door.session(scope) as session:
                await self._ask_and_verify(work, scope, session)

    async def _ask_and_verify(
        self, work: StepWork, scope: CallScope, agent: AgentSession | None
    ) -> None:
        """Answer a step unless it has an answer, and verify it, in sandboxes if the benchmark uses them."""
        sandboxes = self._ctx.job.sandboxes
        if sandboxes is not None:
            await self._in_sandboxes(work, scope, agent, sandboxes=sandboxes)
            return
        if work.answer is None:
            await self._solver.ask(work, scope, None, session=agent)
        await self._verify(work, None)

    async def _in_sandboxes(
        self,
        work: StepWork,
        scope: CallScope,
        agent: AgentSession | None,
        *,
        sandboxes: SandboxManager,
    ) -> None:
        """Answer and verify in sandboxes; the workspace of an agent is kept until the verdict."""
        takes_sandbox = self._solver.takes_sandbox
        endpoints = endpoints_of(agent)
        async with sandboxes.session(work.seed, outside_endpoints=endpoints) as session:
            is_new = work.answer is None
            if is_new:
                await self._solver.ask(work, scope, session.agent, session=agent)
            task = TaskPaths(self._ctx.journal.path.parent)
            workspace = task.workspace(work.step, work.sealed)
            try:
                if is_new and takes_sandbox:
                    await session.keep(workspace)
                elif not is_new and workspace.is_file():
                    await session.restore(workspace)
                await self._verify(work, await session.for_verify())
            except SandboxError:
                # Without a saved workspace, the agent's work is lost with the sandbox, so it must run again.
                if takes_sandbox and not workspace.is_file():
                    work.answer = None
                raise

    async def _verify(self, work: StepWork, sandbox: Sandbox | None) -> None:
        """Verify the answer of a step, and journal the outcome."""
        answer = work.answer
        assert answer is not None
        started = time.perf_counter()
        self._ctx.scopes.enter_verify()
        work.seed.trajectory = answer.trajectory
        solver_verdict = None
        if answer.reward is not None:
            solver_verdict = VerifyResult(answer.reward, scoring_details=_given_by(answer))
        verdict = await self._ctx.verifier.verify(
            answer.response, work.seed, sandbox, given=solver_verdict
        )
        if answer.scoring_details:
            verdict.scoring_details = noted(answer.scoring_details, verdict.scoring_details)
        work.timing["verify_ms"] = milliseconds_since(started)
        self._recorder.outcome(work, Scored(verdict, work.label))

    def _load_answer(self, work: StepWork) -> None:
        """Load the answer of an earlier session, which only needs to be verified."""
        offset = self._ctx.index.answer(work.step)
        assert offset is not None
        record = self._ctx.journal.answer_at(offset)
        label = record.get("label")
        work.answer = SolveResult(
            response=record.get("response", ""),
            trajectory=record.get("trajectory", []),
            reward=record.get("solver_reward"),
            scoring_details=record.get("solve_details", {}),
            error=record.get("error"),
        )
        work.label = Cause(label) if label else None
        work.sealed = record.get("crc", "")


def _given_by(answer: SolveResult) -> JsonDict:
    """Return the details of a reward that came with the answer: whose number it is."""
    scored_by = answer.scoring_details.get(REWARD_OF, "the solver")
    return {"method": "solver", "scored_by": scored_by}
