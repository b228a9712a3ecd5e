"""Asking a server whether it is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import PATHS
from nemo_evaluator.models.http_proxy import proxy_url
from nemo_evaluator.services.base import Launch

if TYPE_CHECKING:
    import aiohttp

# Somebody else's server is up or it is not: this only bridges a restart.
_EXTERNAL_WAIT: Final = 20.0


# The shortest question of each protocol.
_ONE_TOKEN: Final[dict[str, JsonDict]] = {
    "chat_completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "completions": {"prompt": "Hi", "max_tokens": 1},
    "responses": {"input": "Hi", "max_output_tokens": 16},
}


def _headers(key: Secret | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.reveal()}"} if key else {}


def health_session() -> aiohttp.ClientSession:
    """A session whose requests are short. The library loads here: most runs have no server to ask."""
    session: aiohttp.ClientSession = load_object("aiohttp:ClientSession")(
        timeout=load_object("aiohttp:ClientTimeout")(total=5.0)
    )
    return session


async def answers(session: aiohttp.ClientSession, urls: Sequence[str], key: Secret | None) -> bool:
    """Whether one of the URLs answers 200."""
    headers = _headers(key)
    client_error: type[Exception] = load_object("aiohttp:ClientError")
    for url in urls:
        try:
            async with session.get(url, headers=headers, proxy=proxy_url(url)) as response:
                if response.status == 200:
                    return True
        except (client_error, TimeoutError, OSError):
            return False
    return False


async def answers_a_token(session: aiohttp.ClientSession, launch: Launch, bound: float) -> bool:
    """Whether the model gives one token; True at once for a server that is no model."""
    if launch.model is None:
        return True
    body: JsonDict = {"model": launch.model}
    body |= _ONE_TOKEN[launch.protocol]
    url = f"{launch.url}{PATHS[launch.protocol]}"
    timeout = load_object("aiohttp:ClientTimeout")(total=bound)
    try:
        async with session.post(
            url, json=body, headers=_headers(launch.api_key), proxy=proxy_url(url), timeout=timeout
        ) as response:
            # Anything but "not ready" and "broken" is the server's word on the request: the run will say it better.
            return response.status < 500 and response.status not in (404, 408, 425, 429)
    except (load_object("aiohttp:ClientError"), TimeoutError, OSError):
        return False


async def expect_external(name: str, url: str, health_path: str, key: Secret | None) -> None:
    """Wait a little for a server that somebody else runs. Raises TransportError when it stays down."""
    parts = urlsplit(url)
    health_url = f"{parts.scheme}://{parts.netloc}/{health_path.lstrip('/')}"
    deadline = time.monotonic() + _EXTERNAL_WAIT
    async with health_session() as session:
        while not await answers(session, [health_url], key):
            if time.monotonic() >= deadline:
                raise TransportError(
                    f"service {name!r} is not up: {health_url} did not answer 200 within {_EXTERNAL_WAIT:.0f} s",
                    hint=f"start it, or correct services.{name}.url or .health_path",
                )
            await asyncio.sleep(0.5)
