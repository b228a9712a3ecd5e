"""Traffic records and the file they go to."""

from __future__ import annotations

import json

import aiohttp
import pytest

from nemo_evaluator.adapters import Proxy, ServicePipeline, TrafficLog
from nemo_evaluator.config.traffic import ModelTrafficConfig
from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.models import CallScope, Price, call_scope
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.retry import RetryConfig
from nemo_evaluator.testing import Fault, Say, ScriptedServer

HELLO = [{"role": "user", "content": "hello"}]
KEY = "sk-traffic-0123456789"


def _endpoint(server, **settings):
    return Endpoint(
        "svc",
        server.url,
        model="m",
        retry=RetryConfig(0),
        **{"traffic": ModelTrafficConfig(), **settings},
    )


async def test_a_record_has_the_documented_fields(tmp_path):
    say = Say(
        "forty-two",
        reasoning="six by seven",
        tool_calls=[{"id": "c", "name": "add", "arguments": {"a": 1}}],
        usage={
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    )
    log = TrafficLog(tmp_path / "model_traffic.jsonl")
    async with ScriptedServer(say) as server:
        door = ServicePipeline(_endpoint(server, price=Price(1, 2)))
        call_scope.set(CallScope("abcd", "gsm8k", 3, 1, traffic=log.write))
        await door.client().chat(HELLO)
        await door.close()
    log.close()
    (record,) = iter_jsonl(log.path)
    assert record.pop("model_traffic_request_id") == f"abcd:{record.pop('adapter_request_id')}"
    assert record.pop("timestamp").endswith("Z")
    assert record.pop("latency_ms") > 0
    assert len(record.pop("request_hash")) == 16
    assert record.pop("cost_usd") == pytest.approx(20e-6)
    assert record == {
        "benchmark": "gsm8k",
        "problem_idx": 3,
        "repeat": 1,
        "session_id": "abcd",
        "service": "svc",
        "method": "POST",
        "path": "/chat/completions",
        "status_code": 200,
        "model": "m",
        "finish_reason": "stop",
        "attempts": 1,
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "cached_tokens": 4,
        },
        "token_provenance": "provider_reported",
        "tool_calls": {"count": 1, "names": {"add": 1}},
        "tool_calls_full": [{"id": "c", "name": "add", "arguments": '{"a":1}'}],
        "reasoning_content": "six by seven",
        "message_content": "forty-two",
    }


async def test_capture_settings(tmp_path):
    say = Say("a long answer", reasoning="r", tool_calls=[{"id": "c", "name": "f"}])
    records = []
    async with ScriptedServer(say) as server:
        none = ModelTrafficConfig(
            capture_tool_calls=False,
            capture_reasoning=False,
            capture_messages=False,
            capture_request_body=True,
        )
        for capture in (none, ModelTrafficConfig(max_content_chars=6)):
            door = ServicePipeline(_endpoint(server, traffic=capture))
            call_scope.set(CallScope("s", traffic=records.append))
            await door.client().chat(HELLO)
            await door.close()
    bare, cut = records
    assert not {"tool_calls_full", "reasoning_content", "message_content"} & set(bare)
    assert bare["request_body"]["messages"] == HELLO
    assert cut["message_content"] == "a long… [7 characters left out]"
    assert "request_body" not in cut


async def test_errors_are_recorded_without_secrets(tmp_path):
    log = TrafficLog(tmp_path / "t.jsonl")
    async with ScriptedServer("x", api_key="other") as server:
        door = ServicePipeline(_endpoint(server, api_key=Secret(KEY)))
        call_scope.set(CallScope("s", traffic=log.write))
        with pytest.raises(Exception, match="Incorrect"):
            await door.client().chat([{"role": "user", "content": f"my key is {KEY}"}])
        await door.close()
    async with ScriptedServer(Say(fault=Fault.RESET)) as server:
        door = ServicePipeline(_endpoint(server))
        with pytest.raises(TransportError):
            await door.client().chat(HELLO)
        await door.close()
    log.close()
    refused, broken = iter_jsonl(log.path)
    assert refused["status_code"] == 401
    assert refused["error_message"] == "Incorrect API key provided: ***"
    assert broken["status_code"] is None
    assert broken["error_type"] == "TransportError"
    assert KEY not in log.path.read_text()


async def test_streams_through_the_proxy_are_recorded_with_their_times(tmp_path):
    records = []
    say = Say(
        "one two three", chunk_delay=0.03, usage={"prompt_tokens": 1, "completion_tokens": 30}
    )
    async with (
        ScriptedServer(say) as server,
        Proxy(_endpoint(server)) as proxy,
        aiohttp.ClientSession() as client,
    ):
        url = proxy.session(CallScope("abc", "b", 1, 0, traffic=records.append))
        headers = {"Authorization": f"Bearer {proxy.token.reveal()}"}
        body = {"model": "m", "messages": HELLO, "stream": True}
        async with client.post(f"{url}/chat/completions", json=body, headers=headers) as response:
            await response.read()
    (record,) = records
    assert record["session_id"] == "abc"
    assert record["message_content"] == "one two three"
    assert record["usage"]["completion_tokens"] == 30
    assert 0 < record["time_to_first_token_ms"] < record["latency_ms"]
    assert 30 / 0.5 < record["tokens_per_second"] < 30 / 0.03


async def test_the_file_is_bounded_and_may_hold_metadata_only(tmp_path):
    log = TrafficLog(tmp_path / "t.jsonl", keep="metadata", max_bytes=400)
    for number in range(20):
        log.write({"n": number, "message_content": "x" * 1000})
    log.close()
    records = list(iter_jsonl(log.path))
    assert records[0] == {"n": 0}
    assert log.path.stat().st_size <= 400
    assert len(records) == log.written == 20 - log.left_out
    small = TrafficLog(tmp_path / "u.jsonl", max_bytes=400)
    for number in range(20):
        small.write({"n": number, "text": "x" * 100})
    small.close()
    assert small.left_out == 20 - len(list(iter_jsonl(small.path))) > 10


async def test_without_a_sink_nothing_is_recorded():
    async with ScriptedServer("ok") as server:
        door = ServicePipeline(_endpoint(server))
        call_scope.set(CallScope("s"))
        assert (await door.client().chat(HELLO)).content == "ok"
        await door.close()
    assert json.dumps(server.stats())
