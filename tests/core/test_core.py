"""The ground floor: secrets, registry, hashing, boundaries, slots, files, the policy table."""

import asyncio
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator import core
from nemo_evaluator.core.errors import (
    ERROR_OF_CAUSE,
    BudgetError,
    ConfigError,
    MissingExtraError,
    NelError,
    Problem,
    RateLimitError,
    ScorerError,
    UsageError,
    boundary,
)
from nemo_evaluator.core.failures import POLICY, Cause, RowOutcome
from nemo_evaluator.core.files import iter_jsonl, safe_name, write_atomic
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.registry import Registry, did_you_mean, load_object
from nemo_evaluator.core.secrets import Secret, scrub
from nemo_evaluator.core.slots import Slots, current_slots, lent_slot

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("sk-0123456789")
    assert "sk-" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "sk-0123456789"
    assert scrub("Bearer sk-0123456789!") == "Bearer ***!"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


@pytest.mark.parametrize(
    "error",
    [
        UsageError("no", hint="yes"),
        MissingExtraError("Ray", extra="ray"),
        ConfigError([Problem("a.b", "is wrong")], source="c.yaml"),
        RateLimitError("slowly", retry_after=3.0),
    ],
)
def test_errors_travel_between_processes(error: NelError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message, vars(again)) == (type(error), error.message, vars(error))


def test_the_registry_loads_lazily_suggests_and_refuses_collisions() -> None:
    registry: Registry[object] = Registry("thing")
    registry.add("path", "pathlib:Path")
    assert registry.get("path") is Path
    with pytest.raises(UsageError) as missed:
        registry.get("pahts")
    assert missed.value.hint == "did you mean 'path'?"
    with pytest.raises(UsageError, match="registered twice"):
        registry.add("path", "pathlib:PurePath")


@pytest.mark.parametrize("target", ["nothing", "no_such_module:x", "pathlib:NoSuchName"])
def test_a_target_that_cannot_be_loaded_is_a_usage_error(target: str) -> None:
    with pytest.raises(UsageError):
        load_object(target)


@given(JSON)
def test_equal_values_have_equal_digests_whatever_the_order_of_keys(value: object) -> None:
    shuffled = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert digest(value) == digest(shuffled)
    assert digest([value]) != digest([value, 1])


def test_every_cause_has_a_policy_and_an_error() -> None:
    assert POLICY.keys() == set(Cause)
    assert ERROR_OF_CAUSE.keys() == set(Cause) - {Cause.CANCELLED}
    assert {cause for cause, policy in POLICY.items() if policy.row is RowOutcome.ZERO} == {
        Cause.CONTEXT_EXCEEDED
    }


def test_a_boundary_names_what_escapes_and_lets_named_errors_pass() -> None:
    with (
        pytest.raises(ScorerError, match="ZeroDivisionError: division by zero"),
        boundary(Cause.SCORER),
    ):
        _ = 1 / 0
    with pytest.raises(BudgetError), boundary(Cause.SCORER):
        raise BudgetError("spent")
    with pytest.raises(asyncio.CancelledError), boundary(Cause.SCORER):
        raise asyncio.CancelledError


async def test_a_lent_slot_lets_another_work() -> None:
    slots, order = Slots(1), []

    async def waits() -> None:
        await slots.acquire()
        order.append("first")
        async with lent_slot():
            await asyncio.sleep(0.02)
        order.append("first again")
        slots.release()

    async def works() -> None:
        await slots.acquire()
        order.append("second")
        slots.release()

    current_slots.set(slots)
    await asyncio.gather(waits(), works())
    assert order == ["first", "second", "first again"]


async def test_a_cancelled_waiter_does_not_swallow_a_slot() -> None:
    slots = Slots(1)
    await slots.acquire()
    waiter = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    slots.release()
    await asyncio.wait_for(slots.acquire(), 1)


@given(st.text())
def test_safe_names_are_safe(name: str) -> None:
    safe = safe_name(name)
    assert "/" not in safe
    assert safe not in (".", "..", "")


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":2')
    assert list(iter_jsonl(path)) == [{"a": 1}]


def test_an_atomic_write_leaves_no_litter(tmp_path: Path) -> None:
    write_atomic(tmp_path / "x", "one")
    write_atomic(tmp_path / "x", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "two"


async def test_cancelling_everybody_at_once_leaves_nobody_behind() -> None:
    slots = Slots(1)
    await slots.acquire()
    waiters = [asyncio.create_task(slots.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    slots.release()
    done = await asyncio.gather(*waiters[:2], return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1] is None
    waiters[2].cancel()
    await asyncio.gather(waiters[2], return_exceptions=True)


def test_one_hint_for_a_misspelt_word() -> None:
    assert did_you_mean("gsm8", ["mmlu", "gsm8k"]) == "did you mean 'gsm8k'?"
    assert did_you_mean("xyz", ["mmlu", "gsm8k"]) == "known: mmlu, gsm8k"
    assert did_you_mean("xyz", []) == "known: none"
    assert did_you_mean("xyz", ["mmlu"], "ask again") == "ask again"
    assert (
        did_you_mean("mmul", ["mmlu"], also="all: mmlu", form="{}://")
        == "did you mean mmlu://? all: mmlu"
    )
    assert did_you_mean("xyz", ["mmlu"], also="all: mmlu") == "all: mmlu"


def test_the_hint_is_written_in_one_place() -> None:
    """Sentences that name something else than a word of a list may differ: a path, a variable, a command."""
    package = Path(core.__file__).parents[1]
    found = {
        path.stem
        for path in package.rglob("*.py")
        if re.search(r'f".*[Dd]id you mean', path.read_text())
    }
    assert found == {"registry", "_yaml", "_references", "_errors", "main"}
