"""``progress_tracking``: reports the number of answers to a webhook, to a file, and to the log."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from nemo_evaluator.adapters import base
from nemo_evaluator.config.fields import Positive
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.models.http.http_proxy import proxy_url
from nemo_evaluator.models.types import ModelReply, ModelRequest

# Seconds for one POST, and for all that are open at the end.
_BOUND = 30.0


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Reports every ``every`` answers: a log line, a POST of ``{"completed": n}``, and the number in ``progress_path``.

    Answers do not wait for the webhook. The last number is sent when the run ends.
    """

    talks = True
    place = base.Place.STATS
    counted = ("completed", "webhook_failures")
    completed = 0
    webhook_failures = 0
    _reported = 0
    webhook_url: str | None = None
    every: Positive = 10
    progress_path: str | None = None

    def __post_init__(self) -> None:
        self._posts: set[asyncio.Task[None]] = set()

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Count an answer."""
        self.completed += 1
        if self.completed % self.every == 0:
            self._report()

    async def close(self) -> None:
        """Report the last number and wait for the open posts."""
        if self.completed > self._reported:
            self._report()
        if self._posts:
            await asyncio.wait(self._posts, timeout=_BOUND)

    def _report(self) -> None:
        self._reported = self.completed
        base.log.info("%d answers completed", self.completed)
        if self.progress_path:
            write_atomic(Path(self.progress_path), str(self.completed))
        if self.webhook_url is not None:
            notification = self._post(self.webhook_url, self.completed)
            task = asyncio.get_running_loop().create_task(notification)
            self._posts.add(task)
            task.add_done_callback(self._posts.discard)

    async def _post(self, url: str, count: int) -> None:
        """Post the number of answers to the webhook; a failure is only logged and counted."""
        try:
            timeout = aiohttp.ClientTimeout(total=_BOUND)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(url, json={"completed": count}, proxy=proxy_url(url)) as response,
            ):
                response.raise_for_status()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.webhook_failures += 1
            base.log.warning("progress webhook: %s", scrub(str(error) or type(error).__name__))
