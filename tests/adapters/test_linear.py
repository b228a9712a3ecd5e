"""No interceptor takes more than linear time, whatever a model or an agent says: 1 MB each, under 0.2 s."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pace import cpu_limit

from nemo_evaluator.adapters import registry
from nemo_evaluator.adapters._stream_scrubber import StreamScrubber
from nemo_evaluator.adapters._streams import encode_event
from nemo_evaluator.adapters.base import Interceptor
from nemo_evaluator.core import secrets
from nemo_evaluator.models import ModelReply, ModelRequest, StageSpec

MB = 1_000_000
# Measures time.
pytestmark = pytest.mark.serial

TEXTS = {
    "spaces": " " * MB,
    "newlines": "\n" * MB,
    "opened": "<think>" * (MB // 7),
    "closed": "</think>" * (MB // 8),
    "half": "<" * MB,
    "half closing": "<think>" + "</thin" * (MB // 6),
    "spaces in thought": "<think>" + " " * MB + "x",
    "backticks": "`" * MB,
    "quotes": '"\\' * (MB // 2),
    "key beginnings": "lin-ear-" * (MB // 8),
    "nulls": "\x00\u2028" * (MB // 2),
}
CONFIGS: dict[str, dict[str, Any]] = {
    "turn_counter": {"max_turns": 2, "position": "user_message", "trigger": "periodic"},
    "system_message": {"system_message": "be brief"},
    "modify_tools": {"strip_properties": ["a"], "add_properties": {"b": {"type": "string"}}},
    "payload_modifier": {
        "params_to_remove": ["a"],
        "params_to_rename": {"b": "c"},
        "params_to_add": {"d": {"e": 1}},
    },
    "drop_params": {"params": ["seed"]},
    "http_pairs_dump": {"dump_path": "pairs.json"},
    "caching": {"cache_dir": "cache"},
    "progress_tracking": {"progress_path": "progress"},
    "reasoning": {"include_if_not_finished": False},
}


@pytest.fixture(autouse=True)
def one_secret() -> Iterator[None]:
    """Only one secret is known, whatever ran before in this process: each one that is looked for takes time."""
    before = dict(secrets._known)
    secrets._known.clear()
    secrets.Secret("lin-ear-lin-ear-0123456789")
    yield
    secrets._known.update(before)
    secrets._arrange()


def _request(text: str) -> ModelRequest:
    messages = [
        {"role": "system", "content": text},
        {"role": "user", "content": [{"type": "text", "text": text}]},
        {"role": "assistant", "content": text, "reasoning_content": text},
        {"role": "system", "content": text},
    ]
    return ModelRequest(
        "/chat/completions", {"model": "m", "messages": messages, "max_tokens": 4, "b": {"a": text}}
    )


def _reply(text: str) -> ModelReply:
    message = {"role": "assistant", "content": text, "tool_calls": []}
    usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
    return ModelReply(
        200,
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage},
    )


def _events(text: str) -> list[dict[str, Any]]:
    """The text as a stream of 2,000 pieces."""
    size = len(text) // 2000 + 1
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
        for piece in pieces
    ]
    return [*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


OURS = [
    name
    for name in registry.interceptor_registry.names()
    if not name.endswith("_in_tests") and name != "endpoint"
]


async def _finished(result):
    """Wait for the result of a hook, where the hook is a coroutine function."""
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize("name", OURS)
async def test_interceptors_are_linear(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind, text in TEXTS.items():
        await check_that_a_text_is_read_in_linear_time(name, kind, text)


async def check_that_a_text_is_read_in_linear_time(name, kind, text):
    stage = registry.build_stage(StageSpec(name, CONFIGS.get(name, {})))
    request = _request(text)
    started = time.process_time()
    await _finished(stage.on_request(request))
    request.body = {"model": "m", "messages": [], "max_tokens": 4}
    between = time.process_time()
    await _finished(stage.on_reply(request, _reply(text)))
    ended = time.process_time()
    streamed = 0.0
    if type(stage).on_event is not Interceptor.on_event:
        for event in _events(text):
            stage.on_event(request, event)
        stage.on_end(request)
        streamed = time.process_time() - ended
    await stage.close()
    # A request of this test holds the text five times.
    assert between - started < cpu_limit(1.0), kind
    assert ended - between < cpu_limit(0.2), kind
    assert streamed < cpu_limit(0.2), kind


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_scrubber_of_streams_is_linear(text):
    data = b"".join(map(encode_event, _events(text)))
    times = []
    for _ in range(3):
        scrubber = StreamScrubber()
        started = time.process_time()
        fed = sum(len(scrubber.feed(data[at : at + 4096])) for at in range(0, len(data), 4096))
        assert fed + len(scrubber.finish()) == len(data)
        times.append(time.process_time() - started)
    assert min(times) < cpu_limit(0.2)
