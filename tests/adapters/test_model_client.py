"""The public one-object client."""

from __future__ import annotations

import base64

import pytest

from nemo_evaluator.adapters.model_client import ModelClient
from nemo_evaluator.core.errors import InfraError
from nemo_evaluator.models import RetryConfig
from nemo_evaluator.testing import Say, ScriptedServer


async def test_chat_prompt_system_and_messages():
    async with ScriptedServer("hi") as server:
        async with ModelClient(
            f"{server.url}/chat/completions/", "m", temperature=0.0, max_tokens=5
        ) as client:
            response = await client.chat("q", system="s")
            await client.chat(messages=[{"role": "user", "content": "as is"}], system="ignored")
        assert client.base_url == server.url
    assert server.requests[0].body == {
        "model": "m",
        "temperature": 0.0,
        "max_tokens": 5,
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
    }
    assert server.requests[1].body["messages"] == [{"role": "user", "content": "as is"}]
    assert (response.request_prompt, response.request_system) == ("q", "s")
    assert len(response.request_hash) == 16


async def test_images_go_as_data_uris(tmp_path):
    picture = tmp_path / "dot.jpg"
    picture.write_bytes(b"\xff\xd8")
    async with ScriptedServer("a dot") as server, ModelClient(server.url, "m") as client:
        await client.vlm_chat("what?", [str(picture), "https://example.org/x.png"], detail="low")
        with pytest.raises(FileNotFoundError):
            await client.vlm_chat("what?", [tmp_path / "absent.png"])
    content = server.requests[0].body["messages"][0]["content"]
    data = base64.b64encode(b"\xff\xd8").decode()
    assert content[0] == {
        "type": "image_url",
        "image_url": {"url": f"data:image/jpeg;base64,{data}", "detail": "low"},
    }
    assert content[1]["image_url"]["url"] == "https://example.org/x.png"
    assert content[2] == {"type": "text", "text": "what?"}


async def test_tools_and_overrides():
    say = Say(
        "", tool_calls=[{"id": "1", "name": "f", "arguments": {"a": 1}}], finish_reason="tool_calls"
    )
    async with (
        ScriptedServer(say) as server,
        ModelClient(server.url, "m", temperature=1.0) as client,
    ):
        response = await client.chat_with_tools(
            [], [{"type": "function"}], temperature=0.2, tool_choice="auto"
        )
    assert server.requests[0].body["temperature"] == 0.2
    assert server.requests[0].body["tool_choice"] == "auto"
    assert response.tool_calls[0].arguments == {"a": 1}
    assert response.finish_reason == "tool_calls"


async def test_embeddings():
    async with ScriptedServer() as server, ModelClient(server.url, "m") as client:
        assert await client.embed("abc") == [3.0, 0.0]
        assert await client.embed_batch(["a", "ab"]) == [[1.0, 0.0], [2.0, 1.0]]


async def test_answers_are_kept_in_a_cache_folder(tmp_path):
    async with ScriptedServer("hi") as server:
        for _ in range(2):
            async with ModelClient(server.url, "m", cache_dir=tmp_path) as client:
                assert (await client.chat("q")).content == "hi"
        assert server.count == 1


async def test_failure_is_an_infra_error():
    retry = RetryConfig(max_retries=1, base_delay=0.01)
    async with (
        ScriptedServer(Say(status=500)) as server,
        ModelClient(server.url, "m", retry=retry) as client,
    ):
        with pytest.raises(InfraError):
            await client.chat("q")
    assert server.count == 2


def test_the_key_is_not_shown():
    assert "sk-hidden" not in repr(ModelClient("http://x/v1", "m", api_key="sk-hidden"))
