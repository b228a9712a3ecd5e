"""All sandboxes of one benchmark run: their number, shared ones, images, and the end of each."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from nemo_evaluator.config import SandboxConfig
from nemo_evaluator.config.groups import SANDBOXES
from nemo_evaluator.config.kinds import default_kind
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox.base import OutsideEndpoint, Provider, Sandbox
from nemo_evaluator.sandbox.lifecycle import AttemptSandboxes, StatelessSession

log = logging.getLogger(__name__)


class SandboxedEnvironment(Protocol):
    """The part of an environment that the manager needs before the first problem."""

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        """The sandboxes that the problems will need, if known."""

    async def image_build_requests(self) -> list[Any] | None:
        """The images to build, if any."""


class SandboxManager:
    """Starts and stops sandboxes.

    ::

        manager = SandboxManager(config, run_id)
        async with manager.session(seed) as session:
            answer = await solver.solve(seed, sandbox=session.agent)
            verdict = await environment.verify_answer(answer.response, seed, await session.for_verify())
        await manager.close()

    A sandbox that is never used is never started.

    Args:
        config: The sandbox config; None: ``local`` sandboxes.
        run_id: The run that the sandboxes belong to.
    """

    def __init__(self, config: SandboxConfig | None, run_id: str = "") -> None:
        self.config: Any = config
        if config is None:
            self.config = default_kind(SANDBOXES, "local")()
        self.run_id = run_id
        self._provider: Provider = SANDBOXES.build(self.config.type, self.config, run_id)
        self._free_slots = asyncio.Semaphore(self._provider.concurrency)
        self._live: set[Sandbox] = set()
        self._idle: dict[str, deque[Sandbox]] = {}
        # Work that is done once: the check, and one pull per image.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._expiries: dict[Sandbox, asyncio.TimerHandle] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def live(self) -> int:
        """Return how many sandboxes run, idle ones included."""
        return len(self._live)

    @asynccontextmanager
    async def session(
        self, seed: SeedResult, *, outside_endpoints: Sequence[OutsideEndpoint] = ()
    ) -> AsyncIterator[AttemptSandboxes]:
        """The sandboxes of one attempt at one problem.

        Args:
            seed: The problem.
            outside_endpoints: URLs of the host that the solver's commands may reach.
        """
        carries_work = seed.verify_sandbox_spec is not None and not self.config.stateful
        session_class = StatelessSession if carries_work else AttemptSandboxes
        session = session_class(self, seed, outside_endpoints)
        try:
            yield session
        finally:
            await session.close()

    async def prepare(self, environment: SandboxedEnvironment) -> None:
        """Check that sandboxes work here, then build and pull images, so that no problem waits for one.

        Raises:
            SandboxError: Sandboxes of this kind do not work here, or an image cannot be built.
        """
        await self.check()
        await self._provider.build_images(await environment.image_build_requests() or [])
        specs = await environment.sandbox_specs() or []
        images = {self.resolve(spec).image for spec in specs} - {""}
        outcomes = await asyncio.gather(
            *(self.ensure_image(image) for image in images), return_exceptions=True
        )
        for image, outcome in zip(images, outcomes, strict=True):
            # The run continues: the problem that needs the image reports the error, and is retried.
            if isinstance(outcome, BaseException):
                log.warning("image %s is not ready: %s", image, outcome)

    async def check(self) -> None:
        """Check that sandboxes of this kind work here.

        Raises:
            SandboxError: They do not.
        """
        await self._once("", self._provider.check)

    async def ensure_image(self, image: str) -> None:
        """Pull or build an image if necessary.

        Raises:
            SandboxError: That fails.
        """
        await self._once(image, partial(self._provider.ensure_image, image))

    def resolve(
        self, spec: SandboxSpec | None, metadata: dict[str, Any] | None = None
    ) -> SandboxSpec:
        """The spec of a problem, completed by the config.

        Args:
            spec: The sandbox that the problem asks for; its image and variables take precedence.
            metadata: The values for ``image_template``; None: they are not known yet.
        """
        base = spec or SandboxSpec()
        image = base.image or getattr(self.config, "image", None) or ""
        template = getattr(self.config, "image_template", None)
        if template:
            try:
                image = template.format(**(metadata or {}))
            except (KeyError, IndexError) as error:
                if metadata is not None:
                    log.warning(
                        "image_template %r needs %s, which the problem does not have",
                        template,
                        error,
                    )
        environment = {**getattr(self.config, "container_env", {}), **base.env}
        return replace(base, image=image, env=environment)

    async def acquire(
        self, spec: SandboxSpec, outside_endpoints: Sequence[OutsideEndpoint] = ()
    ) -> Sandbox:
        """Start a sandbox for one session, waiting while the maximum of the config runs.

        Args:
            spec: The sandbox that the problem asks for.
            outside_endpoints: URLs of the host that commands inside may reach.

        Raises:
            SandboxError: It did not start.
        """
        await self._make_ready(spec)
        try:
            sandbox = await self._start(spec, outside_endpoints)
        except BaseException:
            self._free_slots.release()
            raise
        self._limit_life(sandbox)
        return sandbox

    def _limit_life(self, sandbox: Sandbox) -> None:
        """Stop a sandbox after the timeout of the config. Shared ones have none: there each program has a deadline."""
        life = getattr(self.config, "timeout", None)
        if life is None:
            return
        if "timeout" not in self.config.model_fields_set:
            life = max(life, sandbox.spec.life or 0.0)
        loop = asyncio.get_running_loop()
        self._expiries[sandbox] = loop.call_later(float(life), self._expire, sandbox)

    async def release(self, sandbox: Sandbox) -> None:
        """Stop a sandbox of ``acquire``."""
        if sandbox in self._live:
            try:
                await asyncio.shield(self._stop(sandbox))
            finally:
                self._free_slots.release()

    @asynccontextmanager
    async def warm(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """A sandbox that judged programs share, one after another; only for ``run_judge``, which isolates them.

        Args:
            spec: The sandbox that the program needs.
        """
        key = _shared_key(spec)
        await self._make_ready(spec)
        sandbox: Sandbox | None = None
        try:
            idle = self._idle.setdefault(key, deque())
            sandbox = idle.pop() if idle else await self._start(spec, shared=True)
            yield sandbox
        except BaseException:
            # Whatever went wrong, the next program must not find its traces.
            if sandbox is not None:
                await self._stop(sandbox)
            raise
        else:
            is_clean = getattr(sandbox, "is_clean", True)
            if sandbox in self._live and sandbox.is_running and is_clean:
                idle.append(sandbox)
            else:
                await self._stop(sandbox)
        finally:
            self._free_slots.release()

    async def close(self) -> None:
        """Stop every sandbox."""
        self._idle.clear()
        await asyncio.gather(
            *(self._stop(sandbox) for sandbox in list(self._live)), *self._stopping
        )
        for task in self._tasks.values():
            task.cancel()
        await self._provider.close()

    async def _once(self, key: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do some work once: concurrent callers wait for the same task, and a failed one is repeated."""
        task = self._tasks.get(key)
        if task is None or _has_failed(task):
            task = self._tasks[key] = asyncio.ensure_future(work())
        await asyncio.shield(task)

    async def _make_ready(self, spec: SandboxSpec) -> None:
        """Wait for the check, the image, and a free slot, which the caller has to release."""
        await self.check()
        if spec.image:
            await self.ensure_image(spec.image)
        await self._free_slots.acquire()

    async def _start(
        self,
        spec: SandboxSpec,
        outside_endpoints: Sequence[OutsideEndpoint] = (),
        *,
        shared: bool = False,
    ) -> Sandbox:
        """Create and start a sandbox; if no slot is free, an idle shared one is stopped first."""
        idle = [queue for queue in self._idle.values() if queue]
        if idle and len(self._live) >= self._provider.concurrency:
            await self._stop(idle[0].popleft())
        create = self._provider.create
        if shared:
            # Only containers are created differently when programs share them.
            create = getattr(self._provider, "create_shared", create)
        sandbox = create(spec)
        self._live.add(sandbox)
        try:
            await sandbox.start(outside_endpoints=outside_endpoints)
        except BaseException:
            await self._stop(sandbox)
            raise
        return sandbox

    async def _stop(self, sandbox: Sandbox) -> None:
        self._live.discard(sandbox)
        timer = self._expiries.pop(sandbox, None)
        if timer is not None:
            timer.cancel()
        await sandbox.stop()

    def _expire(self, sandbox: Sandbox) -> None:
        log.warning(
            "a sandbox lived longer than its timeout of %s s and was stopped", self.config.timeout
        )
        task = asyncio.ensure_future(sandbox.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _shared_key(spec: SandboxSpec) -> str:
    """Return a key that is equal for specs whose programs can share a sandbox."""
    volumes = [str(volume) for volume in spec.volumes]
    return digest([spec.image, spec.workdir, spec.env, spec.files, spec.entrypoint, volumes])
