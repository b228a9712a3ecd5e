"""The description of one benchmark run, and the state that its steps share within a process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.ordered_stop import OrderedStop
from nemo_evaluator.engine.plan import Plan, ReusePlan, Shard
from nemo_evaluator.engine.progress import Progress, SilentProgress
from nemo_evaluator.engine.scope import Scopes, StepLimits
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.engine.template import InstructionTemplate
from nemo_evaluator.engine.verify import Verifier
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.solvers.base import BoundSolver, bind_solver
from nemo_evaluator.store.fingerprints import RunFingerprints
from nemo_evaluator.store.index import StepIndex
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.records import turn_record

if TYPE_CHECKING:
    from nemo_evaluator.adapters.outside import AgentProxy
    from nemo_evaluator.models.budget import Budget
    from nemo_evaluator.sandbox.manager import SandboxManager
    from nemo_evaluator.statistics.stop_rule import StopRule
    from nemo_evaluator.store.bundle_document import StoppedEntry, ValueEntry

_log = logging.getLogger(__name__)
# Seconds that requests in flight get to finish after a stop rule or a budget ended the run: they are paid for.
DRAIN: Final = 60.0


@dataclass(slots=True)
class Evaluation:
    """Everything needed to run one benchmark; the suite fills it from the config, ``run_evaluation`` from arguments."""

    environment: EvalEnvironment
    solver: object
    task_dir: Path
    name: str = ""
    verifier: Verifier | None = None
    service: Mapping[str, Any] = field(default_factory=dict)
    solver_settings: JsonDict = field(default_factory=dict)
    config: JsonDict = field(default_factory=dict)
    repeats: int = 1
    max_problems: int | None = None
    shuffle_seed: int | None = None
    shard: Shard | None = None
    problem_range: tuple[int, int] | None = None
    # Problem indices, or prefixes of problem hashes.
    only: Sequence[int | str] | None = None
    max_concurrent: int = 32
    # How many steps may wait for batches at once.
    waiting: int = 0
    min_coverage: float = 0.95
    timeout: float | None = None
    max_system_retries: int = 3
    skip_failed: bool = False
    template: str | None = None
    sandboxes: SandboxManager | None = None
    # The proxy through which agents outside this process call the model; started with the first problem.
    door: AgentProxy | None = None
    # The same for the models that play roles in a benchmark that runs itself.
    role_doors: Mapping[str, Sequence[AgentProxy]] = field(default_factory=dict)
    resume: bool = False
    # Started over with --fresh: a later resume reuses nothing from the archived files.
    fresh: bool = False
    stop_rule: StopRule | None = None
    # The stop facts in the bundle of the run whose answers are reused: the plan ends where its stop rule ended it.
    stopped_before: StoppedEntry | None = None
    budgets: tuple[Budget, ...] = ()
    step_limits: StepLimits | None = None
    traffic: Callable[[JsonDict], None] | None = None
    halt: Halt | None = None
    # Number of processes that run the steps.
    workers: int = 1
    progress: Progress = field(default_factory=SilentProgress)
    # Receives messages about archived, reused and damaged files.
    say: Callable[[str], None] = _log.warning
    # Extra scores over all verdicts of a run (F1, agreement of judges, ...), computed once at the end.
    aggregate: Callable[[Path], dict[str, ValueEntry]] | None = None


def fingerprints_of(job: Evaluation) -> RunFingerprints:
    """Return the fingerprints of everything that a benchmark's answers and verdicts depend on."""
    scorer = verifier_of(job).fingerprint
    if job.environment.chosen_cluster:
        # Earlier outcomes do not have the cluster that the user names now.
        scorer = digest([scorer, job.environment.chosen_cluster])
    return RunFingerprints.of(
        service=job.service,
        solver=job.solver_settings,
        template=job.template,
        scorer=scorer,
    )


def verifier_of(job: Evaluation) -> Verifier:
    """Return the verifier of a job, creating one with the environment's own scorer if none is set."""
    job.verifier = job.verifier or Verifier(job.environment)
    return job.verifier


class StepContext:
    """State that the steps of a benchmark share within one process."""

    def __init__(
        self, job: Evaluation, plan: Plan, journal: Journal, halt: Halt, tally: Tally
    ) -> None:
        """Collect the shared state.

        Args:
            job: The benchmark.
            plan: Its steps.
            journal: Where records are appended.
            halt: The early stop of the benchmark.
            tally: Its running counts.
        """
        self.job = job
        self.environment = job.environment
        self.verifier = verifier_of(job)
        self.journal = journal
        self.halt = halt
        self.tally = tally
        self.index = StepIndex(plan.dataset_size, plan.repeats)
        self.prints = fingerprints_of(job)
        self.reuse = ReusePlan(plan.repeats, bytearray(plan.dataset_size * plan.repeats))
        self.stop: OrderedStop | None = None
        self.scopes = Scopes(
            job.name or job.environment.name,
            job.budgets,
            job.step_limits,
            traffic=job.traffic,
            interrupted=lambda: halt.interrupted,
            health=tally.health,
            keep_turn=lambda step, turn: journal.append(turn_record(step, turn)),
        )

    @cached_property
    def solver(self) -> BoundSolver:
        """The job's solver, bound to the interface that steps call."""
        return bind_solver(self.job.solver)

    @cached_property
    def template(self) -> InstructionTemplate | None:
        """The compiled instruction template, or None if the job has none."""
        if self.job.template:
            return InstructionTemplate(self.job.template)
        return None

    def ended(self, step: Step, problem: str, reward: float | None, *, fresh: bool = True) -> None:
        """Report the end of a step to the stop rule, and stop the benchmark if the rule decides so.

        Args:
            step: The step that ended.
            problem: Its problem.
            reward: Its reward; None if it failed.
            fresh: Whether the step ran in this session, rather than in an earlier one.
        """
        if (
            self.stop is not None
            and (reason := self.stop.ended(step, problem, reward, fresh=fresh)) is not None
        ):
            self.halt.set(HaltKind.RULE, reason, drain=DRAIN if fresh else 0.0)


async def open_steps(job: Evaluation) -> None:
    """Prepare the environment, the sandboxes and the agents' proxy before the first step."""
    await job.environment.prepare()
    if job.sandboxes is not None:
        await job.sandboxes.prepare(job.environment)
    if job.door is not None:
        await job.door.start()
    for doors in job.role_doors.values():
        for role_door in doors:
            await role_door.start()
