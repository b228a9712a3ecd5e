"""Sandboxes of a session that start on first use: the agent's, and the verifier's, which can be replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from nemo_evaluator.core.errors import BudgetError, SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import run_judge
from nemo_evaluator.sandbox.base import ExecResult, OutsideEndpoint, Sandbox


class SandboxOwner(Protocol):
    """The part of the manager that sessions use: it starts sandboxes and stops them."""

    config: Any

    def resolve(
        self, spec: SandboxSpec | None, metadata: dict[str, Any] | None = None
    ) -> SandboxSpec:
        """The spec of a problem, completed by the config."""

    async def acquire(
        self, spec: SandboxSpec, outside_endpoints: Sequence[OutsideEndpoint] = ()
    ) -> Sandbox:
        """Start a sandbox for one session."""

    async def release(self, sandbox: Sandbox) -> None:
        """Stop a sandbox."""

    def warm(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """A started sandbox that judged programs of many sessions share."""


class LazySandbox:
    """A sandbox of a session that starts on first use: one that a solver or scorer never uses costs nothing.

    Args:
        manager: Starts and stops the real sandbox.
        spec: The sandbox that the problem asks for.
        outside_endpoints: URLs of the host that commands inside may reach.
        after_start: Prepares the sandbox, once.
    """

    def __init__(
        self,
        manager: SandboxOwner,
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
        """Return whether the sandbox has been used."""
        return self._real is not None

    @property
    def is_running(self) -> bool:
        """True between the first use and ``stop``."""
        return self._real is not None and self._real.is_running

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start now; ``outside_endpoints`` are added to those of the session."""
        self._outside_endpoints = [*self._outside_endpoints, *outside_endpoints]
        await self._get()

    @property
    def container_ip(self) -> str | None:
        """The address of the container; known once the sandbox runs."""
        return getattr(self._real, "container_ip", None)

    async def exec(
        self, command: str | Sequence[str], timeout: float = 180.0, **options: Any
    ) -> ExecResult:
        """Run a command; see the contract (``Sandbox.exec``)."""
        timeout = options.pop("timeout_sec", timeout)
        sandbox = await self._get()
        return await sandbox.exec(command, timeout=timeout, **options)

    async def run_judge(self, command: Sequence[str], stdin: bytes, **options: Any) -> ExecResult:
        """Run a judge in this sandbox if it has started, else in a shared one."""
        if self._real is not None:
            return await run_judge(self._real, command, stdin, **options)
        self._check()
        async with self._manager.warm(self.spec) as sandbox:
            return await run_judge(sandbox, command, stdin, **options)

    async def upload(self, source: Path | str | bytes, target: str) -> None:
        """Put a file, a folder's content, or bytes at ``target``."""
        sandbox = await self._get()
        await sandbox.upload(source, target)

    async def download(self, source: str, target: Path | str) -> None:
        """Fetch a file or a folder's content to ``target``."""
        sandbox = await self._get()
        await sandbox.download(source, target)

    async def stop(self) -> None:
        """Stop the sandbox; later use is an error."""
        self._closed = True
        started_sandbox = self._real
        self._real = None
        if started_sandbox is not None:
            await self._manager.release(started_sandbox)

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address of a host URL inside; known once the sandbox runs."""
        if self._real is not None:
            return self._real.resolve_outside_endpoint(url)
        return url

    def resolved_endpoint_url(self, env_var: str) -> str | None:
        """The address of a registered endpoint inside; known once the sandbox runs."""
        if self._real is not None:
            return self._real.resolved_endpoint_url(env_var)
        return None

    async def _get(self) -> Sandbox:
        """Return the real sandbox, started if necessary. Raises SandboxError when it has ended."""
        async with self._lock:
            self._check()
            if self._real is None:
                new_sandbox = await self._manager.acquire(self.spec, self._outside_endpoints)
                try:
                    if self._after_start is not None:
                        await self._after_start(new_sandbox)
                except BaseException:
                    await self._manager.release(new_sandbox)
                    raise
                self._real = new_sandbox
            if not self._real.is_running:
                raise SandboxError(
                    "the sandbox has ended", hint="it lived longer than the timeout of its config"
                )
            return self._real

    def _check(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox was given back")


class AgentSandbox(LazySandbox):
    """The sandbox of an agent whose work is carried to another one."""

    async def exec(
        self, command: str | Sequence[str], timeout: float = 180.0, **options: Any
    ) -> ExecResult:
        """Run a command; see the contract. Raises BudgetError when the sandbox has exceeded its disk limit."""
        try:
            return await super().exec(command, timeout, **options)
        except SandboxError as error:
            if self.wrote_too_much:
                raise BudgetError(
                    "the sandbox wrote more than its disk limit, and was ended"
                ) from error
            raise

    @property
    def wrote_too_much(self) -> bool:
        """Whether nel ended the sandbox because its disk limit was exceeded."""
        return getattr(self._real, "over_disk", False)


class VerifierSandbox(LazySandbox):
    """The sandbox in which work is verified, never the one of the agent. It can be replaced by a fresh one, so that one
    run of the tests does not affect the next.

    Args:
        manager: Starts and stops the real sandbox.
        spec: The verifier's sandbox.
        apply_work: Brings the agent's work into a started sandbox.
    """

    def __init__(
        self,
        manager: SandboxOwner,
        spec: SandboxSpec,
        apply_work: Callable[[Sandbox], Awaitable[None]],
    ) -> None:
        super().__init__(manager, spec, after_start=self._fill)
        self._apply_work = apply_work
        self._wants_work = True

    async def renew(self, *, with_work: bool) -> None:
        """Stop the sandbox; the next use starts a fresh one.

        Args:
            with_work: Whether the fresh one holds the agent's work; otherwise it is in the state at the task's start.
        """
        async with self._lock:
            self._check()
            old_sandbox = self._real
            self._real = None
            self._wants_work = with_work
        if old_sandbox is not None:
            await self._manager.release(old_sandbox)

    async def add_work(self) -> None:
        """Bring the agent's work into a sandbox that was started without it."""
        await self._apply_work(await self._get())

    async def _fill(self, sandbox: Sandbox) -> None:
        if self._wants_work:
            await self._apply_work(sandbox)
