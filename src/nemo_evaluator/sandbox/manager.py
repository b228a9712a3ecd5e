"""All sandboxes of one benchmark run: how many at once, warm ones, images, and the end of every one of them."""

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
    """What of an environment the manager asks before the first problem."""

    async def sandbox_specs(self) -> list[SandboxSpec] | None:
        """The sandboxes that the problems will need."""

    async def image_build_requests(self) -> list[Any] | None:
        """Images to build."""


class SandboxManager:
    """Gives out sandboxes.

    ::

        manager = SandboxManager(config, run_id)
        async with manager.session(seed) as session:
            answer = await solver.solve(seed, sandbox=session.agent)
            verdict = await environment.verify_answer(answer.response, seed, await session.for_verify())
        await manager.close()

    Without a config, sandboxes are ``local`` ones. A sandbox that nobody touches is never started.
    """

    def __init__(self, config: SandboxConfig | None, run_id: str = "") -> None:
        if config is not None:
            self.config: Any = config
        else:
            self.config = default_kind(SANDBOXES, "local")()
        self.run_id = run_id
        self._provider: Provider = SANDBOXES.build(self.config.type, self.config, run_id)
        self._room = asyncio.Semaphore(self._provider.concurrency)
        self._live: set[Sandbox] = set()
        self._idle: dict[str, deque[Sandbox]] = {}
        # What is done once: the check, and one pull an image.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._expiries: dict[Sandbox, asyncio.TimerHandle] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def live(self) -> int:
        """How many sandboxes are up, idle ones included."""
        return len(self._live)

    @asynccontextmanager
    async def session(
        self, seed: SeedResult, *, outside_endpoints: Sequence[OutsideEndpoint] = ()
    ) -> AsyncIterator[AttemptSandboxes]:
        """The sandboxes of one attempt at one problem."""
        carries = seed.verify_sandbox_spec is not None and not self.config.stateful
        session = (StatelessSession if carries else AttemptSandboxes)(self, seed, outside_endpoints)
        try:
            yield session
        finally:
            await session.close()

    async def prepare(self, environment: SandboxedEnvironment) -> None:
        """Check that sandboxes can be had, then build and pull images before the first problem waits for one."""
        await self.check()
        await self._provider.build_images(await environment.image_build_requests() or [])
        specs = await environment.sandbox_specs() or []
        images = {self.resolve(spec).image for spec in specs} - {""}
        outcomes = await asyncio.gather(
            *(self.ensure_image(image) for image in images), return_exceptions=True
        )
        for image, outcome in zip(images, outcomes, strict=True):
            # Not the end: the problem that needs the image will say so, and be retried.
            if isinstance(outcome, BaseException):
                log.warning("image %s is not ready: %s", image, outcome)

    async def check(self) -> None:
        """Raise SandboxError when sandboxes of this kind cannot be had here."""
        await self._once("", self._provider.check)

    async def ensure_image(self, image: str) -> None:
        """Have an image ready."""
        await self._once(image, partial(self._provider.ensure_image, image))

    def resolve(
        self, spec: SandboxSpec | None, metadata: dict[str, Any] | None = None
    ) -> SandboxSpec:
        """The spec of a problem, completed by the config: image, template and environment."""
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
        """A sandbox of one's own, started. Waits while there are as many as the config allows."""
        await self._make_ready(spec)
        try:
            sandbox = await self._start(spec, outside_endpoints)
        except BaseException:
            self._room.release()
            raise
        # Not for warm ones, which serve many: there each program has its own deadline.
        life = getattr(self.config, "timeout", None)
        if life is not None:
            if "timeout" not in self.config.model_fields_set:
                life = max(life, sandbox.spec.life or 0.0)
            self._expiries[sandbox] = asyncio.get_running_loop().call_later(
                float(life), self._expire, sandbox
            )
        return sandbox

    async def release(self, sandbox: Sandbox) -> None:
        """Give a sandbox back; it is stopped."""
        if sandbox in self._live:
            try:
                await asyncio.shield(self._stop(sandbox))
            finally:
                self._room.release()

    @asynccontextmanager
    async def warm(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        """A sandbox in which others ran before and will run after; for ``run_judge`` alone, which walls them off."""
        key = digest(
            [
                spec.image,
                spec.workdir,
                spec.env,
                spec.files,
                spec.entrypoint,
                list(map(str, spec.volumes)),
            ]
        )
        await self._make_ready(spec)
        sandbox: Sandbox | None = None
        try:
            waiting = self._idle.setdefault(key, deque())
            if waiting:
                sandbox = waiting.pop()
            else:
                sandbox = await self._start(spec, shared=True)
            yield sandbox
        except BaseException:
            # Whatever went wrong, the next program shall not find its traces.
            if sandbox is not None:
                await self._stop(sandbox)
            raise
        else:
            if sandbox in self._live and sandbox.is_running and getattr(sandbox, "is_clean", True):
                waiting.append(sandbox)
            else:
                await self._stop(sandbox)
        finally:
            self._room.release()

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
        """Those who ask at the same time wait for one; what failed is tried again."""
        task = self._tasks.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._tasks[key] = asyncio.ensure_future(work())
        await asyncio.shield(task)

    async def _make_ready(self, spec: SandboxSpec) -> None:
        """Have what a sandbox needs, and room for it, which is to be given back."""
        await self.check()
        if spec.image:
            await self.ensure_image(spec.image)
        await self._room.acquire()

    async def _start(
        self,
        spec: SandboxSpec,
        outside_endpoints: Sequence[OutsideEndpoint] = (),
        *,
        shared: bool = False,
    ) -> Sandbox:
        idle = [queue for queue in self._idle.values() if queue]
        if idle and len(self._live) >= self._provider.concurrency:
            await self._stop(idle[0].popleft())
        # Only containers are made otherwise when programs follow one another in them.
        if shared:
            create = getattr(self._provider, "create_shared", self._provider.create)
        else:
            create = self._provider.create
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
