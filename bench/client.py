"""CPU of one chat call against the bare aiohttp client sending the same bytes and parsing the same answers.

``python -m bench.client`` prints the two and their ratio; the scripted server runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import uvloop

from bench._measure import server
from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.models import Endpoint

PROMPT = (
    "A train leaves at nine and travels for three hours at sixty miles an hour. How far does it go? "
    * 4
)


async def spread(count: int, width: int, call: Callable[[int], Awaitable[Any]]) -> float:
    """CPU seconds of ``count`` calls, ``width`` at a time."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await call(number)

    started = time.process_time()
    await asyncio.gather(*(worker() for _ in range(width)))
    return time.process_time() - started


async def bare(url: str, count: int, width: int) -> float:
    """CPU seconds of the bare client."""
    connector = aiohttp.TCPConnector(limit=width)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def call(number: int) -> None:
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": f"{number} {PROMPT}"}],
                "temperature": 0.0,
            }
            headers = {"Content-Type": "application/json"}
            async with session.post(
                f"{url}/chat/completions", data=orjson.dumps(body), headers=headers
            ) as response:
                orjson.loads(await response.read())["choices"][0]["message"]["content"]

        return await spread(count, width, call)


async def ours(url: str, count: int, width: int, **settings: Any) -> float:
    """CPU seconds of our client."""
    endpoint = Endpoint("m", url, generation={"temperature": 0.0}, max_concurrent=width, **settings)
    async with open_client(endpoint) as client:

        async def call(number: int) -> None:
            await client.chat([{"role": "user", "content": f"{number} {PROMPT}"}])

        return await spread(count, width, call)


def rows(count: int = 5000, width: int = 256) -> list[dict[str, Any]]:
    """One row for the table of ``make bench``."""
    with server("--answer", "The answer is 42.") as url:
        runs = [
            (uvloop.run(bare(url, count, width)), uvloop.run(ours(url, count, width)))
            for _ in range(3)
        ]
    base, own = min(run[0] for run in runs), min(run[1] for run in runs)
    return [
        {
            "name": "client: CPU per chat call",
            "value": 1e6 * own / count,
            "unit": "µs",
            "limit": None,
        },
        {
            "name": "client: CPU per bare aiohttp call",
            "value": 1e6 * base / count,
            "unit": "µs",
            "limit": None,
        },
        {
            "name": "client: chat call against bare aiohttp",
            "value": own / base,
            "unit": "x",
            "limit": 0.6,
        },
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row['name']:45} {row['value']:8.2f} {row['unit']}")
