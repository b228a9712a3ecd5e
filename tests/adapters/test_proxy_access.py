"""What an agent cannot do with the key that it was given: other routes, other models, other sessions, holding on."""

from __future__ import annotations

import asyncio
import contextlib
import json

import aiohttp
import openai
import pytest

from nemo_evaluator.adapters import _connection
from nemo_evaluator.adapters import proxy as proxy_module
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.models import CallScope, Price, StageSpec
from nemo_evaluator.models.budget import Budget
from nemo_evaluator.testing import Say

CHAT = "/chat/completions"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
KEY = "sk-lent-0123456789"


async def _ask(url, key, body=None, **headers):
    async with (
        aiohttp.ClientSession() as client,
        client.post(
            url, json=body or HELLO, headers={"Authorization": f"Bearer {key}", **headers}
        ) as response,
    ):
        return response.status, await response.json(content_type=None)


async def _raw(proxy, target, method="POST"):
    """A request whose target no client library has tidied up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    body = json.dumps(HELLO)
    head = (
        f"{method} {target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {proxy.token.reveal()}\r\n"
    )
    writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode())
    said = await reader.read()
    writer.close()
    return int(said.split()[1])


@pytest.mark.parametrize(
    "target",
    [
        "/v1/../../admin",
        "/v1/%2e%2e/%2e%2e/admin",
        "/v1/..%2f..%2fadmin",
        "/v1/chat/completions/../../files",
        "/v1/chat%2fcompletions%2f..%2f..%2ffiles",
        "/v1/chat/completions%3Fx=1",
        "/v1/chat/completions%23",
        "/v1/chat/completions;x",
        "/v1//chat/completions",
        "/v1/v1/chat/completions",
        "/v1/files",
        "/v1/fine_tuning/jobs",
        "/v1/batches",
        "/v1/responses/resp_1/cancel",
        "/v1/messages/batches",
        "/v1/audio/speech",
        "/admin",
        "/",
        "http://elsewhere/v1/files",
        "/s/x/../../v1/files",
    ],
)
async def test_other_routes_do_not_reach_the_service(proxied, target):
    async with proxied("ok") as (proxy, server):
        for method in ("POST", "GET"):
            assert await _raw(proxy, target, method) in (400, 404)
        assert await _raw(proxy, "/v1/files", "DELETE") == 405
        assert server.count == 0


async def test_the_query_and_the_headers_of_an_agent_stay_behind(proxied):
    async with proxied("ok", api_key=Secret(KEY)) as (proxy, server):
        more = {
            "X-Original-URL": "/admin",
            "OpenAI-Organization": "o",
            "api-key": "k",
            "X-Request-Id": "r1",
        }
        status, _ = await _ask(f"{proxy.url}{CHAT}?key=mine&admin=1", proxy.token.reveal(), **more)
        assert status == 200
        seen = server.requests[0]
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["x-request-id"] == "r1"
    assert not {"x-original-url", "openai-organization", "api-key"} & set(seen.headers)


@pytest.mark.parametrize("path", [CHAT, "/completions", "/responses", "/messages", "/embeddings"])
async def test_the_model_is_pinned(proxied, path):
    async with proxied("ok", allowed_models=("m-mini",)) as (proxy, server):
        for change in (
            {"model": "gpt-dear"},
            {"model": ["m"]},
            {"model": {"a": 1}},
            {"models": ["m", "gpt-dear"]},
        ):
            status, body = await _ask(proxy.url + path, proxy.token.reveal(), {**HELLO, **change})
            assert status == 404, change
            assert "'m', 'm-mini'" in body["error"]["message"]
        assert server.count == 0
        prompt = {"prompt": "q", "input": "q", "max_tokens": 5}
        for model in ("m", "m-mini", None, ""):
            assert (
                await _ask(
                    proxy.url + path, proxy.token.reveal(), {**HELLO, **prompt, "model": model}
                )
            )[0] == 200
    assert [seen.body["model"] for seen in server.requests] == ["m", "m-mini", "m", "m"]


async def test_clients_understand_the_refusal(proxied):
    async with (
        proxied("ok") as (proxy, _),
        openai.AsyncOpenAI(base_url=proxy.url, api_key=proxy.token.reveal()) as client,
    ):
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(model="gpt-dear", messages=HELLO["messages"])
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
        assert (await client.models.retrieve("m")).id == "m"
        assert [model.id async for model in client.models.list()] == ["m"]


async def test_a_session_key_opens_its_session_and_no_other(proxied):
    async with proxied("ok", StageSpec("turn_counter", {"max_turns": 2})) as (proxy, server):
        one, two = (proxy.session(CallScope(name)) for name in ("one", "two"))
        key = proxy.key_of("one").reveal()
        assert [(await _ask(one + CHAT, key))[0] for _ in range(3)] == [200, 200, 429]
        # Another session, an invented one, none at all, another first message, a header: the turns stay used up.
        other = {"messages": [{"role": "user", "content": "another beginning"}]}
        assert (await _ask(two + CHAT, key))[0] == 403
        assert (await _ask(f"{proxy.root}/s/new/v1{CHAT}", key))[0] == 403
        assert (await _ask(proxy.url + CHAT, key))[0] == 429
        assert (await _ask(one + CHAT, key, other))[0] == 429
        assert (await _ask(one + CHAT, key, **{"X-Session-Id": "two", "session_id": "two"}))[
            0
        ] == 429
        assert (await _ask(one + CHAT, "two" + key[3:]))[0] == 401
        assert server.count == 2
        key_of_two = proxy.key_of("two").reveal()
        assert (await _ask(two + CHAT, key_of_two))[0] == 200
        proxy.forget("two")
        assert (await _ask(two + CHAT, key_of_two))[0] == 403
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"{proxy.root}/stats", headers={"x-api-key": key}) as response,
        ):
            assert response.status == 404
    with pytest.raises(UsageError):
        proxy.session(CallScope("../up"))


async def test_without_sessions_the_turns_of_all_calls_count_together(proxied):
    async with proxied("ok", StageSpec("turn_counter", {"max_turns": 2})) as (proxy, server):
        key = proxy.token.reveal()
        bodies = [{"messages": [{"role": "user", "content": f"beginning {n}"}]} for n in range(4)]
        assert [(await _ask(proxy.url + CHAT, key, body))[0] for body in bodies] == [
            200,
            200,
            429,
            429,
        ]
        assert (await _ask(f"{proxy.root}/s/other/v1{CHAT}", key))[0] == 404
        assert server.count == 2


@pytest.mark.parametrize("count", [-1_000_000, -1, 10**30, 1e308, "5", True, None])
async def test_a_strange_usage_gives_no_budget_back(proxied, count):
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}
    async with proxied(Say("ok", usage=usage), price=Price(1.0, 1.0)) as (proxy, _):
        budget = Budget("run", tokens=100, usd=1.0)
        budget.resume(tokens=99, usd=0.5)
        url = proxy.session(CallScope("a", budgets=(budget,)))
        await _ask(url + CHAT, proxy.key_of("a").reveal())
    assert budget.spent()["tokens"] >= 99
    assert budget.spent()["usd"] >= 0.5


async def test_a_key_that_the_service_says_back_does_not_reach_the_agent(proxied):
    script = [
        Say(status=401, message=f"{KEY} is wrong"),
        Say(status=500, body=f"<html>{KEY}"),
        Say(f"it is {KEY}", reasoning=KEY, finish_reason=KEY, headers={"X-Request-Id": KEY}),
        Say(f"it is {KEY}", chunks=30),
        Say(status=200, body=f"plain {KEY}"),
    ]
    async with (
        proxied(script, api_key=Secret(KEY)) as (proxy, server),
        aiohttp.ClientSession() as client,
    ):
        headers = {"Authorization": f"Bearer {proxy.token.reveal()}"}
        said = []
        while server.count < len(script):
            body = {**HELLO, "stream": server.count in (3, 4)}
            async with client.post(proxy.url + CHAT, json=body, headers=headers) as response:
                text = await response.text()
                pieces = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
                deltas = [
                    choice["delta"]
                    for piece in pieces
                    for choice in json.loads(piece).get("choices", [])
                ]
                said += [
                    text,
                    str(response.headers),
                    "".join(delta.get("content") or "" for delta in deltas),
                ]
    assert "it is " in "".join(said)
    assert not [text for text in said if KEY[4:] in text]


async def _closed_within(reader, seconds):
    try:
        async with asyncio.timeout(seconds):
            while await reader.read(65536):
                pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow: "]
)
async def test_a_connection_whose_headers_do_not_come_is_closed(proxied, monkeypatch, sent):
    monkeypatch.setattr(_connection, "HEADERS_BOUND", 0.3)
    async with proxied("ok") as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(sent)

        async def trickle():
            while sent and not writer.is_closing():
                writer.write(b"a")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        assert await _closed_within(reader, 5)
        trickling.cancel()
        writer.close()


async def test_a_connection_whose_body_does_not_come_is_closed(proxied, monkeypatch):
    monkeypatch.setattr(proxy_module, "BODY_BOUND", 0.3)
    async with proxied("ok") as (proxy, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {proxy.token.reveal()}\r\n"
        writer.write(f"{head}content-length: 500\r\n\r\n{{".encode())
        async with asyncio.timeout(5):
            said = await reader.read()
        writer.close()
        assert b" 408 " in said
        assert server.count == 0


async def test_endless_headers_are_cut_off(proxied):
    async with proxied("ok") as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n" + b"x-more: " + b"a" * 2_000_000
        )
        assert await _closed_within(reader, 5)
        writer.close()


async def test_an_agent_that_does_not_read_is_left(proxied, monkeypatch):
    monkeypatch.setattr(_connection, "READING_BOUND", 0.5)
    async with proxied(Say("x" * 30_000_000, chunks=3000)) as (proxy, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1024)
        body = json.dumps({**HELLO, "stream": True})
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {proxy.token.reveal()}\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        # Generous, since a busy machine takes its time to send; without the bound it would be in flight for ever.
        async with asyncio.timeout(90):
            while not server.count or proxy.stats()["in_flight"]:
                await asyncio.sleep(0.05)
        # It was cut off, and not served to its end.
        received = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(30):
                while data := await reader.read(1 << 20):
                    received += len(data)
        assert received < 30_000_000
        writer.close()
