"""Whatever the interceptor, both doors send the same request upstream: body and headers, chat and completions."""

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.adapters import interceptor_registry
from nemo_evaluator.models import StageSpec

CHAT = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Hi", "tool_calls": []},
        {"role": "user", "content": "Why?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}},
        }
    ],
    "temperature": 0.5,
    "user": "u",
}
TEXT = {"model": "m", "prompt": "Why?", "temperature": 0.5, "user": "u"}
SETTINGS: dict[str, dict[str, Any]] = {
    "caching": {"cache_dir": "CACHE"},
    "drop_params": {"params": ["temperature"]},
    "modify_tools": {"strip_properties": ["a"], "add_properties": {"b": {"type": "string"}}},
    "turn_counter": {"max_turns": 2},
    "system_message": {"system_message": "You are careful.", "strategy": "replace"},
    "payload_modifier": {
        "params_to_add": {"top_p": 0.5},
        "params_to_remove": ["user"],
        "params_to_rename": {"temperature": "heat"},
        "headers_to_add": {"X-Team": "evals"},
    },
    "progress_tracking": {"every": 1},
    "http_pairs_dump": {"dump_path": "DUMP"},
    "endpoint": {"extra_body": {"min_p": 0.1}, "extra_headers": {"X-Route": "a"}},
}
# What the two clients before the doors say of themselves, and what belongs to a connection.
OWN = {"user-agent", "accept", "accept-encoding", "connection", "host", "content-length"}


@pytest.mark.parametrize(
    ("path", "body"), [("/chat/completions", CHAT), ("/completions", TEXT)], ids=["chat", "text"]
)
@pytest.mark.parametrize(
    "name", [name for name in interceptor_registry.names() if "_in_tests" not in name]
)
async def test_both_doors_send_the_same(
    open_door: Any, tmp_path: Path, name: str, path: str, body: dict[str, Any]
) -> None:
    upstream = []
    for kind in ("process", "proxy"):
        config = {
            key: str(tmp_path / kind) if value in ("CACHE", "DUMP") else value
            for key, value in SETTINGS.get(name, {}).items()
        }
        protocol = "chat_completions" if body is CHAT else "completions"
        async with open_door(kind, "42", StageSpec(name, config), protocol=protocol) as both:
            answered = await both.ask(body, path=path, session="0123456789abcdef")
            assert answered.status == 200, answered
            (seen,) = both.server.requests
            headers = {
                key.lower(): value for key, value in seen.headers.items() if key.lower() not in OWN
            }
            upstream.append((seen.path, seen.body, headers))
    assert upstream[0] == upstream[1]
