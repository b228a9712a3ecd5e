"""A run that a rule may end: the same end whatever the latency, the concurrency or the interruption."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.types import SeedResult, SolveResult
from nemo_evaluator.engine.evaluation import Finished, evaluate
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.plan import make_plan
from nemo_evaluator.statistics import ENDED, STOPPED, Baseline, StopRule, spending_of
from nemo_evaluator.store.fingerprints import problem_hash

SIZE = 400
OURS = {"latency_ms", "queue_ms", "timing", "timestamp", "attempts"}


class Uneven:
    """Right answers are slow and wrong ones quick, or the other way round; some may fail."""

    def __init__(
        self, right: Callable[[int], bool], delay: Callable[[bool], float] | None = None
    ) -> None:
        self.right, self.delay = right, delay
        self.fails: set[int] = set()
        self.asked: list[int] = []

    async def solve(self, task: SeedResult) -> SolveResult:
        number = int(task.expected_answer) // 2
        self.asked.append(number)
        good = self.right(number)
        if self.delay is not None:
            await asyncio.sleep(self.delay(good))
        if number in self.fails:
            raise TransportError("gone", attempts=10)
        return SolveResult(response=task.expected_answer if good else "no idea")

    def describe(self) -> dict[str, Any]:
        return {}


def most(number: int) -> bool:
    """Right on 70 of 100, in no order."""
    return random.Random(number).random() < 0.7


async def baseline(sums: Any, right: Callable[[int], bool], max_drop: float = 0.1) -> Baseline:
    rewards = {
        problem_hash(await sums.seed(number)): float(right(number)) for number in range(sums.size)
    }
    return Baseline(rewards, max_drop, "base")


class Case:
    """One job, run again and again with changes."""

    def __init__(self, sums: Any, solver: Uneven, folder: Path) -> None:
        sums.size = SIZE
        self.sums, self.solver, self.folder = sums, solver, folder

    async def run(self, rule: StopRule | None, *, task: str = "task", **changes: Any) -> Finished:
        job = Evaluation(
            self.sums,
            self.solver,
            self.folder / task,
            shuffle_seed=3,
            stop_rule=rule,
            max_concurrent=16,
        )
        return await evaluate(replace(job, **changes))

    def rows(self, task: str = "task") -> list[dict[str, Any]]:
        found = iter_jsonl(self.folder / task / "results.jsonl")
        return [{key: value for key, value in row.items() if key not in OURS} for row in found]


@pytest.fixture
def case(sums: Any, tmp_path: Path) -> Case:
    return Case(sums, Uneven(most), tmp_path)


def narrow() -> StopRule:
    return StopRule(interval_width=0.25)


def scores(finished: Finished) -> dict[str, Any]:
    bench: dict[str, Any] = dict(finished.bundle["benchmark"])
    return {
        key: bench[key]
        if key != "scores"
        else {k: v for k, v in bench[key].items() if k != "runtime"}
        for key in bench
    }


async def test_the_end_is_that_of_the_plan_whatever_the_latency(case: Case) -> None:
    one = await case.run(narrow(), task="one", max_concurrent=1)
    used = one.bundle["stopped"]["rule"]["problems"]
    assert 50 < used < 300
    for number, slow in enumerate((True, False)):
        rng = random.Random(number)
        case.solver.delay = lambda good, slow=slow, rng=rng: (
            rng.random() * (0.02 if good is slow else 0.0005)
        )
        many = await case.run(narrow(), task=f"many{number}", max_concurrent=48)
        assert many.bundle["stopped"]["rule"]["problems"] == used
        assert case.rows(f"many{number}") == case.rows("one")
        assert scores(many) == scores(one)


async def test_what_was_under_way_is_kept_and_not_counted(case: Case) -> None:
    case.solver.delay = lambda _: random.random() * 0.005
    rule = StopRule(baseline=await baseline(case.sums, lambda _: False))
    finished = await case.run(rule, max_concurrent=32)
    stopped = finished.bundle["stopped"]
    used, unused = stopped["rule"]["problems"], stopped["rule"]["unused"]["answers"]
    asked = len(case.solver.asked)
    assert used < asked <= used + 4 * 32, "no more than the slots hold is asked in vain"
    assert used + unused == asked, "what was asked is answered and told"
    assert stopped["rule"]["saved_share"] == pytest.approx(1 - asked / SIZE, abs=1e-4)
    assert len(case.rows()) == finished.bundle["n_results"] == used
    assert finished.bundle["validity"]["status"] == "VALID"
    assert finished.bundle["benchmark"]["coverage"] == {
        "planned": used,
        "scored": used,
        "failed": 0,
        "share": 1.0,
    }
    # Without the rule the run goes on, and pays for none of it twice.
    whole = await case.run(None, resume=True)
    assert sorted(case.solver.asked) == list(range(SIZE))
    assert whole.bundle["benchmark"]["coverage"]["share"] == 1.0
    # Whoever has looked cannot take it back, however often the run is taken up again.
    for again in (whole, await case.run(None, resume=True)):
        assert spending_of(again.bundle["stopped"]) == ENDED
        assert again.bundle["benchmark"]["scores"]["pass@1"]["ci_method"] == "wilson+betting"


async def test_an_interrupted_run_stops_where_the_whole_one_does(case: Case) -> None:
    whole = await case.run(narrow(), task="whole")
    used = whole.bundle["stopped"]["rule"]["problems"]
    for at in (5, used - 3):
        case.solver.asked.clear()
        halt, right = Halt(), case.solver.right

        def answer(number: int, at: int = at, halt: Halt = halt, right: Any = right) -> bool:
            if len(case.solver.asked) == at:
                halt.set(HaltKind.INTERRUPT, "interrupted", drain=1.0)
            return bool(right(number))

        case.solver.right = answer
        first = await case.run(narrow(), task=f"cut{at}", halt=halt, max_concurrent=4)
        stopped = first.bundle["stopped"]
        assert first.halt.kind is HaltKind.INTERRUPT
        # The last answers on their way may still decide.
        assert (stopped["kind"] == "rule") is stopped["rule"]["stopped"]
        assert at > 5 or not stopped["rule"]["stopped"]
        case.solver.right = right
        again = await case.run(narrow(), task=f"cut{at}", resume=True)
        assert again.bundle["stopped"]["rule"]["problems"] == used
        assert again.bundle["stopped"]["reason"] == whole.bundle["stopped"]["reason"]
        assert case.rows(f"cut{at}") == case.rows("whole")
        assert scores(again) == scores(whole)
        # Nothing more is asked of a run that has been decided.
        asked = len(case.solver.asked)
        third = await case.run(narrow(), task=f"cut{at}", resume=True)
        assert len(case.solver.asked) == asked
        assert scores(third) == scores(whole)


async def test_failures_delay_the_end_and_resuming_them_brings_it_back(case: Case) -> None:
    whole = await case.run(narrow(), task="whole")
    used = whole.bundle["stopped"]["rule"]["problems"]
    order = [row["problem_idx"] for row in case.rows("whole")]
    case.solver.fails = set(order[10:20:5])
    broken = await case.run(narrow())
    rule = broken.bundle["stopped"]["rule"]
    assert rule["failed_answers"] == 2
    assert rule["problems"] > used, "a failure is no evidence"
    assert broken.bundle["benchmark"]["coverage"]["failed"] == 2
    case.solver.fails = set()
    mended = await case.run(narrow(), resume=True)
    assert mended.bundle["stopped"]["rule"]["problems"] == used
    assert scores(mended) == scores(whole)
    assert case.rows() == case.rows("whole")


async def test_it_does_not_stop_where_it_would_be_invalid(case: Case) -> None:
    case.solver.fails = set(make_plan(SIZE, shuffle_seed=3).problems[:6])
    loose = await case.run(StopRule(interval_width=0.5), task="loose")
    assert loose.bundle["validity"]["status"] == "INVALID"
    careful = await case.run(StopRule(interval_width=0.5, min_coverage=0.95), task="careful")
    assert careful.bundle["validity"]["status"] == "VALID"
    assert careful.bundle["stopped"]["rule"]["problems"] == 120


async def test_repeats_count_as_one_problem(case: Case) -> None:
    finished = await case.run(StopRule(interval_width=0.3), repeats=3)
    used = finished.bundle["stopped"]["rule"]["problems"]
    assert len(case.rows()) == 3 * used
    assert finished.bundle["benchmark"]["coverage"]["planned"] == 3 * used
    for name, score in finished.bundle["benchmark"]["scores"].items():
        if name.startswith("pass"):
            assert score["ci_method"].endswith("betting"), name


async def test_a_stopped_run_shows_the_interval_that_it_was_stopped_for(case: Case) -> None:
    case.solver.right = lambda number: number % 20 != 0
    finished = await case.run(StopRule(interval_width=0.2))
    shown = finished.bundle["benchmark"]["scores"]["pass@1"]
    rule = finished.bundle["stopped"]["rule"]
    assert shown["ci_method"] == "betting"
    assert shown["ci_upper"] - shown["ci_lower"] <= 0.2
    assert shown["ci_lower"] == pytest.approx(rule["score"]["ci_lower"], abs=1e-6)
    categories = finished.bundle["benchmark"]["categories"].values()
    assert {entry["ci_method"] for entry in categories} == {"betting"}


async def test_enough_problems_for_any_score_are_a_planned_end(case: Case) -> None:
    rule = narrow()
    finished = await case.run(rule)
    stopped = finished.bundle["stopped"]
    assert stopped["rule"]["problems"] == rule.enough
    assert (
        stopped["reason"]
        == f"{rule.enough} problems make the interval at most 0.25 wide at any score"
    )
    shown = finished.bundle["benchmark"]["scores"]["pass@1"]
    assert shown["ci_method"] == "wilson+betting"
    assert shown["ci_upper"] - shown["ci_lower"] <= 0.25
    # The look that was kept for this end is gone: a narrower one is looked for by looking alone.
    tighter = StopRule(interval_width=0.2)
    again = await case.run(tighter, resume=True)
    assert again.bundle["stopped"]["rule"]["moved_from"] == [rule.enough]
    shown = again.bundle["benchmark"]["scores"]["pass@1"]
    assert shown["ci_method"] == "betting"
    assert shown["ci_upper"] - shown["ci_lower"] <= 0.2


async def test_decided_against_a_baseline(case: Case) -> None:
    base = await baseline(case.sums, most)
    same = await case.run(StopRule(baseline=base))
    assert same.bundle["stopped"]["reason"] == "not worse than base by more than 0.1: proved"
    case.solver.right = lambda number: number % 3 == 0
    worse = await case.run(StopRule(baseline=base), task="worse")
    assert worse.bundle["stopped"]["reason"] == "worse than base by more than 0.1: proved"
    assert (
        worse.bundle["stopped"]["rule"]["difference"]["paired"]
        == worse.bundle["stopped"]["rule"]["problems"]
    )


async def test_a_run_that_gets_to_its_end_takes_the_last_look(case: Case) -> None:
    case.solver.right = lambda number: most(number) if number % 14 else not most(number)
    finished = await case.run(StopRule(baseline=await baseline(case.sums, most, 0.05)))
    stopped = finished.bundle["stopped"]
    assert "kind" not in stopped
    assert stopped["rule"]["planned"] == stopped["rule"]["problems"] == SIZE
    assert stopped["rule"]["saved_share"] == 0.0
    assert stopped["rule"]["decision"] == "not worse than base by more than 0.05: proved"
    assert finished.bundle["benchmark"]["scores"]["pass@1"]["ci_method"] == "wilson+betting"


async def test_an_end_by_other_means_is_no_planned_end(case: Case) -> None:
    halt = Halt()
    case.solver.right = lambda number: (
        (len(case.solver.asked) == 60 and halt.set(HaltKind.BUDGET, "spent", drain=1.0))
        or most(number)
    )
    rule = StopRule(baseline=await baseline(case.sums, most, 0.1))
    finished = await case.run(rule, halt=halt, max_concurrent=4)
    assert finished.bundle["stopped"]["kind"] == "budget"
    assert rule.summary(ended=True)["decision"], "the last look, were it due, would decide"
    assert spending_of(finished.bundle["stopped"]) == STOPPED
    assert finished.bundle["benchmark"]["scores"]["pass@1"]["ci_method"] == "betting"
    assert finished.bundle["stopped"]["rule"]["decision"] is None


async def test_whoever_moves_the_planned_end_has_had_the_last_look(case: Case) -> None:
    vain = {"interval_width": 0.001}
    first = await case.run(StopRule(**vain), max_problems=100)
    assert spending_of(first.bundle["stopped"]) == ENDED
    again = await case.run(StopRule(**vain), max_problems=100, resume=True)
    assert spending_of(again.bundle["stopped"]) == ENDED
    for rule in (StopRule(**vain), None):
        longer = await case.run(rule, max_problems=150, resume=True)
        assert longer.bundle["stopped"]["rule"]["moved_from"] == [100]
        assert spending_of(longer.bundle["stopped"]) == STOPPED
        assert longer.bundle["benchmark"]["scores"]["pass@1"]["ci_method"] == "betting"


async def test_a_slow_problem_does_not_let_the_rest_be_asked_in_vain(case: Case) -> None:
    slow = make_plan(SIZE, shuffle_seed=3).problems[20]
    done = asyncio.Event()

    class Straggler(Uneven):
        async def solve(self, task: SeedResult) -> SolveResult:
            if int(task.expected_answer) == 2 * slow:
                await done.wait()
            return await super().solve(task)

    case.solver = Straggler(most)
    asyncio.get_running_loop().call_later(0.5, done.set)
    finished = await case.run(StopRule(interval_width=0.4), max_concurrent=4)
    used = finished.bundle["stopped"]["rule"]["problems"]
    assert used < 100
    assert len(case.solver.asked) <= used + 3 * 4


async def test_many_old_answers_do_not_keep_the_failed_ones_from_being_asked(case: Case) -> None:
    order = make_plan(SIZE, shuffle_seed=3).problems
    case.solver.fails = {order[0], order[1], order[2]}
    await case.run(None)
    case.solver.fails, running, most_running = set(), 0, 0

    class Counted(Uneven):
        async def solve(self, task: SeedResult) -> SolveResult:
            nonlocal running, most_running
            running += 1
            most_running = max(most_running, running)
            await asyncio.sleep(0.05)
            running -= 1
            return await super().solve(task)

    case.solver = Counted(most)
    finished = await case.run(narrow(), resume=True, max_concurrent=3)
    assert finished.bundle["stopped"]["kind"] == "rule"
    assert sorted(case.solver.asked) == sorted(order[:3])
    assert most_running == 3, "all at once: what is held back was paid for long ago"
