"""MCP over pipes to a program that we start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.solvers.tools._jsonrpc import refusal_of, result_of

# What a program started for a model may know of our environment; the rest is given in the config.
_PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER", "VIRTUAL_ENV")
_LINE_LIMIT: Final = 64 * 2**20
_STOP_GRACE: Final = 2.0
_LAST_WORDS: Final = 0.5


class StdioChannel:
    """A program that we start: one JSON message a line on its stdin and stdout."""

    def __init__(self, name: str, command: str, args: Sequence[str], env: Mapping[str, str]) -> None:
        self._name = name
        self._argv = [command, *args]
        self._env = {key: os.environ[key] for key in _PASSED_ON if key in os.environ} | dict(env)
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[JsonDict]] = {}
        self._next = 0
        self._said: deque[str] = deque(maxlen=5)
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the program in a process group of its own, so that all of it can be ended."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._env,
                limit=_LINE_LIMIT,
                start_new_session=True,
            )
        except OSError as error:
            raise TransportError(f"MCP server {self._name!r} does not start: {error}") from error
        errors = asyncio.create_task(self._read_errors())
        self._readers = [asyncio.create_task(self._read(errors)), errors]

    async def request(self, method: str, params: JsonDict, timeout: float) -> JsonDict:
        """Send with a number of its own and wait for the answer with that number."""
        self._next += 1
        number = self._next
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            async with asyncio.timeout(timeout):
                return result_of(await answer)
        finally:
            self._waiting.pop(number, None)

    async def notify(self, method: str) -> None:
        """Send without a number."""
        await self._write({"jsonrpc": "2.0", "method": method})

    async def close(self) -> None:
        """Close its stdin, which asks it to end; then end it and everything it started."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_GRACE):
                await process.wait()
        except TimeoutError:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _write(self, message: JsonDict) -> None:
        if self._process is None or self._process.stdin is None:
            raise self._gone()
        try:
            self._process.stdin.write(orjson.dumps(message) + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._gone() from error

    async def _read(self, errors: asyncio.Task[None]) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                try:
                    message = orjson.loads(line)
                except orjson.JSONDecodeError:
                    self._said.append(line.decode("utf-8", "replace").strip())
                    continue
                await self._take(message)
        except ValueError as error:
            self._said.append(f"a line of more than {_LINE_LIMIT} bytes ({error})")
            # Its last words are on stderr; they are worth a moment.
            await asyncio.wait([errors], timeout=_LAST_WORDS)
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(self._gone())

    async def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        if "method" in message:
            if "id" in message:
                await self._write(refusal_of(message))
            return
        answer = self._waiting.get(message.get("id", -1))
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _read_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError):
            async for line in self._process.stderr:
                self._said.append(line.decode("utf-8", "replace").strip()[:300])

    def _gone(self) -> TransportError:
        said = " | ".join(filter(None, self._said))
        return TransportError(f"MCP server {self._name!r} ended{f'; it said: {said}' if said else ''}")
