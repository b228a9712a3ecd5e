"""A sandbox that starts when it is first used: a solver or scorer that never touches it costs nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import _fresh
from nemo_evaluator.sandbox.base import ExecResult, OutsideEndpoint, Sandbox


class Keeper(Protocol):
    """Who gives out sandboxes and takes them back."""

    config: Any

    def resolve(self, spec: SandboxSpec | None, metadata: dict[str, Any] | None = None) -> SandboxSpec:
        """The spec of a problem, completed by the config."""

    async def acquire(self, spec: SandboxSpec, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> Sandbox:
        """A sandbox of one's own, started."""

    async def release(self, sandbox: Sandbox) -> None:
        """Stop a sandbox."""

    def warm(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """One that others use as well, for walled-off programs."""


class LazySandbox:
    """Stands for a sandbox of a session; ``after_start`` prepares it, once."""

    def __init__(
        self,
        manager: Keeper,
        spec: SandboxSpec,
        outside_endpoints: Sequence[OutsideEndpoint] = (),
        after_start: Callable[[Sandbox], Awaitable[None]] | None = None,
    ) -> None:
        self.spec = spec
        self._manager = manager
        self._outside_endpoints = outside_endpoints
        self._after_start = after_start
        self._real: Sandbox | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def started(self) -> bool:
        """True when somebody has used it."""
        return self._real is not None

    @property
    def is_running(self) -> bool:
        """True between first use and stop."""
        return self._real is not None and self._real.is_running

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start now; endpoints given here are added to those of the session."""
        self._outside_endpoints = [*self._outside_endpoints, *outside_endpoints]
        await self._get()

    @property
    def container_ip(self) -> str | None:
        """The address of the container; known once the sandbox is up."""
        return getattr(self._real, "container_ip", None)

    async def exec(self, command: str | Sequence[str], timeout: float = 180.0, **options: Any) -> ExecResult:
        """Run a command; see the contract."""
        return await (await self._get()).exec(command, timeout=options.pop("timeout_sec", timeout), **options)

    async def run_fresh(self, command: Sequence[str], files: Mapping[str, bytes], **options: Any) -> ExecResult:
        """Run a program that needs nothing of this sandbox: a warm one serves, unless this one is up already."""
        if self._real is not None:
            return await _fresh.run_fresh(self._real, command, files, **options)
        self._check()
        async with self._manager.warm(self.spec) as sandbox:
            return await _fresh.run_fresh(sandbox, command, files, **options)

    async def run_judge(self, command: Sequence[str], stdin: bytes, **options: Any) -> ExecResult:
        """Run a judge, in a warm sandbox unless this one is up already."""
        if self._real is not None:
            return await _fresh.run_judge(self._real, command, stdin, **options)
        self._check()
        async with self._manager.warm(self.spec) as sandbox:
            return await _fresh.run_judge(sandbox, command, stdin, **options)

    async def upload(self, source: Path | str | bytes, target: str) -> None:
        """Put something in."""
        await (await self._get()).upload(source, target)

    async def download(self, source: str, target: Path | str) -> None:
        """Fetch something."""
        await (await self._get()).download(source, target)

    async def stop(self) -> None:
        """Give the sandbox back; later use is an error."""
        self._closed = True
        real, self._real = self._real, None
        if real is not None:
            await self._manager.release(real)

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address inside of a host URL; known once the sandbox is up."""
        return self._real.resolve_outside_endpoint(url) if self._real is not None else url

    def resolved_endpoint_url(self, env_var: str) -> str | None:
        """The address inside of a registered endpoint; known once the sandbox is up."""
        return self._real.resolved_endpoint_url(env_var) if self._real is not None else None

    async def _get(self) -> Sandbox:
        async with self._lock:
            self._check()
            if self._real is None:
                real = await self._manager.acquire(self.spec, self._outside_endpoints)
                try:
                    if self._after_start is not None:
                        await self._after_start(real)
                except BaseException:
                    await self._manager.release(real)
                    raise
                self._real = real
            if not self._real.is_running:
                raise SandboxError("the sandbox has ended", hint="it lived longer than the timeout of its config")
            return self._real

    def _check(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox was given back")
