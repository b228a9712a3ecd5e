"""The proxy: token, sessions, errors, streams, leaving, many sessions."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import aiohttp
import pytest

from nemo_evaluator.adapters import Proxy, _json_bodies
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.models import CallScope, Endpoint, RetryConfig, StageSpec, Timeouts
from nemo_evaluator.testing import Fault, Say

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CHAT = "/chat/completions"


def _headers(proxy):
    return {"Authorization": f"Bearer {proxy.token.reveal()}"}


async def _post(proxy, body=None, path=CHAT, url=None, headers=None, data=None):
    async with aiohttp.ClientSession() as client:
        target = (url or proxy.url) + path
        given = _headers(proxy) if headers is None else headers
        async with client.post(target, json=body, data=data, headers=given) as response:
            return response.status, await response.json(content_type=None), dict(response.headers)


async def test_without_the_token_nothing_is_said(proxied):
    async with proxied("ok") as (proxy, server):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
            status, body, _ = await _post(proxy, HELLO, headers=headers)
            assert status == 401
            assert "token" in body["error"]["message"]
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{proxy.root}/stats") as response:
                assert response.status == 401
            async with client.get(f"{proxy.root}/health") as response:
                assert await response.json() == {"status": "ok"}
        assert server.count == 0
        assert (await _post(proxy, HELLO, headers={"x-api-key": proxy.token.reveal()}))[0] == 200


async def test_the_upstream_key_is_used_and_not_shown(proxied):
    settings = {
        "api_key": Secret("sk-upstream-123456"),
        "server": {"api_key": "sk-upstream-123456"},
    }
    async with proxied("ok", **settings) as (proxy, server):
        status, body, headers = await _post(proxy, HELLO)
        assert status == 200
        assert server.requests[0].headers["authorization"] == "Bearer sk-upstream-123456"
        assert "sk-upstream" not in json.dumps([body, headers, proxy.stats()])
        assert proxy.token.reveal() not in str(server.requests[0].headers)


async def test_it_listens_on_loopback_only(proxied):
    async with proxied("ok") as (proxy, _):
        outside = {
            info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
        }
        for address in outside - {"127.0.0.1"}:
            with pytest.raises(OSError):
                socket.create_connection((address, proxy.port), timeout=0.5)
    for host in ("0.0.0.0", "::", "example.org"):
        with pytest.raises(UsageError):
            Proxy(Endpoint("x", "http://127.0.0.1:1/v1"), host=host)


async def test_paths_with_and_without_version_and_session(proxied):
    async with proxied("ok", StageSpec("turn_counter", {"max_turns": 9})) as (proxy, server):
        proxy.session(CallScope("ab12"))
        for path in (
            "/v1/chat/completions",
            "/chat/completions",
            "/s/ab12/v1/chat/completions",
            "/s/ab12/chat/completions",
        ):
            status, _, _ = await _post(proxy, HELLO, url=proxy.root, path=path)
            assert status == 200, path
        assert {seen.path for seen in server.requests} == {"/v1/chat/completions"}
        assert proxy.stats()["stages"]["turn_counter"]["sessions"] == 2


async def test_bad_requests_are_told_clearly(proxied):
    async with proxied("ok") as (proxy, server):
        assert (await _post(proxy, [1, 2]))[0] == 400
        status, body, _ = await _post(proxy, data=b"{oops")
        assert (status, body["error"]["message"]) == (400, "the body is not a JSON object")
        async with aiohttp.ClientSession() as client:
            async with client.put(proxy.url + CHAT, json={}, headers=_headers(proxy)) as response:
                assert response.status == 405
            async with client.get(f"{proxy.url}/models", headers=_headers(proxy)) as response:
                assert (await response.json())["data"][0]["id"] == "m"
        assert server.count == 0


@pytest.mark.parametrize(
    ("say", "status", "words"),
    [
        (Say(status=400, message="too hot"), 400, "too hot"),
        (Say(status=404, message="no such model"), 404, "no such model"),
        (Say(status=422, message="odd"), 422, "odd"),
        (Say(status=429, message="slow", retry_after=0), 429, "slow"),
        (Say(status=503, message="busy"), 503, "busy"),
        (Say(fault=Fault.STALL), 504, "timeouts.first_byte"),
        (Say(fault=Fault.RESET), 502, "connection"),
        (Say(fault=Fault.MALFORMED_JSON), 502, "without JSON"),
        (Say(fault=Fault.EMPTY_CHOICES), 502, "without choices"),
    ],
)
async def test_errors_keep_their_meaning(proxied, say, status, words):
    async with proxied(say, timeouts=Timeouts(1.0, 0.5, 0.5, 3.0)) as (proxy, server):
        got, body, headers = await _post(proxy, HELLO)
    assert got == status
    assert words in body["error"]["message"]
    if server.count > 1:
        # Retries are done here, so that the agent's client must not multiply them.
        assert headers["x-should-retry"] == "false"


async def test_the_guard_of_text_completions_is_a_400(proxied):
    async with proxied("ok", protocol="completions") as (proxy, server):
        body = {"prompt": "q", "chat_template_kwargs": {"enable_thinking": True}}
        status, answer, _ = await _post(proxy, body, path="/completions")
    assert status == 400
    assert "chat template" in answer["error"]["message"]
    assert server.count == 0


async def test_a_broken_interceptor_is_named(proxied, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from nemo_evaluator.adapters import Interceptor\n"
        "class Broken(Interceptor):\n"
        "    async def on_request(self, request):\n"
        "        raise KeyError('lost')\n"
    )
    async with proxied("ok", StageSpec("mine.py:Broken"), base_dir=tmp_path) as (proxy, _):
        status, body, _ = await _post(proxy, HELLO)
    assert status == 502
    assert "KeyError" in body["error"]["message"]


async def test_streams_pass_as_they_come(proxied):
    say = Say("one two three four", chunk_delay=0.1)
    async with (
        proxied(say, timeouts=Timeouts(1, 1, 1, 9)) as (proxy, _),
        aiohttp.ClientSession() as client,
    ):
        loop = asyncio.get_running_loop()
        times, text = [], b""
        async with client.post(
            proxy.url + CHAT, json={**HELLO, "stream": True}, headers=_headers(proxy)
        ) as response:
            assert response.content_type == "text/event-stream"
            async for data in response.content.iter_any():
                times.append(loop.time())
                text += data
    assert len(times) >= 4
    assert times[-1] - times[0] > 0.25
    assert text.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
async def test_when_the_agent_leaves_so_do_we(proxied, stream):
    say = Say("a b c d e f g h", delay=0 if stream else 5, chunk_delay=0.2)
    async with proxied(say, timeouts=Timeouts(1, 9, 9, 9)) as (proxy, server):
        async with aiohttp.ClientSession() as client:
            body = {**HELLO, "stream": stream}
            request = asyncio.create_task(
                client.post(proxy.url + CHAT, json=body, headers=_headers(proxy))
            )
            while not server.in_flight:
                await asyncio.sleep(0.01)
            if stream:
                response = await request
                await response.content.readany()
                response.close()
            else:
                request.cancel()
        for _ in range(100):
            if server.cancelled:
                break
            await asyncio.sleep(0.02)
        assert server.cancelled == 1
        assert proxy.pipeline.transport.lane.limiter.in_flight == 0
        assert proxy.stats()["in_flight"] == 0


def _raw_post(proxy, size: int = 0) -> bytes:
    """A request for an answer, as bytes; with a body of at least so many."""
    messages = [{"role": "user", "content": "hello" + "o" * size}]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    lines = (
        f"POST /v1{CHAT} HTTP/1.1",
        f"host: {proxy.host}:{proxy.port}",
        f"authorization: Bearer {proxy.token.reveal()}",
        f"content-length: {len(body)}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


async def test_an_agent_that_leaves_a_pipeline_ends_the_call_under_way(proxied, caplog):
    async with proxied(Say("4", delay=5), timeouts=Timeouts(1, 9, 9, 9)) as (proxy, server):
        _, writer = await asyncio.open_connection(proxy.host, proxy.port)
        writer.write(_raw_post(proxy) * 3)
        while not server.in_flight:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        for _ in range(100):
            if server.cancelled:
                break
            await asyncio.sleep(0.02)
        assert (server.cancelled, server.count) == (1, 1)
        assert proxy.stats()["in_flight"] == 0
    assert [record.getMessage() for record in caplog.records if "uvicorn" in record.name] == []


async def test_an_agent_that_leaves_before_its_call_starts_makes_none(proxied):
    async with proxied(Say("4")) as (proxy, server):
        # A large body waits for its turn to be parsed.
        turn = asyncio.get_running_loop().run_in_executor(
            _json_bodies._one_at_a_time, time.sleep, 1
        )
        _, writer = await asyncio.open_connection(proxy.host, proxy.port)
        writer.write(_raw_post(proxy, 600_000))
        await writer.drain()
        await asyncio.sleep(0.5)
        assert not turn.done()
        writer.transport.abort()
        await turn
        await asyncio.sleep(0.5)
        assert server.count == 0
        assert (await _post(proxy, HELLO))[0] == 200


@pytest.mark.parametrize("fault", [Fault.STREAM_ERROR, Fault.STREAM_RESET, Fault.STREAM_STALL])
async def test_a_stream_that_breaks_says_so(proxied, fault):
    quick = Timeouts(1.0, 0.5, 0.5, 3.0)
    async with (
        proxied(Say("a b c d e f", fault=fault), timeouts=quick) as (proxy, _),
        aiohttp.ClientSession() as client,
    ):
        body = {**HELLO, "stream": True}
        async with client.post(proxy.url + CHAT, json=body, headers=_headers(proxy)) as response:
            text = (await response.read()).decode()
    assert '"error"' in text
    assert "[DONE]" not in text.split('"error"')[1] or fault is Fault.STREAM_ERROR


async def test_a_slow_agent_slows_the_service(proxied):
    """Back-pressure: what the agent does not read is not fetched."""
    say = Say("x" * 30_000_000, chunks=3000)
    async with (
        proxied(say, timeouts=Timeouts(9, 60, 60, 300)) as (proxy, server),
        aiohttp.ClientSession(read_bufsize=2**14) as client,
    ):
        body = {**HELLO, "stream": True}
        async with client.post(proxy.url + CHAT, json=body, headers=_headers(proxy)) as response:
            await response.content.readany()
            await asyncio.sleep(0.4)
            assert server.in_flight == 1
            total = 0
            async for data in response.content.iter_any():
                total += len(data)
        assert total > 30_000_000
        assert server.in_flight == 0


async def test_stages_see_streams(proxied, tmp_path):
    seen = []
    say = Say(
        "<think>why</think>the answer", chunks=9, usage={"prompt_tokens": 3, "completion_tokens": 4}
    )
    stages = [StageSpec("reasoning"), StageSpec("log_tokens"), StageSpec("response_stats")]
    async with (
        proxied(say, *stages, finish_reason_fixup=True) as (proxy, _),
        aiohttp.ClientSession() as client,
    ):
        body = {**HELLO, "stream": True, "max_tokens": 4}
        async with client.post(proxy.url + CHAT, json=body, headers=_headers(proxy)) as response:
            text = (await response.read()).decode()
        stats = proxy.stats()["stages"]
    for line in text.splitlines():
        if line.startswith("data: {"):
            seen.extend(json.loads(line[6:])["choices"])
    deltas = [choice["delta"] for choice in seen]
    assert "".join(delta.get("content") or "" for delta in deltas) == "the answer"
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "why"
    assert [choice["finish_reason"] for choice in seen if choice["finish_reason"]] == ["length"]
    assert text.endswith("data: [DONE]\n\n")
    assert stats["log_tokens"] == {"prompt_tokens": 3, "completion_tokens": 4}
    assert stats["response_stats"]["count"] == 1


async def test_a_thousand_sessions_at_once(proxied):
    count = 1000
    settings = {
        "max_concurrent": 1000,
        "timeouts": Timeouts(10, 30, 30, 60),
        "retry": RetryConfig(0),
    }
    async with proxied(
        Say("ok", delay=0.05), StageSpec("turn_counter", {"max_turns": 1}), **settings
    ) as (
        proxy,
        server,
    ):
        urls = [
            proxy.session(CallScope(f"s{number}", problem_idx=number)) for number in range(count)
        ]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

            async def ask(url):
                async with client.post(url + CHAT, json=HELLO, headers=_headers(proxy)) as response:
                    await response.read()
                    return response.status

            statuses = await asyncio.gather(*map(ask, urls))
        assert statuses == [200] * count
        assert server.count == count
        assert proxy.stats()["sessions"] == count


async def test_stopping_leaves_what_is_under_way(proxied):
    async with proxied(Say("ok", delay=9), timeouts=Timeouts(1, 20, 20, 20)) as (proxy, server):
        async with aiohttp.ClientSession() as client:
            request = asyncio.create_task(
                client.post(proxy.url + CHAT, json=HELLO, headers=_headers(proxy))
            )
            while not server.in_flight:
                await asyncio.sleep(0.01)
            await asyncio.wait_for(proxy.stop(), 4)
            await asyncio.gather(request, return_exceptions=True)
            await asyncio.sleep(0.05)
        assert server.cancelled == 1
