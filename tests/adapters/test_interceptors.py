"""Every interceptor, through both doors, with a real HTTP server behind."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from nemo_evaluator.core.errors import BudgetError, RequestRejectedError
from nemo_evaluator.models import StageSpec
from nemo_evaluator.testing import Fault, Say, ScriptedServer

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "secret": {"type": "string"}},
            "required": ["a", "secret"],
        },
    },
}


def sent(both, number=-1):
    return both.server.requests[number].body


async def test_nothing_in_between(opened):
    async with opened("hi") as both:
        answer = await both.ask(HELLO)
    assert answer.status == 200
    assert answer.message["content"] == "hi"
    assert sent(both) == HELLO


async def test_both_doors_send_the_same(open_door):
    """Body and headers upstream are equal, byte for byte, whichever door a request takes."""
    stages = [
        StageSpec("system_message", {"system_message": "be kind"}),
        StageSpec(
            "payload_modifier", {"params_to_add": {"top_k": 4}, "headers_to_add": {"X-Run": "1"}}
        ),
        StageSpec("drop_params", {"params": ["seed"]}),
        StageSpec("turn_counter", {"max_turns": 1}),
        StageSpec("consolidate_system"),
    ]
    seen = []
    for kind in ("process", "proxy"):
        async with open_door(
            kind, "ok", *stages, extra_body={"min_p": 0.1}, extra_headers={"X-Team": "t"}
        ) as both:
            await both.ask({**HELLO, "seed": 1}, session="abc")
        request = both.server.requests[0]
        request.headers.pop("host")
        seen.append((request.path, request.raw, request.headers))
    assert seen[0] == seen[1]
    assert seen[0][2]["x-run"] == "1"


async def test_drop_params(opened):
    async with opened("ok", StageSpec("drop_params", {"params": ["max_tokens", "seed"]})) as both:
        await both.ask({**HELLO, "max_tokens": 5, "seed": 1, "top_p": 0.5})
    assert sent(both) == {**HELLO, "top_p": 0.5}
    assert both.stats()["drop_params"] == {"requests_changed": 1}


async def test_modify_tools(opened):
    config = {
        "strip_properties": ["secret"],
        "add_properties": {"why": {"type": "string"}, "a": {"type": "number"}},
    }
    plain = {"type": "function", "name": "g", "parameters": {"properties": {"secret": {}}}}
    async with opened("ok", StageSpec("modify_tools", config)) as both:
        await both.ask({**HELLO, "tools": [TOOL, plain]})
    parameters = sent(both)["tools"][0]["function"]["parameters"]
    assert parameters["properties"] == {"a": {"type": "string"}, "why": {"type": "string"}}
    assert parameters["required"] == ["a"]
    assert sent(both)["tools"][1]["parameters"]["properties"] == {
        "a": {"type": "number"},
        "why": {"type": "string"},
    }
    assert "secret" in TOOL["function"]["parameters"]["properties"]


@pytest.mark.parametrize(
    ("strategy", "roles"),
    [
        ("prepend", [("system", "NEW"), ("system", "old"), ("user", "q")]),
        ("append", [("system", "old"), ("user", "q"), ("system", "NEW")]),
        ("replace", [("system", "NEW"), ("user", "q")]),
    ],
)
async def test_system_message(opened, strategy, roles):
    messages = [{"role": "system", "content": "old"}, {"role": "user", "content": "q"}]
    async with opened(
        "ok", StageSpec("system_message", {"system_message": "NEW", "strategy": strategy})
    ) as both:
        await both.ask({"model": "m", "messages": messages})
        await both.ask({"model": "m", "prompt": "q"}, path="/completions")
        await both.ask({"model": "m", "input": "q"}, path="/embeddings")
    assert [(m["role"], m["content"]) for m in sent(both, 0)["messages"]] == roles
    assert len(messages) == 2
    if both.endpoint.protocol == "chat_completions" and both.kind == "process":
        assert "messages" not in sent(both, 1)
        assert sent(both, 1)["prompt"] == ("q\n\nNEW" if strategy == "append" else "NEW\n\nq")
    assert sent(both, 2) == {"model": "m", "input": "q"}


async def test_consolidate_system(opened):
    messages = [
        {"role": "user", "content": "q"},
        {
            "role": "system",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        },
        {"role": "assistant", "content": "a"},
        {"role": "system", "content": "three"},
        {"role": "system", "content": ""},
    ]
    async with opened("ok", StageSpec("consolidate_system", {"separator": " | "})) as both:
        await both.ask({"model": "m", "messages": messages})
        await both.ask(
            {
                "model": "m",
                "messages": [{"role": "user", "content": "q"}, {"role": "system", "content": ""}],
            }
        )
        await both.ask(HELLO)
    assert [m["content"] for m in sent(both, 0)["messages"]] == ["one\ntwo | three", "q", "a"]
    assert [m["role"] for m in sent(both, 1)["messages"]] == ["user"]
    assert sent(both, 2) == HELLO


async def test_payload_modifier(opened):
    config = {
        "params_to_remove": ["user", "content"],
        "params_to_add": {"temperature": 0.1, "extra": {"b": 2}},
        "params_to_rename": {"max_tokens": "max_completion_tokens", "name": "title"},
        "headers_to_add": {"X-New": "1"},
    }
    body = {
        **HELLO,
        "user": "u",
        "temperature": 1,
        "max_tokens": 5,
        "extra": {"a": 1, "user": 2},
        "tools": [TOOL],
    }
    async with opened("ok", StageSpec("payload_modifier", config)) as both:
        await both.ask(body)
    assert sent(both) == {
        **HELLO,
        "temperature": 0.1,
        "max_completion_tokens": 5,
        "extra": {"a": 1, "b": 2},
        "tools": [TOOL],
    }
    assert both.server.requests[-1].headers["x-new"] == "1"


def test_payload_modifier_headers():
    from nemo_evaluator.adapters import build_stage
    from nemo_evaluator.models import ModelRequest

    config = {
        "headers_to_remove": ["X-Old"],
        "headers_to_rename": {"x-a": "X-B"},
        "headers_to_add": {"X-C": "3", "Host": "evil"},
    }
    request = ModelRequest("/chat/completions", {}, {"x-old": "1", "X-A": "2", "x-c": "0"})
    build_stage(StageSpec("payload_modifier", config)).on_request(request)
    assert request.headers == {"X-B": "2", "X-C": "3"}


async def test_turn_counter_ends_a_session_and_says_so(opened):
    async with opened("ok", StageSpec("turn_counter", {"max_turns": 2})) as both:
        statuses = [(await both.ask(HELLO, session="aa")).status for _ in range(2)]
        third = await both.ask(HELLO, session="aa")
        other = await both.ask(HELLO, session="bb")
    assert statuses == [200, 200]
    assert other.status == 200
    assert third.status == 429
    assert both.server.count == 3
    if third.error is not None:
        assert isinstance(third.error, BudgetError)
        assert third.error.message.startswith("Turn budget exhausted: 2/2 turns used")
    else:
        assert third.body["error"]["code"] == "session_budget_exhausted"
        assert third.body["error"]["message"].startswith("Turn budget exhausted: 2/2")


@pytest.mark.parametrize("position", ["system_message", "user_message"])
async def test_turn_counter_reminds(opened, position):
    spec = StageSpec("turn_counter", {"max_turns": 10, "position": position})
    async with opened("ok", spec) as both:
        for _ in range(10):
            await both.ask(HELLO, session="aa")
    texts = [seen.body["messages"][-1]["content"] for seen in both.server.requests]
    assert texts[6] == "hello"
    assert "Turn 8/10" in texts[7]
    assert "2 turns remain" in texts[7]
    assert "final answer now" in texts[9]
    assert texts[7].startswith("[SYSTEM] " if position == "system_message" else "hello\n\n")


async def test_turn_counter_periodic_and_without_sessions(opened):
    spec = StageSpec(
        "turn_counter",
        {"max_turns": 9, "trigger": "periodic", "interval": 2, "position": "user_message"},
    )
    async with opened("ok", spec) as both:
        await both.ask(HELLO)
        parts = [
            {"type": "text", "text": "hello"},
            {"type": "image_url", "image_url": {"url": "data:,"}},
        ]
        await both.ask({"model": "m", "messages": [{"role": "user", "content": parts}]})
    assert sent(both, 0) == HELLO
    assert "ENVIRONMENT REMINDER" in sent(both, 1)["messages"][0]["content"][0]["text"]
    assert both.stats()["turn_counter"]["sessions"] == 1


async def test_raise_client_errors(opened):
    async with opened(
        Say(status=400, message="bad thing"), StageSpec("raise_client_errors")
    ) as both:
        answer = await both.ask(HELLO)
    assert answer.status == 400
    assert both.server.count == 1
    if answer.error is not None:
        assert isinstance(answer.error, RequestRejectedError)
    else:
        assert "bad thing" in answer.body["error"]["message"]


async def test_log_tokens(opened, caplog):
    caplog.set_level(logging.INFO, "nemo_evaluator.traffic")
    async with opened(
        Say("x", usage={"prompt_tokens": 7, "completion_tokens": 5}), StageSpec("log_tokens")
    ) as both:
        await both.ask(HELLO)
        assert both.stats()["log_tokens"] == {"prompt_tokens": 7, "completion_tokens": 5}
    assert "prompt 7, completion 5, total 12 tokens" in caplog.text


async def test_response_stats(opened, tmp_path, caplog):
    caplog.set_level(logging.INFO, "nemo_evaluator.traffic")
    path = tmp_path / "stats.json"
    spec = StageSpec("response_stats", {"every": 2, "stats_path": str(path)})
    async with opened([Say("x", finish_reason="length"), Say(status=400), "y"], spec) as both:
        for _ in range(3):
            await both.ask(HELLO)
    kept = json.loads(path.read_text())
    assert kept["count"] == 3
    assert kept["statuses"] == {"200": 2, "400": 1}
    assert kept["finish_reasons"] == {"length": 1, "stop": 1}
    assert "2 answers" in caplog.text
    async with opened("y", spec) as both:
        await both.ask(HELLO)
    assert json.loads(path.read_text())["count"] == 4


async def test_progress_tracking(opened, tmp_path):
    path = tmp_path / "progress"
    posts = []
    async with ScriptedServer(lambda seen: posts.append(seen.body["completed"]) or "ok") as hook:
        config = {"webhook_url": f"{hook.url}/completions", "every": 2, "progress_path": str(path)}
        async with opened("ok", StageSpec("progress_tracking", config)) as both:
            for _ in range(5):
                await both.ask(HELLO)
    assert sorted(posts) == [2, 4, 5]
    assert path.read_text() == "5"


async def test_progress_tracking_survives_its_webhook(opened):
    config = {"webhook_url": "http://127.0.0.1:9/", "every": 1}
    async with opened("ok", StageSpec("progress_tracking", config)) as both:
        assert (await both.ask(HELLO)).status == 200
        await asyncio.sleep(0.05)
        assert both.stats()["progress_tracking"]["webhook_failures"] == 1


async def test_logging(opened, caplog):
    caplog.set_level(logging.INFO, "nemo_evaluator.traffic")
    spec = StageSpec("logging", {"preview_chars": 30, "max_requests": 1, "max_responses": 1})
    async with opened(["first", "second", Say(status=400, message="third")], spec) as both:
        for _ in range(3):
            await both.ask(HELLO)
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("POST /chat/completions keys=model,messages") for line in lines) == 1
    assert sum(line.startswith("200 ") for line in lines) == 1
    assert sum(line.startswith("400 ") for line in lines) == 1
    assert all(len(line) < 120 for line in lines)


@pytest.mark.parametrize(
    ("say", "config", "content", "reasoning"),
    [
        (Say("a", reasoning="r", reasoning_field="reasoning"), {}, "a", "r"),
        (Say("<think>r</think>\na"), {}, "a", "r"),
        (Say("r</think>a"), {}, "a", "r"),
        (Say("[T]r[/T]a"), {"start_token": "[T]", "end_token": "[/T]"}, "a", "r"),
        (Say("<think>cut"), {}, "<think>cut", None),
        (Say("<think>cut"), {"include_if_not_finished": False}, "", "cut"),
    ],
)
async def test_reasoning(opened, tmp_path, say, config, content, reasoning):
    path = tmp_path / "reasoning.json"
    async with opened(say, StageSpec("reasoning", {**config, "stats_path": str(path)})) as both:
        message = (await both.ask(HELLO)).message
    assert message["content"] == content
    assert message.get("reasoning_content") == reasoning
    assert "reasoning" not in message
    kept = json.loads(path.read_text())
    assert (kept["answers"], kept["with_reasoning"]) == (1, 1 if reasoning else 0)
    assert kept["unfinished"] == int(say.text == "<think>cut")


@pytest.mark.parametrize("mode", ["think_tags", "native", "both"])
async def test_reasoning_replay(opened, mode):
    first = Say("", reasoning="because", tool_calls=[{"id": "c1", "name": "f", "arguments": {}}])
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        *HELLO["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]
    async with opened([first, "ok"], StageSpec("reasoning_replay", {"mode": mode})) as both:
        await both.ask(HELLO, session="aa")
        await both.ask({"model": "m", "messages": history}, session="aa")
        await both.ask({"model": "m", "messages": history}, session="bb")
    filled = sent(both, 1)["messages"][1]
    if mode in ("native", "both"):
        assert filled["reasoning_content"] == filled["reasoning"] == "because"
    if mode in ("think_tags", "both"):
        assert filled["content"] == "<think>because</think>\n"
    assert sent(both, 2)["messages"] == history
    assert both.stats()["reasoning_replay"]["hits"] == 1


async def test_reasoning_replay_by_text_and_its_size(opened):
    spec = StageSpec(
        "reasoning_replay", {"cache_max_entries": 1, "tag_open": "<r>", "tag_close": "</r>"}
    )
    script = [Say("one", reasoning="r1"), Say("two", reasoning="r2"), "ok"]
    history = [{"role": "assistant", "content": "one"}, {"role": "assistant", "content": "two"}]
    async with opened(script, spec) as both:
        await both.ask(HELLO, session="s")
        await both.ask(HELLO, session="s")
        await both.ask({"model": "m", "messages": history}, session="s")
    assert [m["content"] for m in sent(both)["messages"]] == ["one", "<r>r2</r>\ntwo"]


async def test_finish_reason(opened):
    usage = {"prompt_tokens": 1, "completion_tokens": 5}
    async with opened(Say("x", usage=usage), finish_reason_fixup=True) as both:
        cut = await both.ask({**HELLO, "max_tokens": 5})
        free = await both.ask({**HELLO, "max_tokens": 6})
        newer = await both.ask({**HELLO, "max_completion_tokens": 5, "max_tokens": 99})
    reasons = [answer.body["choices"][0]["finish_reason"] for answer in (cut, free, newer)]
    assert reasons == ["length", "stop", "length"]
    assert both.stats()["finish_reason"]["mended"] == 2


async def test_streaming_asks_for_a_stream_and_gathers_it(opened):
    say = Say(
        "one two", reasoning="r", tool_calls=[{"id": "c", "name": "f", "arguments": {"a": [1, 2]}}]
    )
    async with opened(say, StageSpec("streaming", {"request": True})) as both:
        answer = await both.ask(HELLO)
        text = (
            await both.ask({"model": "m", "prompt": "q"}, path="/completions")
            if both.kind == "process"
            else None
        )
    assert sent(both, 0)["stream"] is True
    assert sent(both, 0)["stream_options"] == {"include_usage": True}
    assert answer.message["content"] == "one two"
    assert answer.message["reasoning_content"] == "r"
    assert answer.message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":[1,2]}'}
    assert answer.body["usage"]["total_tokens"] > 0
    if text is not None:
        assert text.body["choices"][0]["text"] == "one two"


async def test_streaming_errors_are_errors(opened):
    async with opened(
        [Say("a b c d", fault=Fault.STREAM_ERROR)], StageSpec("streaming", {"request": True})
    ) as both:
        answer = await both.ask(HELLO)
    assert answer.status == 502
    assert both.server.count == 2


async def test_streaming_gathers_what_an_agent_asked_to_stream(opened):
    async with opened("one two", StageSpec("streaming")) as both:
        answer = await both.ask({**HELLO, "stream": True})
    assert answer.message["content"] == "one two"


async def test_http_pairs_dump(opened, tmp_path):
    from nemo_evaluator.core.secrets import Secret

    Secret("sk-dump-me-not")
    path = tmp_path / "pairs.json"
    script = [
        "one",
        "two",
        Say(status=400, message="three sk-dump-me-not", headers={"Set-Cookie": "c=1"}),
    ]
    async with opened(
        script, StageSpec("http_pairs_dump", {"dump_path": str(path), "first_n": 1})
    ) as both:
        for _ in range(3):
            await both.ask(HELLO, session="aa")
    dumped = json.loads(path.read_text())
    assert dumped["metrics"] == {"200": 2, "400": 1}
    assert [pair["response"]["status"] for pair in dumped["pairs"]] == [200, 400]
    assert dumped["pairs"][0]["request"]["body"] == HELLO
    assert dumped["pairs"][0]["session_id"] == "aa"
    assert dumped["pairs"][1]["response"]["headers"]["set-cookie"] == "***"
    assert "sk-dump-me-not" not in path.read_text()
    assert not list(tmp_path.glob("*.part"))


async def test_http_pairs_dump_is_bounded(opened, tmp_path):
    path = tmp_path / "pairs.json"
    config = {"dump_path": str(path), "first_n": 9, "max_bytes": 1500}
    async with opened("x" * 500, StageSpec("http_pairs_dump", config)) as both:
        for _ in range(5):
            await both.ask(HELLO)
    dumped = json.loads(path.read_text())
    assert 1 <= len(dumped["pairs"]) < 5
    assert dumped["left_out"] == 5 - len(dumped["pairs"])


async def test_endpoint_settings(opened):
    config = {
        "max_retries": 0,
        "extra_body": {"top_k": 1},
        "extra_headers": {"X-E": "1"},
        "request_timeout": 1,
    }
    async with opened([Say(status=500), "ok"], StageSpec("endpoint", config)) as both:
        answer = await both.ask(HELLO)
    assert answer.status == 500
    assert both.server.count == 1
    assert sent(both)["top_k"] == 1
    assert both.server.requests[0].headers["x-e"] == "1"
    assert both.door.endpoint.timeouts.total == 1


async def test_verbose_logs_one_line_per_request(opened, caplog):
    caplog.set_level(logging.INFO, "nemo_evaluator.traffic")
    async with opened("ok", verbose=True) as both:
        await both.ask(HELLO)
    assert [record.getMessage()[:4] for record in caplog.records] == ["POST", "200 "]
