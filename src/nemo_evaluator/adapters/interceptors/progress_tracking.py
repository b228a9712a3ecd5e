"""``progress_tracking``: reports the number of answers to a webhook, to a file, and to the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import aiohttp

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._log import log
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.http_proxy import proxy_url
from nemo_evaluator.models.types import ModelReply, ModelRequest

_BOUND = 30.0


class Interceptor(base.Interceptor):
    """Every ``every`` answers: a log line, a POST of ``{"completed": n}``, and the number in ``progress_path``.

    Nobody waits for the webhook; the last number is sent when the run ends.
    """

    talks = True
    place = base.Place.STATS
    observes = True
    best_effort = True

    def __init__(self, webhook_url: str | None = None, every: int = 10, progress_path: str | None = None) -> None:
        if every < 1:
            raise UsageError("every of progress_tracking is at least 1")
        self._url = webhook_url
        self._every = every
        self._path = Path(progress_path) if progress_path else None
        self._count = 0
        self._told = 0
        self._failures = 0
        self._posts: set[asyncio.Task[None]] = set()

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        """Count an answer."""
        self._count += 1
        if self._count % self._every == 0:
            self._tell()
        return reply

    def stats(self) -> JsonDict:
        """Answers, and webhook calls that failed."""
        return {"completed": self._count, "webhook_failures": self._failures}

    async def close(self) -> None:
        """Tell the last number and wait for the posts under way."""
        if self._count > self._told:
            self._tell()
        if self._posts:
            await asyncio.wait(self._posts, timeout=_BOUND)

    def _tell(self) -> None:
        self._told = self._count
        log.info("%d answers completed", self._count)
        if self._path is not None:
            write_atomic(self._path, str(self._count))
        if self._url is not None:
            task = asyncio.get_running_loop().create_task(self._post(self._url, self._count))
            self._posts.add(task)
            task.add_done_callback(self._posts.discard)

    async def _post(self, url: str, count: int) -> None:
        try:
            timeout = aiohttp.ClientTimeout(total=_BOUND)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(url, json={"completed": count}, proxy=proxy_url(url)) as response,
            ):
                response.raise_for_status()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._failures += 1
            log.warning("progress webhook: %s", scrub(str(error) or type(error).__name__))


KIND: Final = Kind(build=Interceptor)
