"""Replies that no server should send. None stops a benchmark, none scores, none leaves a file that cannot be read."""

from __future__ import annotations

import asyncio
import copy
import gzip
import re
import time

import orjson
import pytest
from nel_support import Nel, api, bench, rows

from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import ModelResponse
from nemo_evaluator.models import Client, Endpoint, RetryConfig, Timeouts
from nemo_evaluator.models.chat import parse_chat
from nemo_evaluator.models.completions import parse_completion
from nemo_evaluator.models.reply_check import flaw_of
from nemo_evaluator.models.responses import parse_response
from nemo_evaluator.models.usage import usage_of
from nemo_evaluator.testing import Say, ScriptedServer


def deep(levels):
    """Stands for a list nested so deep that no encoder writes it."""
    return f"@deep{levels}@"


def encoded(body):
    """A body as JSON, whatever is in it."""
    return re.sub(
        rb'"@deep(\d+)@"',
        lambda found: b"[" * int(found[1]) + b"]" * int(found[1]),
        orjson.dumps(body),
    )


def chat(**fields):
    """A chat completion with some fields of its choice (message__*) or of itself in another's place."""
    body = {
        "id": "c-1",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
    for name, value in fields.items():
        place, _, field = name.rpartition("__")
        holder = {"": body, "choice": body["choices"][0], "message": body["choices"][0]["message"]}[
            place
        ]
        holder[field] = value
    return body


def call(**fields):
    function = {"name": "f", "arguments": "{}"} | fields.pop("function", {})
    return chat(
        message__tool_calls=[{"id": "1", "type": "function", "function": function} | fields]
    )


def raw(body, head=b"Content-Type: application/json\r\n", status=b"200 OK"):
    return b"HTTP/1.1 %b\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n%b" % (
        status,
        head,
        len(body),
        body,
    )


STREAM = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
BIG = 2**70


def events(*values, end=True):
    lines = [value if isinstance(value, bytes) else orjson.dumps(value) for value in values]
    return (
        STREAM
        + b"".join(b"data: %b\n\n" % line for line in lines)
        + (b"data: [DONE]\n\n" if end else b"")
    )


def chunk(**choice):
    return {
        "id": "s",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "no"}, **choice}],
    }


END = chunk(delta={}, finish_reason="stop")

BODIES = {
    "finish_reason a mapping": chat(choice__finish_reason={"type": "stop"}),
    "finish_reason a number": chat(choice__finish_reason=7),
    "finish_reason of a megabyte": chat(choice__finish_reason="s" * 2**20),
    "model a deep list": chat(model=deep(300)),
    "model deeper than Python": chat(model=deep(990)),
    "model a number": chat(model=1.5),
    "id a deep list": chat(id=deep(900)),
    "id a mapping": chat(id={"a": [1]}),
    "choices a mapping": chat(choices={"0": {"message": {"content": "no"}}}),
    "choices a text": chat(choices="no"),
    "choices of numbers": chat(choices=[1, 2]),
    "choices of null": chat(choices=[None]),
    "choices empty": chat(choices=[]),
    "choices true": chat(choices=True),
    "message a text": chat(choice__message="no"),
    "message a list": chat(choice__message=["no"]),
    "content a mapping": chat(message__content={"text": "no"}),
    "content a number": chat(message__content=42),
    "content true": chat(message__content=True),
    "content parts": chat(
        message__content=[{"type": "text", "text": "no"}, {"type": "image"}, "x"]
    ),
    "content a list of numbers": chat(message__content=[1, None]),
    "content deep": chat(message__content=deep(800)),
    "content with zero bytes": chat(message__content="no\x00\x1b[2J\u202e\u2028" * 3),
    "content of 3 MB": chat(message__content="(" * 3 * 2**20),
    "content null": chat(message__content=None),
    "reasoning a mapping": chat(message__reasoning_content={"a": 1}),
    "reasoning deep": chat(message__reasoning=deep(700)),
    "tool calls a mapping": chat(message__tool_calls={"name": "f"}),
    "tool calls of texts": chat(message__tool_calls=["f"]),
    "tool call without function": chat(message__tool_calls=[{"id": "1"}]),
    "tool name a list": call(function={"name": ["f"]}),
    "tool arguments nested 300 deep": call(function={"arguments": '{"a":' * 300 + "1" + "}" * 300}),
    "tool arguments as a deep object": call(function={"arguments": {"a": deep(400)}}),
    "tool arguments a list": call(function={"arguments": [1]}),
    "tool arguments no JSON": call(function={"arguments": '{"a": '}),
    "tool arguments with surrogates": call(function={"arguments": '{"a": "\\ud800"}'}),
    "tool arguments a huge number": call(function={"arguments": '{"a": 1' + "0" * 400 + "}"}),
    "tool id a mapping": call(id={"x": 1}),
    "usage texts": chat(
        usage={"prompt_tokens": "5", "completion_tokens": "many", "total_tokens": "7"}
    ),
    "usage negative": chat(
        usage={"prompt_tokens": -5, "completion_tokens": -2, "total_tokens": -7}
    ),
    "usage huge": chat(
        usage={"prompt_tokens": 10**18, "completion_tokens": 1e300, "total_tokens": 2**63}
    ),
    "usage of lists": chat(
        usage={"prompt_tokens": [1], "completion_tokens": {}, "total_tokens": None}
    ),
    "usage a list": chat(usage=[1, 2]),
    "usage details texts": chat(
        usage={"prompt_tokens": 1, "completion_tokens_details": "x", "reasoning_tokens": "y"}
    ),
    "logprobs a text": chat(choice__logprobs="x"),
    "error inside, deep": {"error": {"message": deep(900)}},
    "error inside": {"error": "upstream died"},
    "another index": chat(choice__index={"a": 1}),
    "json schema with surrogates": chat(message__content='{"a": "\\ud800\\udfff \\udc00"}'),
    "a huge number in the answer": chat(message__content='{"a": 1%s}' % ("0" * 5000)),
}
RAW = {
    "an empty object": raw(b"{}"),
    "a list": raw(b"[1]"),
    "NaN": raw(b'{"choices": [{"message": {"content": "no"}}], "usage": {"prompt_tokens": NaN}}'),
    "infinite": raw(
        b'{"choices": [{"message": {"content": "no"}}], "usage": {"prompt_tokens": 1e999}}'
    ),
    "nested 5000 deep": raw(b"[" * 5000 + b"]" * 5000),
    "lone surrogate": raw(b'{"choices": [{"message": {"content": "\\ud800"}}]}'),
    "bad UTF-8": raw(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "two answers": raw(dumps(chat())) + raw(dumps(chat(message__content="yes"))),
    "answer and garbage": raw(dumps(chat())) + b"\x00" * 100,
    "no gzip": raw(b"x", b"Content-Encoding: gzip\r\n"),
    "gzip bomb": raw(gzip.compress(b" " * 70 * 2**20, 1), b"Content-Encoding: gzip\r\n"),
    "a status of 299": raw(b"{}", status=b"299 Odd"),
    "a status of 999": raw(b"{}", status=b"999 Odd"),
    "no status": b"HTTP/1.1\r\n\r\n",
    "a length that lies": b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "a length of 1 TB": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n{}",
    "a bad chunk": CHUNKED + b"zz\r\n{}\r\n",
    "error of a deep list": raw(dumps({"error": deep(190)}), status=b"500 Oops"),
    "error that is no UTF-8": raw(b"\xff" * 5000, b"Content-Type: text/html\r\n", b"502 Bad"),
    "429 until 2099": raw(b"{}", b"Retry-After: Thu, 01 Jan 2099 00:00:00 GMT\r\n", b"429 Slow"),
    "429 for ever": raw(b"{}", b"Retry-After: inf\r\n", b"429 Slow"),
    "429 for NaN": raw(b"{}", b"Retry-After: nan\r\n", b"429 Slow"),
    "429 with a date beyond dates": raw(
        b"{}", b"Retry-After: Thu, 01 Jan 99999 00:00:00 GMT\r\n", b"429 Slow"
    ),
    "stream: a malformed event": events(chunk(), b'{"choices": [{"delta"', END),
    "stream: no end": events(chunk(), end=False),
    "stream: choices of numbers": events({"choices": [1]}, END),
    "stream: an index that is a list": events(chunk(index=[0]), END),
    "stream: a huge index": events(chunk(index=10**9), END),
    "stream: indexes that do not compare": events(chunk(index=0), chunk(index="a"), END),
    "stream: delta a text": events(chunk(delta="no"), END),
    "stream: tool arguments a mapping": events(
        chunk(
            delta={
                "tool_calls": [
                    {"index": 0, "function": {"name": "f", "arguments": {"a": deep(300)}}}
                ]
            }
        ),
        END,
    ),
    "stream: tool calls a text": events(chunk(delta={"tool_calls": "f"}), END),
    "stream: model deep": events(chunk() | {"model": deep(300)}, END),
    "stream: finish_reason a mapping": events(chunk(), chunk(delta={}, finish_reason={"a": 1})),
    "stream: usage of lists": events(chunk(), END | {"usage": {"prompt_tokens": []}}),
    "stream: logprobs of numbers": events(chunk(logprobs={"content": [1]}), END),
    "stream: an error that is a list": events(chunk(), {"error": deep(300)}),
    "stream: not text": events(chunk(), b"\xff\xfe", END),
}
ENDLESS = {
    "endless comments": (STREAM, b": %b\n\n" % (b"x" * 4000) * 100),
    "endless event": (STREAM + b"data: ", b"x" * 2**19),
    "endless events": (STREAM, b'data: {"a": "%b"}\n\n' % (b"x" * 4000) * 100),
    "endless headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: %b\r\n" % (b"b" * 1000) * 100),
    "endless header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"b" * 2**17),
    "endless 103s": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000),
    "endless trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n" * 1000),
    "endless body": (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 2**20),
}
SAYS = (
    {name: Say(raw=raw(encoded(body))) for name, body in BODIES.items()}
    | {name: Say(raw=data) for name, data in RAW.items()}
    | {name: Say(raw=head, endless=piece) for name, (head, piece) in ENDLESS.items()}
)
# Replies that cannot be taken for an answer; what else is in BODIES is one, without the field that is wrong.
NO_ANSWER = {
    *(
        name
        for name in BODIES
        if name.startswith(("choices", "message a", "error inside", "tool calls"))
    ),
    *(
        "content a mapping",
        "content a number",
        "content true",
        "content deep",
        "content a list of numbers",
    ),
    *("tool call without function", "tool name a list", "tool arguments a list"),
}
HOSTILE = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


@benchmark(name="hostile", dataset=lambda: {rows!r}, prompt="{{question}}", target_field="target")
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


def test_there_are_enough_of_them():
    assert len(SAYS) >= 60


def test_no_reply_stops_a_benchmark_or_scores(tmp_path):
    asked = [{"question": name, "target": "yes"} for name in SAYS]
    (tmp_path / "hostile.py").write_text(HOSTILE.format(rows=asked))
    nel = Nel(tmp_path)
    with ScriptedServer(lambda seen: SAYS[seen.prompt], record=0) as server:
        waits = {"connect": 5, "first_byte": 10, "idle": 5, "total": 60}
        model = api(server.url, retry={"max_retries": 0}, timeouts=waits)
        block = bench("hostile.py", max_system_retries=1, max_concurrent=8)
        config = nel.config("config.yaml", services={"model": model}, benchmarks=[block])
        for more in ([], ["--resume"]):
            nel("eval", "run", config, "-o", "out", *more, code=3, timeout=300)
            found = {
                row["prompt"]: row
                for row in rows(next(tmp_path.glob("out/**/results.jsonl")).parent)
            }
            assert set(found) == set(SAYS)
            assert {row["reward"] for row in found.values()} <= {0.0, None}
            causes = {row["failure"]["cause"] for row in found.values() if row["failure"]}
            assert causes == {"transport", "rate_limit"}
            failed = {name for name in BODIES if found[name]["status"] == "failed"}
            assert failed == NO_ANSWER
            assert all(isinstance(row["finish_reason"], str) for row in found.values())


GOOD = {
    "/chat/completions": (parse_chat, call(function={"arguments": '{"a": 1}'}) | {"error": None}),
    "/completions": (
        parse_completion,
        {"id": "c", "model": "m", "choices": [{"text": "no", "finish_reason": "stop"}]},
    ),
    "/responses": (
        parse_response,
        {
            "id": "r",
            "model": "m",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
                {
                    "type": "message",
                    "content": [{"type": "output_text", "text": "no", "refusal": None}],
                },
                {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            ],
            "usage": {
                "input_tokens": 1,
                "output_tokens": 2,
                "output_tokens_details": {"reasoning_tokens": 1},
            },
        },
    ),
}
VALUES = [
    None,
    0,
    -1,
    1e308,
    BIG,
    True,
    "",
    "\x00\ud800",
    "x" * 10**5,
    [],
    {},
    [[]],
    [None],
    ["a"],
    [1],
    {"a": {"b": 1}},
]
VALUES += [orjson.loads(b"[" * n + b"]" * n) for n in (300, 1000)]


def places(value, path=()):
    """The path of everything inside of a JSON value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.mark.parametrize("path", GOOD)
def test_every_field_may_be_anything(path):
    parse, good = GOOD[path]
    for place in list(places(good)):
        for value in VALUES:
            body = copy.deepcopy(good)
            holder = body
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = value
            if flaw_of(path, body) is None:
                check(parse(body, "m"), (place, value))
            usage_of(body)


def check(answer: ModelResponse, note):
    texts = (answer.content, answer.model, answer.finish_reason, answer.reasoning_content or "")
    assert all(isinstance(text, str) for text in texts), note
    counts = (
        answer.prompt_tokens,
        answer.completion_tokens,
        answer.total_tokens,
        answer.reasoning_tokens,
    )
    assert all(count is None or (type(count) is int and 0 <= count < 2**53) for count in counts), (
        note
    )
    for tool in answer.tool_calls:
        assert (type(tool.id), type(tool.name), type(tool.arguments)) == (str, str, dict), note
    assert isinstance(orjson.loads(dumps(answer)), dict), note


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize("name", [name for name in RAW if name.startswith("stream")])
async def test_streams_of_every_protocol(path, name):
    protocol = {
        "/chat/completions": "chat_completions",
        "/completions": "completions",
        "/responses": "responses",
    }[path]
    async with ScriptedServer(SAYS[name]) as server:
        endpoint = Endpoint(
            "m", server.url, protocol, retry=RetryConfig(0), timeouts=Timeouts(2, 2, 2, 5)
        )
        async with Client(endpoint) as client:
            try:
                check(
                    await client.chat(
                        [{"role": "user", "content": "?"}], generation={"stream": True}
                    ),
                    name,
                )
            except BoundaryError as error:
                assert error.cause == "transport"
            await asyncio.sleep(0)
            assert client.transport.lane.limiter.in_flight == 0


@pytest.mark.parametrize(
    "body",
    [
        {"data": 1},
        {"data": [1]},
        {"data": [{"index": 0, "embedding": "x"}]},
        {"data": [{"index": "0", "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0, None]}]},
        {"data": [{"index": 0, "embedding": [[1.0]]}]},
        {"data": []},
    ],
)
async def test_embeddings_are_numbers_for_every_text(body):
    async with (
        ScriptedServer(Say(body=body)) as server,
        Client(Endpoint("m", server.url)) as client,
    ):
        client.endpoint.retry = RetryConfig(0)
        with pytest.raises(BoundaryError) as raised:
            await client.embed(["a"])
    assert raised.value.cause == "transport"


@pytest.mark.serial
def test_nothing_is_slow_to_read():
    """1 MB in each field: reading stays linear."""
    size = 2**20
    for text in (
        "[" * size,
        "{" * (size // 2) + "}" * (size // 2),
        "[{}]" * (size // 4),
        "</think>" * (size // 8),
    ):
        for body in (
            chat(message__content=text, model=text, id=text),
            call(function={"arguments": text}),
        ):
            started = time.perf_counter()
            assert flaw_of("/chat/completions", body) is None
            answer = parse_chat(body, "m")
            dumps(answer)
            assert time.perf_counter() - started < 0.5
            assert len(answer.model) < 1000
