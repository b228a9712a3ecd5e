"""What a client sends and what it reads."""

from __future__ import annotations

import asyncio

import pytest

from nemo_evaluator.models import CallScope, Endpoint, Price, call_scope
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.testing import Say

HELLO = [{"role": "user", "content": "hello"}]


async def test_chat_sends_messages_and_merged_generation(asked):
    async with asked("hi there", generation={"temperature": 0.7, "top_p": 0.9}) as (client, server):
        response = await client.chat(
            HELLO, generation={"temperature": 0.0, "max_tokens": None, "seed": 5}
        )
    assert response.content == "hi there"
    sent = server.requests[0].body
    assert sent == {"model": "m", "temperature": 0.0, "top_p": 0.9, "seed": 5, "messages": HELLO}
    assert response.request_body == sent
    assert response.finish_reason == "stop"
    assert response.attempts == 1
    assert response.latency_ms > 0
    assert response.total_tokens == response.prompt_tokens + response.completion_tokens


async def test_extra_body_wins_and_extra_headers_are_sent(asked):
    settings = {
        "extra_body": {"top_k": 3, "temperature": 1.0},
        "extra_headers": {"X-Team": "eval", "Host": "evil"},
    }
    async with asked("ok", generation={"temperature": 0.0}, **settings) as (client, server):
        await client.chat(HELLO)
    seen = server.requests[0]
    assert seen.body["top_k"] == 3
    assert seen.body["temperature"] == 1.0
    assert seen.headers["x-team"] == "eval"
    assert seen.headers["host"].startswith("127.0.0.1")


@pytest.mark.parametrize(
    ("say", "content", "reasoning"),
    [
        (Say("42", reasoning="six times seven"), "42", "six times seven"),
        (Say("42", reasoning="r", reasoning_field="reasoning"), "42", "r"),
        (Say("<think>\nsix\n</think>\n\n42"), "42", "six"),
        (Say("six</think>42"), "42", "six"),
        (Say("<think>never closed"), "<think>never closed", None),
        (
            Say("The tag is written <think>x</think> like this"),
            "The tag is written <think>x</think> like this",
            None,
        ),
        (Say("plain"), "plain", None),
    ],
)
async def test_reasoning_is_kept_apart(asked, say, content, reasoning):
    async with asked(say) as (client, _):
        response = await client.chat(HELLO)
    assert (response.content, response.reasoning_content) == (content, reasoning)


async def test_reasoning_pattern_is_cut_out_of_every_protocol(asked):
    for protocol in ("chat_completions", "completions"):
        async with asked(
            "[[why\nso]] 42 ", protocol=protocol, reasoning_pattern=r"\[\[.*?\]\]"
        ) as (client, _):
            response = await client.complete("q")
        assert response.content == "42"
        assert response.reasoning_content == "[[why\nso]]"


async def test_tool_calls_are_parsed_and_bad_arguments_kept(asked):
    calls = [
        {"id": "a", "name": "add", "arguments": {"x": 1}},
        {"id": "b", "name": "say", "arguments": "{not json"},
        {"id": "c", "name": "none", "arguments": ""},
    ]
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    async with asked(Say("", tool_calls=calls, finish_reason="tool_calls")) as (client, server):
        response = await client.chat(HELLO, tools=[tool])
    assert server.requests[0].body["tools"] == [tool]
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [
        ("a", "add", {"x": 1}),
        ("b", "say", {"raw": "{not json"}),
        ("c", "none", {}),
    ]
    assert response.content == ""


async def test_completions_send_a_prompt(asked):
    async with asked("so on", protocol="completions", generation={"max_tokens": 9}) as (
        client,
        server,
    ):
        response = await client.complete("once upon", {"stop": ["\n"]})
        chatted = await client.chat([{"role": "system", "content": "be brief"}, *HELLO])
    assert response.content == chatted.content == "so on"
    assert server.requests[0].path == "/v1/completions"
    assert server.requests[0].body == {
        "model": "m",
        "max_tokens": 9,
        "stop": ["\n"],
        "prompt": "once upon",
    }
    assert server.requests[1].body["prompt"] == "be brief\n\nhello"


async def test_completions_refuse_chat_template_switches(asked, monkeypatch):
    from nemo_evaluator.core.errors import RequestRejectedError

    switch = {"chat_template_kwargs": {"enable_thinking": False}}
    async with asked("x", protocol="completions") as (client, server):
        with pytest.raises(RequestRejectedError, match="chat template") as raised:
            await client.complete("q", switch)
        assert "chat_completions" in raised.value.hint
        assert server.count == 0
        await client.complete("q", {"chat_template_kwargs": {"level": 1}})
        assert "chat_template_kwargs" not in server.requests[-1].body
        monkeypatch.setenv("NEMO_EVALUATOR_ALLOW_COMPLETIONS_CHAT_TEMPLATE", "1")
        await client.complete("q", switch)
        assert server.requests[-1].body["chat_template_kwargs"] == {"enable_thinking": False}


async def test_usage_details_and_cost(asked):
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 500,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 300},
    }
    async with asked(Say("x", usage=usage), price=Price(2.0, 10.0, 1.0)) as (client, _):
        response = await client.chat(HELLO)
    assert (response.total_tokens, response.reasoning_tokens, response.cached_tokens) == (
        1500,
        300,
        400,
    )
    assert response.cost_usd == pytest.approx((600 * 2.0 + 400 * 1.0 + 500 * 10.0) / 1e6)


async def test_without_a_price_there_is_no_cost(asked):
    async with asked("x") as (client, _):
        assert (await client.chat(HELLO)).cost_usd is None


async def test_embed_is_sorted_by_index(asked):
    async with asked("x") as (client, _):
        vectors = await client.embed(["a", "bbb"])
    assert vectors == [[1.0, 0.0], [3.0, 1.0]]


async def test_a_query_in_the_url_stays_and_odd_paths_are_quoted():
    from nemo_evaluator.models import Client
    from nemo_evaluator.testing import ScriptedServer

    async with ScriptedServer("ok") as server:
        url = f"{server.root}/deployments/my model/chat/completions?api-version=2024-02-01"
        async with Client(Endpoint("svc", url)) as client:
            assert (await client.chat(HELLO)).content == "ok"
    assert client.endpoint.url.endswith("/my model?api-version=2024-02-01")
    assert server.requests[0].path == "/deployments/my%20model/chat/completions"


def test_header_lines_cannot_be_smuggled_in():
    from nemo_evaluator.core.errors import UsageError
    from nemo_evaluator.models.http.request_head import RequestHeads

    with pytest.raises(UsageError, match="line break"):
        RequestHeads(Endpoint("svc", "http://h/v1", extra_headers={"X-A": "1\r\nX-B: 2"}))


@pytest.mark.parametrize("host", ["127.0.0.1:80", "[::1]:8080", "bücher.example", "a_b.example:1"])
def test_hosts_are_written_as_they_must(host):
    from nemo_evaluator.models import ModelRequest
    from nemo_evaluator.models.http.request_head import RequestHeads

    head = RequestHeads(Endpoint("svc", f"http://{host}/v1")).request(
        ModelRequest("/chat/completions", {}), b"{}"
    )
    wanted = host.encode("idna") if host.isascii() else b"xn--bcher-kva.example"
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nhost: " + wanted + b"\r\n")
    assert head.endswith(b"content-length: 2\r\n\r\n{}")


def test_description_is_free_of_ports_and_keys():
    one = Endpoint("svc", "http://127.0.0.1:1111/v1/chat/completions", model="m", max_concurrent=3)
    two = Endpoint("other", "http://127.0.0.1:2222/v1", model="m")
    assert one.url == "http://127.0.0.1:1111/v1"
    assert one.describe() == two.describe()
    assert Endpoint("svc", two.url, model="m", generation={"seed": 1}).describe() != one.describe()


async def test_latency_is_the_servers_and_the_queue_is_ours(asked):
    async with asked(Say("ok", delay=0.3), max_concurrent=2) as (client, _):
        replies = await asyncio.gather(*(client.chat(HELLO) for _ in range(6)))
    assert all(290 <= reply.latency_ms < 550 for reply in replies)
    waited = sorted(reply.queue_ms for reply in replies)
    assert waited[0] == 0
    assert waited[-1] > 500


async def test_a_wait_for_the_budget_is_queue_time(asked):
    token = call_scope.set(CallScope(budgets=(Budget("run", tokens=1000),)))
    async with asked(Say("ok", delay=0.2)) as (client, _):
        replies = await asyncio.gather(client.chat(HELLO), client.chat(HELLO))
    call_scope.reset(token)
    assert all(reply.latency_ms < 350 for reply in replies)
    assert max(reply.queue_ms for reply in replies) > 150


async def test_the_time_of_a_stream_ends_with_its_last_byte(asked):
    async with asked(Say("a b c d", chunk_delay=0.05)) as (client, _):
        reply = await client.chat(HELLO, generation={"stream": True})
    assert reply.time_to_first_token_ms < 200 < reply.latency_ms
