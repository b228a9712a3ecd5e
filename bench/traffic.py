"""What the traffic room costs: the client, the pipeline, one proxy hop, many streams at once.

``python -m bench traffic`` prints the table; everything is measured against the bare aiohttp client in the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop

from bench import client
from bench._measure import server
from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.models import CallScope, Client, Endpoint, StageSpec, call_scope

ROUNDS = 3
FIVE = (
    StageSpec("turn_counter", {"max_turns": 1_000_000, "every": 1_000_000}),
    StageSpec("system_message", {"system_message": "Answer briefly."}),
    StageSpec("payload_modifier", {"params_to_add": {"top_p": 0.9}, "params_to_remove": ["user"]}),
    StageSpec("response_stats", {"every": 1_000_000}),
    StageSpec("reasoning"),
)
_MINIMAL = """
import orjson, uvicorn
ANSWER = orjson.dumps({"choices": [{"message": {"content": "The answer is 42."}}]})
async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": ANSWER})
uvicorn.run(app, host="127.0.0.1", port=PORT, http="httptools", loop="uvloop", lifespan="off", access_log=False,
            log_level="error")
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """A server in a process of its own."""

    url: str
    pid: int
    headers: dict[str, str]

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        """Resident memory."""
        return (
            int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 1e6
        )


@contextmanager
def proxy(upstream: str) -> Iterator[Standing]:
    """``nel proxy`` before a service."""
    service = {
        "type": "api",
        "url": upstream,
        "protocol": "chat_completions",
        "model": "m",
        "max_concurrent": 1024,
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"services": {"m": service}}))
        words = [
            sys.executable,
            "-m",
            "nemo_evaluator.cli.main",
            "proxy",
            str(config),
            "--port",
            "0",
            "--json",
        ]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            try:
                yield Standing(
                    said["url"], process.pid, {"Authorization": f"Bearer {said['token']}"}
                )
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(20)


@contextmanager
def minimal() -> Iterator[Standing]:
    """The least that uvicorn can be: a server that answers the same to everybody."""
    port = 18977
    with subprocess.Popen([sys.executable, "-c", _MINIMAL.replace("PORT", str(port))]) as process:
        try:
            uvloop.run(_until_up(port))
            yield Standing(f"http://127.0.0.1:{port}/v1", process.pid, {})
        finally:
            process.terminate()
            process.wait(20)


async def _until_up(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return
    raise RuntimeError("the minimal server did not start")


async def load(target: Standing, count: int, width: int) -> tuple[float, float]:
    """CPU seconds per request of the bare client and of ``target``."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=width)) as session:

        async def call(number: int) -> None:
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": f"{number} {client.PROMPT}"}],
            }
            headers = {"Content-Type": "application/json", **target.headers}
            data = orjson.dumps(body)
            async with session.post(
                f"{target.url}/chat/completions", data=data, headers=headers
            ) as response:
                orjson.loads(await response.read())["choices"][0]["message"]["content"]

        await client.spread(width, width, call)
        before = target.cpu()
        own = await client.spread(count, width, call)
        return own / count, (target.cpu() - before) / count


async def streams(target: Standing, count: int, tokens: int) -> int:
    """How many of ``count`` streams at once brought every one of their tokens."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one() -> bool:
            body = {
                "model": "m",
                "stream": True,
                "messages": [{"role": "user", "content": "count"}],
            }
            url = f"{target.url}/chat/completions"
            async with session.post(url, json=body, headers=target.headers) as response:
                text = (await response.read()).decode()
            pieces = [
                json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")
            ]
            said = "".join(
                p["choices"][0]["delta"].get("content") or "" for p in pieces if p["choices"]
            )
            return said.split() == ["token"] * tokens and text.endswith("data: [DONE]\n\n")

        return sum(await asyncio.gather(*(one() for _ in range(count))))


def rows() -> list[dict[str, Any]]:
    """The rows of the table."""
    return [*client.rows(), *_rate_limited(), *_pipeline(), *_hop(), *_streams()]


async def _seconds(url: str, count: int, width: int) -> float:
    """How long the client takes for ``count`` calls."""
    async with Client(Endpoint("m", url, max_concurrent=width)) as asked:
        started = time.monotonic()
        # More callers than places: as in the engine, one that waits gives its place away.
        await client.spread(
            count, 4 * width, lambda number: asked.chat([{"role": "user", "content": f"{number}"}])
        )
        return time.monotonic() - started


def _rate_limited(count: int = 4000, width: int = 64) -> list[dict[str, Any]]:
    """Throughput with 429s on random requests against that without; a server that takes 0.1 s for an answer."""
    seconds = []
    for share in ("0", "0.02"):
        with server("--delay", "0.1", "--p429", share, "--retry-after", "1") as url:
            seconds.append(uvloop.run(_seconds(url, count, width)))
    ratio = seconds[0] / seconds[1]
    name = "client: throughput with 429s on 2 % of the requests against none"
    return [{"name": name, "value": ratio, "unit": "x", "limit": 0.7, "at_least": True}]


async def _pairs(url: str, rounds: int, count: int, width: int) -> float:
    """The median ratio of many short pairs, so that what the machine does beside falls on both alike."""
    ratios = []
    async with (
        open_client(Endpoint("m", url, max_concurrent=width)) as none,
        open_client(Endpoint("m", url, max_concurrent=width, stages=FIVE)) as five,
    ):

        async def cost(asked: Client) -> float:
            async def call(number: int) -> None:
                # As the engine does: every step has a session.
                call_scope.set(CallScope(f"session-{number}"))
                await asked.chat([{"role": "user", "content": f"{number} {client.PROMPT}"}])

            return await client.spread(count, width, call)

        for number in range(rounds + 3):
            pair = (await cost(none), await cost(five))
            if number >= 3:
                ratios.append(pair[1] / pair[0])
    return statistics.median(ratios)


def _pipeline(rounds: int = 31, count: int = 300, width: int = 64) -> list[dict[str, Any]]:
    with server("--answer", "The answer is 42.") as url:
        ratio = uvloop.run(_pairs(url, rounds, count, width))
    return [
        {
            "name": "pipeline: five interceptors against none",
            "value": ratio,
            "unit": "x",
            "limit": 1.35,
        }
    ]


def _hop(count: int = 3000, width: int = 64) -> list[dict[str, Any]]:
    with minimal() as plain:
        measured = [uvloop.run(load(plain, count, width)) for _ in range(ROUNDS)]
    bare, serving = min(m[0] for m in measured), min(m[1] for m in measured)
    with server("--answer", "The answer is 42.") as url, proxy(url) as between:
        hop = min(uvloop.run(load(between, count, width))[1] for _ in range(ROUNDS))
    return [
        {"name": "proxy: CPU of one hop", "value": 1e6 * hop, "unit": "µs", "limit": None},
        {
            "name": "proxy: CPU of a minimal uvicorn answer",
            "value": 1e6 * serving,
            "unit": "µs",
            "limit": None,
        },
        {
            "name": "proxy: one hop against bare client plus minimal server",
            "value": hop / (bare + serving),
            "unit": "x",
            "limit": 1.0,
        },
    ]


def _streams(count: int = 500, tokens: int = 200) -> list[dict[str, Any]]:
    answer = " ".join(["token"] * tokens)
    with server("--answer", answer) as url, proxy(url) as between:
        uvloop.run(streams(between, count, tokens))
        before = between.rss_mb()
        whole = 0
        for _ in range(ROUNDS):
            whole += uvloop.run(streams(between, count, tokens))
        growth = between.rss_mb() / before
    lost = ROUNDS * count - whole
    return [
        {
            "name": f"proxy: of {ROUNDS} x {count} streams of {tokens} tokens, lost",
            "value": lost,
            "unit": "",
            "limit": 0,
        },
        {
            "name": "proxy: memory after three more waves of streams",
            "value": growth,
            "unit": "x",
            "limit": 1.15,
        },
    ]
