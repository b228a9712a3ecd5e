"""The Responses protocol and streams, as our own client speaks them."""

from __future__ import annotations

import orjson
import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.models import Timeouts
from nemo_evaluator.models.http.sse import EventParser
from nemo_evaluator.models.reply_check import flaw_of
from nemo_evaluator.testing import Fault, Say

HELLO = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "name": "add", "arguments": {"a": 1}}


async def test_responses(asked):
    say = Say("forty-two", reasoning="six by seven", finish_reason="length")
    async with asked(
        say, protocol="responses", generation={"max_tokens": 5, "temperature": 0.0}
    ) as (client, server):
        response = await client.chat(HELLO)
    body = server.requests[0].body
    assert server.requests[0].path == "/v1/responses"
    assert body == {"model": "m", "max_output_tokens": 5, "temperature": 0.0, "input": HELLO}
    assert (response.content, response.reasoning_content) == ("forty-two", "six by seven")
    assert response.finish_reason == "length"
    assert response.total_tokens > 0


async def test_responses_with_tools_images_and_history(asked):
    history = [
        *HELLO,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c0", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c0", "content": "1"},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}],
        },
    ]
    generation = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
    }
    async with asked(Say("", tool_calls=[CALL]), protocol="responses") as (client, server):
        response = await client.chat(history, tools=[TOOL], generation=generation)
    body = server.requests[0].body
    assert body["tools"] == [{"type": "function", "name": "add", "parameters": {"type": "object"}}]
    assert body["text"] == {"format": {"type": "json_schema", "name": "s", "schema": {}}}
    assert body["input"][2:] == [
        {"type": "function_call", "call_id": "c0", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c0", "output": "1"},
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:,", "detail": "low"}],
        },
    ]
    assert [(c.id, c.name, c.arguments) for c in response.tool_calls] == [("c1", "add", {"a": 1})]
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("protocol", ["chat_completions", "completions", "responses"])
async def test_streams_give_the_same_answer(asked, protocol):
    reasoning = None if protocol == "completions" else "why"
    say = Say("one two three", reasoning=reasoning, chunk_delay=0.02)
    answers = []
    for stream in (False, True):
        async with asked(say, protocol=protocol, extra_body={"stream": True} if stream else {}) as (
            client,
            _,
        ):
            answers.append(await client.chat(HELLO))
    plain, streamed = answers
    assert plain.content == streamed.content == "one two three"
    assert plain.reasoning_content == streamed.reasoning_content == reasoning
    assert plain.finish_reason == streamed.finish_reason == "stop"
    assert plain.time_to_first_token_ms is None
    assert 0 < streamed.time_to_first_token_ms < streamed.latency_ms - 30
    if protocol != "completions":
        assert streamed.total_tokens > 0


async def test_streamed_tool_calls(asked):
    async with asked(
        Say("", tool_calls=[CALL, {**CALL, "id": "c2"}]), extra_body={"stream": True}
    ) as (client, _):
        response = await client.chat(HELLO)
    assert [(c.id, c.arguments) for c in response.tool_calls] == [
        ("c1", {"a": 1}),
        ("c2", {"a": 1}),
    ]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.STREAM_ERROR, "HTTP 502: the model fell over"),
        (Fault.STREAM_RESET, "the stream broke"),
        (Fault.STREAM_STALL, "nothing came for 0.3 s"),
        (Fault.STREAM_NO_END, "ended before the answer did"),
    ],
)
@pytest.mark.parametrize("protocol", ["chat_completions", "completions", "responses"])
async def test_broken_streams_are_tried_again_and_told(asked, fault, words, protocol):
    broken = Say("a b c d e f", fault=fault)
    settings = {
        "protocol": protocol,
        "extra_body": {"stream": True},
        "timeouts": Timeouts(1.0, 0.3, 0.3, 2.0),
    }
    async with asked([broken, "mended"], **settings) as (client, _):
        assert (await client.chat(HELLO)).content == "mended"
    async with asked(broken, **settings) as (client, server):
        with pytest.raises(TransportError, match=words) as raised:
            await client.chat(HELLO)
    assert raised.value.attempts == server.count == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_failed_is_no_empty_answer(asked, stream):
    error = {"code": "server_error", "message": "the model fell over"}
    failed = {
        "id": "r",
        "object": "response",
        "model": "m",
        "status": "failed",
        "error": error,
        "output": [],
    }
    event = b"data: " + orjson.dumps({"type": "response.failed", "response": failed}) + b"\n\n"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(event)}\r\n\r\n".encode()
    reply = Say(raw=head + event) if stream else Say(body=failed)
    async with asked(
        reply, protocol="responses", extra_body={"stream": True} if stream else {}
    ) as (client, server):
        with pytest.raises(TransportError, match="with an error inside: the model fell over"):
            await client.chat(HELLO)
    assert server.count == 3
    cancelled = {**failed, "status": "cancelled", "error": None}
    assert flaw_of("/responses", cancelled) == "without an answer: its status is cancelled"


@pytest.mark.parametrize("protocol", ["chat_completions", "completions"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_an_answer_that_the_server_gave_up_is_asked_again(asked, protocol, stream, reason):
    settings = {"protocol": protocol, "extra_body": {"stream": True} if stream else {}}
    async with asked([Say("half of", finish_reason=reason), "whole"], **settings) as (
        client,
        server,
    ):
        assert (await client.chat(HELLO)).content == "whole" and server.count == 2
    async with asked(Say("half of", finish_reason=reason), **settings) as (client, server):
        with pytest.raises(
            TransportError, match=f"without an end: the server broke it off .{reason}"
        ):
            await client.chat(HELLO)


def test_events_are_found_wherever_the_bytes_are_cut():
    data = b': hi\n\nevent: x\r\ndata: {"a":1}\r\n\r\ndata: {"b":\ndata: 2}\n\ndata: [DONE]\n\n'
    for size in range(1, len(data)):
        parser = EventParser()
        found = [
            event
            for start in range(0, len(data), size)
            for event in parser.feed(data[start : start + size])
        ]
        found += parser.finish()
        assert found == [{"a": 1}, {"b": 2}], size
        assert parser.done
