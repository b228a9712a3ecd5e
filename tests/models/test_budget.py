"""Budgets: reserved before, settled after, ended within one call of the limit."""

from __future__ import annotations

import asyncio

import pytest

from nemo_evaluator.core.errors import EXIT_BUDGET, BudgetError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.models import CallScope, Price, call_scope
from nemo_evaluator.models.budget import Budget, BudgetExhausted
from nemo_evaluator.testing import Say

HELLO = [{"role": "user", "content": "hello"}]
CALL = Say("x", delay=0.01, usage={"prompt_tokens": 1000, "completion_tokens": 500})
PRICE = Price(1.0, 4.0)
COST = (1000 * 1.0 + 500 * 4.0) / 1e6


async def _spend(client, budgets, count, width):
    done, ended = [], []
    numbers = iter(range(count))

    async def worker():
        call_scope.set(CallScope("s", budgets=tuple(budgets)))
        for number in numbers:
            try:
                done.append(
                    (await client.chat([{"role": "user", "content": str(number)}])).cost_usd
                )
            except (BudgetExhausted, BudgetError) as error:
                ended.append(error)
                return

    await asyncio.gather(*(asyncio.create_task(worker()) for _ in range(width)))
    return done, ended


@pytest.mark.parametrize("width", [1, 8, 64])
async def test_money_ends_within_one_call_of_the_limit(asked, width):
    budget = Budget("run", usd=0.1)
    async with asked(CALL, price=PRICE, max_concurrent=width) as (client, server):
        done, ended = await _spend(client, [budget], 500, width)
    assert 0.1 - COST < budget.spent()["usd"] <= 0.1
    assert len(done) == server.count == round(budget.spent()["usd"] / COST)
    assert len(ended) == width
    assert ended[0].exit_code == EXIT_BUDGET
    assert "0.1 USD" in ended[0].message
    assert "--resume" in ended[0].hint
    assert budget.ended == "0.1 USD"


async def test_tokens_requests_and_minutes(asked):
    for limits, calls in (
        ({"tokens": 10_000}, 6),
        ({"requests": 7}, 7),
        ({"minutes": 0.0005}, None),
    ):
        budget = Budget("run", **limits)
        async with asked(CALL, max_concurrent=16) as (client, server):
            _, ended = await _spend(client, [budget], 300, 16)
        assert ended
        if calls is not None:
            assert server.count == calls, limits
        else:
            assert 0 < server.count < 300


async def test_retries_count_as_requests(asked):
    budget = Budget("run", requests=5)
    async with asked([Say(status=500), CALL, Say(status=500), CALL, CALL]) as (client, server):
        await _spend(client, [budget], 9, 1)
    assert budget.spent()["requests"] == server.count == 5


async def test_a_step_budget_is_a_budget_of_the_task(asked):
    run, step = Budget("run", usd=1.0), Budget("step", requests=2, step=True)
    async with asked(CALL, price=PRICE) as (client, _):
        done, ended = await _spend(client, [run, step], 9, 1)
    assert len(done) == 2
    assert type(ended[0]) is BudgetError
    assert run.ended is None
    assert run.spent()["usd"] == pytest.approx(2 * COST)
    # The refused call gave its reservation back.
    assert not any(account.reserved for account in run._accounts)


async def test_money_without_a_price_is_refused(asked):
    async with asked(CALL) as (client, server):
        call_scope.set(CallScope("s", budgets=(Budget("run", usd=1.0),)))
        with pytest.raises(BudgetExhausted, match="needs the price of service 'svc'") as raised:
            await client.chat(HELLO)
    assert "price:" in raised.value.hint
    assert server.count == 0


async def test_a_server_that_does_not_count_is_estimated(asked):
    budget = Budget("run", tokens=2000)
    async with asked(Say("word " * 200, usage={})) as (client, server):
        await _spend(client, [budget], 100, 2)
    assert 1000 < budget.spent()["tokens"] <= 2000
    assert server.count < 20


async def test_earlier_spending_counts():
    budget = Budget("run", usd=1.0, requests=10)
    budget.resume(usd=0.4, requests=10)
    with pytest.raises(BudgetExhausted, match="10 requests"):
        await budget.reserve()
    assert budget.spent()["usd"] == 0.4


def test_the_boundary_lets_it_through_as_cancelled():
    with pytest.raises(BudgetExhausted) as raised, boundary(Cause.SCORER):
        raise BudgetExhausted("done")
    assert raised.value.cause is Cause.CANCELLED


async def test_streams_are_settled(asked):
    budget = Budget("run", usd=1.0)
    async with asked(CALL, price=PRICE, extra_body={"stream": True}) as (client, _):
        await _spend(client, [budget], 3, 1)
    assert budget.spent()["usd"] == pytest.approx(3 * COST)
