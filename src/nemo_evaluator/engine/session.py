"""One session of a benchmark: its plan, journal and counts, and what earlier sessions left in the journal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import BoundaryError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import replace
from nemo_evaluator.core.wording import counted
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation, StepContext
from nemo_evaluator.engine.ordered_stop import OrderedStop, unused_answers
from nemo_evaluator.engine.plan import REUSE, Plan, ReusePlan
from nemo_evaluator.engine.resume import Reuse, adopt_answers
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.models.types import CallScope, call_scope
from nemo_evaluator.store.index import History, StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.layout import PREVIOUS, TaskPaths, previous_journals
from nemo_evaluator.store.records import RUN

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import RuleEntry, StoppedEntry
    from nemo_evaluator.store.journal_record import JudgeCheck, SessionRecord

# Number of damaged records that are reported individually.
_DAMAGE_NAMED: Final = 20


class Session:
    """The state of one process's work on a benchmark.

    Attributes:
        job: What to run.
        plan: The steps.
        task: The files.
        journal: The journal, open for writing.
        halt: The early stop of the run.
        tally: The counts so far.
        context: The state that the steps share.
        history: Earlier sessions, from the journal; empty until ``load``.
        moved_ends: Planned ends, other than that of this session, of earlier sessions whose scores a stop rule has
            inspected; empty until ``load``.
        canaries: How the judges graded a right and a wrong answer.
        started: When the session began, by ``time.monotonic``.
    """

    def __init__(self, job: Evaluation, plan: Plan, task: TaskPaths, journal: Journal) -> None:
        """Create the state, with the stop rule in the order of the plan if there is one.

        Args:
            job: What to run.
            plan: The steps.
            task: The files.
            journal: The journal, open for writing.
        """
        self.job = job
        self.plan = plan
        self.task = task
        self.journal = journal
        self.halt = job.halt if job.halt is not None else Halt()
        self.tally = Tally(planned=len(plan))
        self.context = StepContext(job, plan, journal, halt=self.halt, tally=self.tally)
        self.history = History()
        self.moved_ends: list[int] = []
        self.canaries: dict[str, JudgeCheck] = {}
        self.started = time.monotonic()
        # The number of problems after which the run ends at the latest.
        self._planned_end = len(plan.problems)
        if job.stop_rule is not None:
            self.context.stop = OrderedStop(job.stop_rule, plan, job.max_concurrent * job.workers)
            self._planned_end = job.stop_rule.end(len(plan.problems))

    @property
    def name(self) -> str:
        """The name of the benchmark."""
        return self.job.name or self.job.environment.name

    @property
    def stopped_by_rule(self) -> bool:
        """Whether the stop rule has decided, which it may still do after an interrupt."""
        return self.job.stop_rule is not None and self.job.stop_rule.reason is not None

    def load(self) -> None:
        """Read the journal: earlier answers, their cost, and the looks of earlier stop rules.

        Damaged records are reported and set aside; their steps are run again.
        """
        history = self.context.index.load(self.journal)
        if history.damage:
            for damage in history.damage[:_DAMAGE_NAMED]:
                self.job.say(f"{damage}; this sample will be rerun")
            if len(history.damage) > _DAMAGE_NAMED:
                self.job.say(f"{self.task.journal}: {len(history.damage)} damaged records in all")
            self.journal.set_damage_aside(history.damage)
            self.context.index = StepIndex(self.plan.dataset_size, self.plan.repeats)
            history = replace(self.context.index.load(self.journal), damage=history.damage)
        for budget in self.job.budgets:
            budget.resume(
                usd=history.usd,
                tokens=history.tokens,
                requests=history.requests,
                seconds=history.elapsed,
            )
        self.moved_ends = sorted(history.looked_at - {self._planned_end})
        if self.moved_ends and self.job.stop_rule is not None:
            self.job.stop_rule.forgo_last_look()
        self.history = history

    def say_choices(self) -> None:
        """Report what a reader of the score might not expect: the selected problems, and the source of the reward."""
        if self.job.max_problems is not None and self.plan.selection:
            self.job.say(f"{self.name}: {self.plan.selection}")
        for warning in self.job.environment.warnings:
            self.job.say(warning)
        also_reported = self.context.verifier.beside
        if also_reported:
            self.job.say(
                f"{self.name}: reward comes from the benchmark's scorer; also reported: {', '.join(also_reported)}. "
                "To use one of these as the reward set scoring.primary, or include_defaults: false"
            )

    async def decide_reuse(self) -> ReusePlan:
        """Decide for every step what is reused, after copying answers from archived runs."""
        if not self.job.resume:
            return self.context.reuse
        past_journals = [] if self.history.fresh else previous_journals(self.task)
        adopted = adopt_answers(self.context, past_journals, self.plan)
        if adopted:
            answers = counted(adopted, "reusable answer")
            folder = self.task.root / PREVIOUS
            self.job.say(f"{self.name}: found {answers} from earlier runs in {folder}/")
        return await Reuse(self.context, self.history).decide(self.plan)

    async def check_judges(self) -> dict[str, JudgeCheck]:
        """Check the judges before any step runs."""
        verifier = self.context.verifier
        if not verifier.judged:
            return {}
        scopes = self.context.scopes
        scope = CallScope(
            "canary",
            self.name,
            budgets=scopes.budgets,
            interrupted=scopes.interrupted,
            health=scopes.health,
        )
        token = call_scope.set(scope)
        try:
            with boundary(Cause.SEED):
                first_problem = await self.job.environment.seed(self.plan.problems[0])
            return await verifier.check_judges(first_problem)
        finally:
            call_scope.reset(token)

    def opening_record(self) -> SessionRecord:
        """Return the record that marks the start of a session in the journal."""
        record: SessionRecord = {
            "kind": RUN,
            "at": round(time.time(), 3),
            "fingerprints": self.context.prints.parts,
        }
        if self.canaries:
            record["canaries"] = self.canaries
        if self.job.fresh:
            record["fresh"] = True
        if self.job.stop_rule is not None:
            # The rule inspects scores until the planned end, which a later session with another end must know.
            record["looked_at"] = self._planned_end
        return record

    def elapsed(self) -> float:
        """Return the seconds of all sessions that had work to do."""
        has_worked = self.tally.done > self.tally.reused
        own_seconds = time.monotonic() - self.started if has_worked else 0.0
        return self.history.elapsed + own_seconds

    def recorded_config(self, reuse: ReusePlan) -> JsonDict:
        """Return the settings that the bundle records."""
        config: JsonDict = {"benchmark": self.name} | self.job.config
        config |= {"repeats": self.plan.repeats, "max_problems": self.job.max_problems}
        config |= self.plan.describe()
        config |= {
            "reward_from": self.context.verifier.reward_from,
            "min_coverage": self.job.min_coverage,
        }
        if self.job.environment.full_rows:
            config["rows"] = "full"
        if self.context.verifier.compares_target:
            config["compares_target"] = True
        config["fingerprints"] = self.context.prints.parts
        if self.job.resume:
            reused = reuse.count(REUSE, self.plan)
            config["resumed"] = {"reused": reused, "reasons": dict(reuse.reasons)}
        return config

    def stop_facts(self) -> StoppedEntry | None:
        """Return why and how the run ended early, and the result of its stop rule; None if neither applies."""
        facts: StoppedEntry = {}
        if self.halt.kind:
            facts = {"kind": self.halt.kind, "reason": self.halt.reason}
        if isinstance(self.halt.error, BoundaryError):
            facts["cause"] = self.halt.error.cause
        if self.stopped_by_rule and self.job.stop_rule is not None:
            facts = {"kind": HaltKind.RULE, "reason": self.job.stop_rule.reason}
        if self.job.stopped_before is not None:
            return self.job.stopped_before | facts
        rule = self._rule_facts()
        if rule:
            facts["rule"] = rule
        return facts or None

    def _rule_facts(self) -> RuleEntry:
        """Return what the stop rule did in this or an earlier session: inspecting results early cannot be undone."""
        rule = self.job.stop_rule
        facts: RuleEntry = {"moved_from": self.moved_ends} if self.moved_ends else {}
        if rule is None:
            if not self.history.looked_at:
                return {}
            return facts | {"note": "an earlier session of this run had a rule"}
        summary = rule.summary(ended=self.halt.kind is None and not self.moved_ends)
        facts = {
            **facts,
            **summary,
            "planned": len(self.plan.problems),
            "saved_share": 0.0,
        }
        stop = self.context.stop
        if self.stopped_by_rule and stop is not None:
            unused = unused_answers(
                self.plan, stop.problems, self.context.index, journal=self.journal
            )
            steps = stop.problems * self.plan.repeats + unused["answers"]
            facts["unused"] = unused
            facts["saved_share"] = round(max(0.0, 1 - steps / len(self.plan)), 4)
        return facts
