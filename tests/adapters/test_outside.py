"""A session's key is worth nothing outside of its attempt."""

from __future__ import annotations

import aiohttp

from nemo_evaluator.adapters.outside import AgentProxy
from nemo_evaluator.core.types import ModelAccess
from nemo_evaluator.models import CallScope, Endpoint
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.testing import ScriptedServer


async def ask(access: ModelAccess, url: str | None = None) -> int:
    body = {"model": access.model, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"Authorization": f"Bearer {access.api_key.reveal()}"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url or access.url}/chat/completions", json=body, headers=headers) as reply,
    ):
        await reply.read()
        return reply.status


async def test_a_key_opens_its_own_session_while_it_lasts() -> None:
    async with ScriptedServer("hello") as server:
        door = AgentProxy(Endpoint(name="m", url=server.url, model="m"))
        await door.start()
        try:
            with door.session(CallScope("one")) as one, door.session(CallScope("two")) as two:
                assert await ask(one.access) == await ask(two.access) == 200
                assert await ask(one.access, two.access.url) == 403
                assert (len(one.calls), len(two.calls)) == (1, 1)
                assert one.access.api_key.reveal() not in repr(one.access)
            assert await ask(one.access) == 403
            assert server.count == 2
        finally:
            await door.close()


async def test_the_usage_of_a_session_is_the_sum_of_its_calls_and_its_budget_ends_it() -> None:
    async with ScriptedServer("hello") as server:
        door = AgentProxy(Endpoint(name="m", url=server.url, model="m"))
        await door.start()
        try:
            budget = Budget("step", requests=2, step=True)
            with door.session(CallScope("one", budgets=(budget,))) as one:
                assert [await ask(one.access) for _ in range(3)] == [200, 200, 429]
                usage = one.usage()
                assert usage is not None and usage.content == "hello"
                assert (
                    usage.prompt_tokens
                    == sum(reply.prompt_tokens or 0 for _, reply in one.calls)
                    > 0
                )
                assert one.spent == "2 requests"
        finally:
            await door.close()
