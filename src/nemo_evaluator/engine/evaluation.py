"""One benchmark from its parts: plan, resume, loop, views, bundle."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import BoundaryError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, replace
from nemo_evaluator.core.wording import counted
from nemo_evaluator.engine.batch import run_batch, run_whole
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation, StepContext, open_steps
from nemo_evaluator.engine.loop import Loop
from nemo_evaluator.engine.ordered_stop import OrderedStop, unused_answers
from nemo_evaluator.engine.plan import (
    ASK,
    REUSE,
    VERIFY,
    Plan,
    ReusePlan,
    chosen_problems,
    make_plan,
)
from nemo_evaluator.engine.pool import StepQueue, WorkerPool
from nemo_evaluator.engine.resume import Reuse, adopt_answers
from nemo_evaluator.engine.step import StepRunner
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.environments.base import RunsFirst
from nemo_evaluator.models.types import CallScope, call_scope
from nemo_evaluator.runs.bundle import kept_bundle
from nemo_evaluator.runs.index import kept_index, settle_index
from nemo_evaluator.store.index import History, StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import (
    PREVIOUS,
    TaskPaths,
    archive_previous,
    mark_rows_old,
    previous_journals,
)
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.records import RUN

if TYPE_CHECKING:
    from nemo_evaluator.runs.row_table import WrittenRows

_log = logging.getLogger(__name__)
# How many damaged records are named one by one.
_SHOWN: Final = 20
# How many steps are announced to the environment at a time.
_AHEAD: Final = 64


@dataclass(frozen=True, slots=True)
class Finished:
    """What is left of a benchmark when it ended, one way or another."""

    bundle: JsonDict
    halt: Halt
    reuse: ReusePlan
    task: TaskPaths
    # Nothing was to be done: its files are those of an earlier session.
    kept: bool = False
    # Its rows, for whoever would read them again at once.
    written: WrittenRows | None = None


async def evaluate(job: Evaluation, pool: WorkerPool | None = None) -> Finished:
    """Run one benchmark, in this process or in those of a pool. Raises only when nothing at all could be measured."""
    if isinstance(job.environment, RunsFirst):
        with folder_lock(TaskPaths(job.task_dir).root, say=job.say):
            await run_whole(job, job.environment)
    plan = make_plan(
        await job.environment.dataset_size(),
        repeats=job.repeats,
        max_problems=job.max_problems,
        shuffle_seed=job.shuffle_seed,
        shard=job.shard,
        problem_range=job.problem_range,
        only=await chosen_problems(job.environment, job.only),
    )
    if job.stopped_before is not None and job.stopped_before.get("kind") == HaltKind.RULE:
        plan = plan.first(job.stopped_before["rule"]["problems"])
    task = TaskPaths(job.task_dir)
    with folder_lock(task.root, say=job.say):
        if not job.resume and (moved := archive_previous(task)) is not None:
            job.say(f"{moved}; --resume would have reused it")
        journal = Journal(task.journal)
        try:
            return await _Session(job, plan, task, journal=journal).run(pool)
        finally:
            journal.close()


class _Session:
    """One process's work on a benchmark."""

    def __init__(self, job: Evaluation, plan: Plan, task: TaskPaths, journal: Journal) -> None:
        self._job = job
        self._plan = plan
        self._task = task
        self._journal = journal
        self._tally = Tally(planned=len(plan))
        if job.halt is not None:
            self._halt = job.halt
        else:
            self._halt = Halt()
        self._ctx = StepContext(job, plan, journal, halt=self._halt, tally=self._tally)
        self._verifier = self._ctx.verifier
        self._prints = self._ctx.prints
        if job.stop_rule is not None:
            self._ctx.stop = OrderedStop(job.stop_rule, plan, job.max_concurrent * job.workers)
        # Where the run ends at the latest, and where it was to end in earlier sessions that a rule has looked at.
        rule = job.stop_rule
        planned = len(plan.problems)
        if rule is None:
            self._planned_end = planned
        else:
            self._planned_end = rule.end(planned)
        self._moved: list[int] = []
        self._canaries: JsonDict = {}
        self._started = time.monotonic()

    async def run(self, pool: WorkerPool | None) -> Finished:
        mark_rows_old(self._task)
        history = self._load()
        for budget in self._job.budgets:
            budget.resume(
                usd=history.usd,
                tokens=history.tokens,
                requests=history.requests,
                seconds=history.elapsed,
            )
        self._moved = sorted(history.looked_at - {self._planned_end})
        if self._moved and self._job.stop_rule is not None:
            self._job.stop_rule.forgo_last_look()
        self._say_choices()
        reuse = await self._decide(history)
        todo = reuse.count(ASK, self._plan) + reuse.count(VERIFY, self._plan)
        if not todo and (kept := self._kept(reuse, history)) is not None:
            self._job.progress.started(self._name, self._tally, reuse, 0)
            self._job.progress.finished(self._tally)
            return Finished(kept, self._halt, reuse, task=self._task, kept=True)
        if todo and not self._halt:
            self._canaries = await self._check_judges()
        else:
            self._canaries = history.canaries
        self._journal.append(self._session_record())
        progress = self._job.progress
        progress.started(self._name, self._tally, reuse if self._job.resume else None, todo)
        try:
            if todo and not self._halt:
                with kept_index(self._task, self._journal):
                    await self._loop(pool)
        finally:
            self._journal.flush()
            progress.finished(self._tally)
        if self._journal.error is not None:
            raise self._journal.error
        if (
            self._halt.kind is HaltKind.ERROR
            and self._halt.error is not None
            and not self._tally.done
        ):
            raise self._halt.error
        return self._finish(reuse, history)

    def _kept(self, reuse: ReusePlan, history: History) -> JsonDict | None:
        """The bundle of an earlier session that the one of this session would only repeat."""
        job = self._job
        ruled = job.stop_rule or job.stopped_before or history.looked_at
        if (
            not job.resume
            or self._halt
            or history.damage
            or ruled
            or job.aggregate
            or self._verifier.sums_up
        ):
            return None
        self._journal.flush()
        config = self._config(reuse)
        found = kept_bundle(self._task, config)
        # The file tells of the session that wrote it; whoever asked is told of this one.
        return None if found is None else found | {"config": config}

    def _say_choices(self) -> None:
        """What a reader of the score might take otherwise: which problems it is over, and whose reward it is."""
        if self._job.max_problems is not None and self._plan.selection:
            self._job.say(f"{self._name}: {self._plan.selection}")
        beside = self._verifier.beside
        if beside:
            self._job.say(
                f"{self._name}: the reward is the benchmark's own scorer's; beside it stand {', '.join(beside)}. "
                "For one of them as the reward: scoring.primary, or include_defaults: false"
            )

    def _load(self) -> History:
        """What the journal holds; damaged records are named and set aside, and their steps are done again."""
        history = self._ctx.index.load(self._journal)
        if history.damage:
            for found in history.damage[:_SHOWN]:
                self._job.say(f"{found}; its step is done again")
            if len(history.damage) > _SHOWN:
                self._job.say(f"{self._task.journal}: {len(history.damage)} damaged records in all")
            self._journal.set_damage_aside(history.damage)
            self._ctx.index = StepIndex(self._plan.dataset_size, self._plan.repeats)
            history = replace(self._ctx.index.load(self._journal), damage=history.damage)
        return history

    def _session_record(self) -> JsonDict:
        record: JsonDict = {
            "kind": RUN,
            "at": round(time.time(), 3),
            "fingerprints": self._prints.parts,
        }
        if self._canaries:
            record["canaries"] = self._canaries
        if self._job.fresh:
            record["fresh"] = True
        # A rule looks until the planned end; where that is must be known to whoever moves it later.
        if self._job.stop_rule is not None:
            return record | {"looked_at": self._planned_end}
        return record

    async def _check_judges(self) -> JsonDict:
        """Before anything is asked: a judge that says yes to everything is not worth a single answer."""
        if not self._verifier.judged:
            return {}
        of = self._ctx.scopes
        scope = CallScope(
            "canary", self._name, budgets=of.budgets, interrupted=of.interrupted, health=of.health
        )
        token = call_scope.set(scope)
        try:
            with boundary(Cause.SEED):
                first = await self._job.environment.seed(self._plan.problems[0])
            return await self._verifier.check_judges(first)
        finally:
            call_scope.reset(token)

    async def _decide(self, history: History) -> ReusePlan:
        if not self._job.resume:
            return self._ctx.reuse
        past = [] if history.fresh else previous_journals(self._task)
        adopted = adopt_answers(self._ctx, past, self._plan)
        if adopted:
            where = self._task.root / PREVIOUS
            self._job.say(
                f"{self._name}: {counted(adopted, 'answer')} of earlier runs in {where}/ can be used"
            )
        return await Reuse(self._ctx, history).decide(self._plan)

    async def _loop(self, pool: WorkerPool | None) -> None:
        job = self._job
        context = self._ctx
        todo = self._ctx.reuse.todo(self._plan)
        batch = job.environment.facts().batch
        if pool is not None and not batch:
            await pool(StepQueue(context, todo))
            return
        if pool is not None:
            job.say(f"{self._name}: runs itself, so it runs here and not on the workers")
        runner = StepRunner(context)
        await open_steps(job)
        if batch:
            await run_batch(runner, context, list(todo), folder=self._task.root / "batch")
            return
        await Loop(
            self._announced(todo) if self._plan.shuffled else todo,
            runner.run,
            max_concurrent=job.max_concurrent,
            halt=self._halt,
            tally=self._tally,
            room=context.stop.room if context.stop is not None else None,
            waiting=job.waiting,
            clear=context.scopes.leave,
        ).run()

    def _announced(self, steps: Iterator[Step]) -> Iterator[Step]:
        """The steps; the environment is told of some at a time, beforehand."""
        while ahead := list(islice(steps, _AHEAD)):
            self._job.environment.expect([step.problem_idx for step in ahead])
            yield from ahead

    def _finish(self, reuse: ReusePlan, history: History) -> Finished:
        # Here, with all of the statistics: a run that has nothing to do ends without them.
        from nemo_evaluator.engine.bundle import BundleFacts, write_bundle  # noqa: PLC0415
        from nemo_evaluator.engine.columns import write_views  # noqa: PLC0415

        job = self._job
        halt = self._halt
        # Answers that were under way when the rule stopped the run stay in the journal, and out of the score.
        if self._ruled and self._ctx.stop is not None:
            used = self._plan.first(self._ctx.stop.problems)
        else:
            used = self._plan
        full = job.environment.full_rows
        columns = write_views(self._task, used, self._journal, index=self._ctx.index, full=full)
        settle_index(self._task, columns.scored + columns.failed)
        if halt.kind is HaltKind.BUDGET and not self._ruled:
            columns.planned = columns.scored + columns.failed
        worked = self._tally.done > self._tally.reused
        facts = BundleFacts(
            name=self._name,
            repeats=self._plan.repeats,
            config=self._config(reuse),
            min_coverage=job.min_coverage,
            elapsed=history.elapsed + (time.monotonic() - self._started if worked else 0.0),
            finished=datetime.now(UTC),
            stopped=self._stopped(history),
            canaries=self._canaries,
        )
        # The statistics are the peak of a run's memory, and read no journal.
        self._ctx.index.release()
        if columns.scored:
            with boundary(Cause.SCORER):
                facts.extra_scores = (job.aggregate or self._verifier.aggregate)(self._task.results)
        bundle = write_bundle(self._task, columns, facts)
        return Finished(bundle, halt, reuse, task=self._task, written=columns.written())

    @property
    def _ruled(self) -> bool:
        """Whether the rule has decided; it may do so while an interrupted run comes to rest."""
        return self._job.stop_rule is not None and self._job.stop_rule.reason is not None

    def _stopped(self, history: History) -> JsonDict | None:
        if self._halt.kind:
            facts: JsonDict = {"kind": self._halt.kind, "reason": self._halt.reason}
        else:
            facts = {}
        if isinstance(self._halt.error, BoundaryError):
            facts["cause"] = self._halt.error.cause
        if self._ruled and self._job.stop_rule is not None:
            facts = {"kind": HaltKind.RULE, "reason": self._job.stop_rule.reason}
        if self._job.stopped_before is not None:
            return self._job.stopped_before | facts
        rule = self._rule_facts(history)
        return facts | ({"rule": rule} if rule else {}) or None

    def _rule_facts(self, history: History) -> JsonDict:
        """What the rule did, as long as there was one at any time: who has looked cannot take it back."""
        job = self._job
        planned = len(self._plan.problems)
        facts: JsonDict = {"moved_from": self._moved} if self._moved else {}
        if job.stop_rule is None:
            if history.looked_at:
                return facts | {"note": "an earlier session of this run had a rule"}
            return {}
        facts |= job.stop_rule.summary(ended=self._halt.kind is None and not self._moved)
        facts |= {"planned": planned, "saved_share": 0.0}
        if self._ruled and self._ctx.stop is not None:
            unused = unused_answers(
                self._plan, self._ctx.stop.problems, self._ctx.index, journal=self._journal
            )
            steps = self._ctx.stop.problems * self._plan.repeats + unused["answers"]
            facts |= {
                "unused": unused,
                "saved_share": round(max(0.0, 1 - steps / len(self._plan)), 4),
            }
        return facts

    @property
    def _name(self) -> str:
        return self._job.name or self._job.environment.name

    def _config(self, reuse: ReusePlan) -> JsonDict:
        plan = self._plan
        config: JsonDict = {"benchmark": self._name} | self._job.config
        config |= {"repeats": plan.repeats, "max_problems": self._job.max_problems}
        config |= plan.describe()
        config |= {
            "reward_from": self._verifier.reward_from,
            "min_coverage": self._job.min_coverage,
        }
        if self._job.environment.full_rows:
            config["rows"] = "full"
        config["fingerprints"] = self._prints.parts
        if self._job.resume:
            config["resumed"] = {"reused": reuse.count(REUSE, plan), "reasons": dict(reuse.reasons)}
        return config
