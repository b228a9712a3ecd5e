"""The official openai and anthropic clients, unmodified, through the proxy, whatever the service behind speaks."""

from __future__ import annotations

import asyncio

import anthropic
import openai
import pytest

from nemo_evaluator.models import StageSpec, Timeouts
from nemo_evaluator.testing import Say

HELLO = [{"role": "user", "content": "hello"}]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CALL = Say(
    "",
    tool_calls=[{"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}],
    finish_reason="tool_calls",
)
ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}
SERVICES = ["chat_completions", "responses"]


@pytest.fixture
def clients(proxied):
    """Both clients, pointed at a proxy."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opening(script, *stages, **settings):
        async with proxied(script, *stages, **settings) as (proxy, server):
            key = proxy.token.reveal()
            async with (
                openai.AsyncOpenAI(base_url=proxy.url, api_key=key) as first,
                anthropic.AsyncAnthropic(base_url=proxy.root, api_key=key) as second,
            ):
                yield first, second, server

    return opening


@pytest.mark.parametrize("protocol", SERVICES)
async def test_chat(clients, protocol):
    async with clients(Say("hi", reasoning="why"), protocol=protocol) as (client, _, server):
        answer = await client.chat.completions.create(
            model="m", messages=HELLO, temperature=0.5, max_tokens=7
        )
    assert answer.choices[0].message.content == "hi"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.reasoning_content == "why"
    assert answer.usage.total_tokens > 0
    limit = "max_tokens" if protocol == "chat_completions" else "max_output_tokens"
    assert server.requests[0].body[limit] == 7


@pytest.mark.parametrize("protocol", [*SERVICES, "completions"])
async def test_chat_stream(clients, protocol):
    async with clients("one two three", protocol=protocol) as (client, _, _server):
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two three"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


@pytest.mark.parametrize("protocol", ["completions", "chat_completions"])
async def test_completions(clients, protocol):
    async with clients("one two", protocol=protocol) as (client, _, _server):
        answer = await client.completions.create(model="m", prompt="once")
        stream = await client.completions.create(model="m", prompt="once", stream=True)
        pieces = [chunk.choices[0].text async for chunk in stream if chunk.choices]
    assert answer.choices[0].text == "one two" == "".join(pieces)


@pytest.mark.parametrize("protocol", SERVICES)
async def test_responses(clients, protocol):
    async with clients("one two", protocol=protocol) as (client, _, server):
        answer = await client.responses.create(
            model="m", input="hello", instructions="be brief", max_output_tokens=9
        )
    assert answer.output_text == "one two"
    assert answer.status == "completed"
    assert answer.usage.total_tokens > 0
    if protocol == "chat_completions":
        assert server.requests[0].body["messages"][0] == {"role": "system", "content": "be brief"}
        assert server.requests[0].body["max_tokens"] == 9


@pytest.mark.parametrize("protocol", SERVICES)
async def test_responses_stream(clients, protocol):
    async with clients("one two", protocol=protocol) as (client, _, _server):
        stream = await client.responses.create(model="m", input="hello", stream=True)
        events = [event async for event in stream]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "one two"
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "one two"


@pytest.mark.parametrize("protocol", SERVICES)
@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls(clients, protocol, stream):
    async with clients(CALL, protocol=protocol) as (first, second, server):
        tools = [{"type": "function", "function": ADD}]
        if stream:
            chunks = [
                c
                async for c in await first.chat.completions.create(
                    model="m", messages=HELLO, tools=tools, stream=True
                )
            ]
            calls = [
                call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or ()
            ]
            assert calls[0].function.name == "add"
            assert "".join(call.function.arguments or "" for call in calls) == '{"a":1,"b":2}'
        else:
            answer = await first.chat.completions.create(model="m", messages=HELLO, tools=tools)
            assert answer.choices[0].message.tool_calls[0].function.arguments == '{"a":1,"b":2}'
            assert answer.choices[0].finish_reason == "tool_calls"
            flat = await first.responses.create(
                model="m", input="x", tools=[{"type": "function", **ADD}]
            )
            assert flat.output[-1].arguments == '{"a":1,"b":2}'
        anthropic_tool = {"name": "add", "input_schema": ADD["parameters"]}
        asked = {"model": "m", "max_tokens": 9, "messages": HELLO, "tools": [anthropic_tool]}
        if stream:
            async with second.messages.stream(**asked) as events:
                message = await events.get_final_message()
        else:
            message = await second.messages.create(**asked)
    block = message.content[-1]
    assert (block.type, block.name, block.input) == ("tool_use", "add", {"a": 1, "b": 2})
    assert message.stop_reason == "tool_use"
    names = [t.get("name") or t["function"]["name"] for t in server.requests[-1].body["tools"]]
    assert names == ["add"]


@pytest.mark.parametrize("protocol", SERVICES)
async def test_anthropic_messages(clients, protocol):
    history = [
        {"role": "user", "content": "add"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]},
    ]
    async with clients(Say("three", reasoning="sum"), protocol=protocol) as (_, client, server):
        answer = await client.messages.create(
            model="m", max_tokens=9, system="be kind", messages=history, stop_sequences=["END"]
        )
        async with client.messages.stream(model="m", max_tokens=9, messages=HELLO) as stream:
            text = "".join([piece async for piece in stream.text_stream])
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert answer.content[1].text == text == "three"
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0
    body = server.requests[0].body
    if protocol == "chat_completions":
        assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool"]
        assert body["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "3"}
        assert body["stop"] == ["END"]
    else:
        kinds = [item.get("type", item.get("role")) for item in body["input"]]
        assert kinds == ["system", "user", "function_call", "function_call_output"]


async def test_images(clients):
    url = f"data:image/png;base64,{PIXEL}"
    async with clients("a dot") as (first, second, server):
        parts = [
            {"type": "text", "text": "what?"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        await first.chat.completions.create(
            model="m", messages=[{"role": "user", "content": parts}]
        )
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        blocks = [{"type": "image", "source": source}, {"type": "text", "text": "what?"}]
        await second.messages.create(
            model="m", max_tokens=5, messages=[{"role": "user", "content": blocks}]
        )
        given = [
            {"type": "input_image", "image_url": url, "detail": "auto"},
            {"type": "input_text", "text": "what?"},
        ]
        await first.responses.create(model="m", input=[{"role": "user", "content": given}])
    for seen in server.requests:
        urls = [
            p["image_url"]["url"]
            for p in seen.body["messages"][0]["content"]
            if p["type"] == "image_url"
        ]
        assert urls == [url]


@pytest.mark.parametrize(
    ("status", "first", "second"),
    [
        (400, openai.BadRequestError, anthropic.BadRequestError),
        (404, openai.NotFoundError, anthropic.NotFoundError),
        (429, openai.RateLimitError, anthropic.RateLimitError),
        (500, openai.InternalServerError, anthropic.InternalServerError),
    ],
)
async def test_errors(clients, status, first, second):
    async with clients(Say(status=status, message="as it is")) as (one, two, server):
        with pytest.raises(first, match="as it is"):
            await one.chat.completions.create(model="m", messages=HELLO)
        tries = server.count
        with pytest.raises(second, match="as it is"):
            await two.messages.create(model="m", max_tokens=5, messages=HELLO)
    # The proxy tries twice where it helps; the clients do not multiply that.
    assert tries == (2 if status in (429, 500) else 1)
    assert server.count == 2 * tries


async def test_a_turn_budget_is_not_retried(clients):
    async with clients("ok", StageSpec("turn_counter", {"max_turns": 1})) as (client, _, server):
        await client.chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(openai.RateLimitError, match="Turn budget exhausted: 1/1") as raised:
            await client.chat.completions.create(model="m", messages=HELLO)
    assert raised.value.code == "session_budget_exhausted"
    assert server.count == 1


async def test_cancelling(clients):
    async with clients(Say("x", delay=9), timeouts=Timeouts(1, 20, 20, 20)) as (client, _, server):
        task = asyncio.create_task(client.chat.completions.create(model="m", messages=HELLO))
        while not server.in_flight:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for _ in range(100):
            if server.cancelled:
                break
            await asyncio.sleep(0.02)
        assert server.cancelled == 1
