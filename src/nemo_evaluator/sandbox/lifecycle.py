"""From solving to verifying: in one sandbox, or by carrying the agent's work into a fresh one.

- *stateful*: the verifier sees the sandbox as the agent left it;
- *stateless* (the problem names a verifier's sandbox): the work is captured, carried over and applied.

Every step between is the harness's own: when one fails, that is a SandboxError, never a verdict. Work that cannot be
carried, where a workspace that nobody touched can, is a TamperError: no agent leaves the mean by breaking its sandbox.
"""

import asyncio
import logging
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, Protocol

from nemo_evaluator.core.errors import BudgetError, SandboxError, TamperError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox._backend import run_judge
from nemo_evaluator.sandbox._carried import ARCHIVE, clean_archive
from nemo_evaluator.sandbox.base import ExecResult, OutsideEndpoint, Sandbox, VolumeMount

log = logging.getLogger(__name__)
OUTPUT: Final = "/output"
INPUT: Final = "/input"
_CAPTURE_TIMEOUT: Final = 300.0
# Bytes of an agent's work that are kept beside its answer.
_LARGEST: Final = 64 * 2**20
_PREPARE_TIMEOUT: Final = 900.0
_BASE_COMMIT: Final = "/tmp/_nel_base_commit"


class SandboxOwner(Protocol):
    """Who gives out sandboxes and takes them back: the manager."""

    config: Any

    def resolve(
        self, spec: SandboxSpec | None, metadata: dict[str, Any] | None = None
    ) -> SandboxSpec:
        """The spec of a problem, completed by the config."""

    async def acquire(
        self, spec: SandboxSpec, outside_endpoints: Sequence[OutsideEndpoint] = ()
    ) -> Sandbox:
        """A sandbox of one's own, started."""

    async def release(self, sandbox: Sandbox) -> None:
        """Stop a sandbox."""

    def warm(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """One that others use as well, for walled-off programs."""


class LazySandbox:
    """Stands for a sandbox of a session that starts when it is first used: a solver or scorer that never touches it
    costs nothing. ``after_start`` prepares it, once."""

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

    async def exec(
        self, command: str | Sequence[str], timeout: float = 180.0, **options: Any
    ) -> ExecResult:
        """Run a command; see the contract."""
        return await (await self._get()).exec(
            command, timeout=options.pop("timeout_sec", timeout), **options
        )

    async def run_judge(self, command: Sequence[str], stdin: bytes, **options: Any) -> ExecResult:
        """Run a judge in a warm sandbox, unless this one is up already."""
        if self._real is not None:
            return await run_judge(self._real, command, stdin, **options)
        self._check()
        async with self._manager.warm(self.spec) as sandbox:
            return await run_judge(sandbox, command, stdin, **options)

    async def upload(self, source: Path | str | bytes, target: str) -> None:
        """Put something in."""
        await (await self._get()).upload(source, target)

    async def download(self, source: str, target: Path | str) -> None:
        """Fetch something."""
        await (await self._get()).download(source, target)

    async def stop(self) -> None:
        """Give the sandbox back; later use is an error."""
        self._closed = True
        real = self._real
        self._real = None
        if real is not None:
            await self._manager.release(real)

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address inside of a host URL; known once the sandbox is up."""
        if self._real is not None:
            return self._real.resolve_outside_endpoint(url)
        return url

    def resolved_endpoint_url(self, env_var: str) -> str | None:
        """The address inside of a registered endpoint; known once the sandbox is up."""
        if self._real is not None:
            return self._real.resolved_endpoint_url(env_var)
        return None

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
                raise SandboxError(
                    "the sandbox has ended", hint="it lived longer than the timeout of its config"
                )
            return self._real

    def _check(self) -> None:
        if self._closed:
            raise SandboxError("the sandbox was given back")


class AgentSandbox(LazySandbox):
    """Where an agent works whose work is carried elsewhere."""

    async def exec(
        self, command: str | Sequence[str], timeout: float = 180.0, **options: Any
    ) -> ExecResult:
        """Run a command; see the contract. Raises BudgetError when the sandbox was ended for what it wrote."""
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
        """Whether the sandbox was ended because more was written than it may hold."""
        return getattr(self._real, "over_disk", False)


class VerifierSandbox(LazySandbox):
    """Where work is verified: never the sandbox that the agent used. It can be given back and started anew, so that
    what ran in it once has no part in what runs next."""

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
        """Give this sandbox back; the next use starts another. Without the work it is as the task begins."""
        async with self._lock:
            self._check()
            used = self._real
            self._real = None
            self._wants_work = with_work
        if used is not None:
            await self._manager.release(used)

    async def add_work(self) -> None:
        """Put the work into a sandbox that was started without it."""
        await self._apply_work(await self._get())

    async def _fill(self, sandbox: Sandbox) -> None:
        if self._wants_work:
            await self._apply_work(sandbox)


class AttemptSandboxes:
    """The sandboxes of one attempt: one for both parts."""

    _agent_class: ClassVar[type[LazySandbox]] = LazySandbox

    def __init__(
        self,
        manager: SandboxOwner,
        seed: SeedResult,
        outside_endpoints: Sequence[OutsideEndpoint] = (),
    ) -> None:
        self._manager = manager
        self._seed = seed
        spec = self._completed(seed.sandbox_spec or seed.verify_sandbox_spec)
        # Where the solver works; it starts when it is first used.
        self.agent = self._agent_class(manager, spec, outside_endpoints, self._prepare_agent)

    async def for_verify(self) -> Sandbox:
        """Where the verifier works."""
        return self.agent

    async def keep(self, target: Path) -> None:
        """Keep what the solver left as one file, unless it stays where it is or is too large."""

    async def restore(self, kept: Path) -> None:
        """Take what was kept for the work of the solver."""

    async def close(self) -> None:
        """Stop what is left."""
        await self.agent.stop()

    def _completed(self, spec: SandboxSpec | None) -> SandboxSpec:
        return self._manager.resolve(spec, self._seed.metadata)

    async def _prepare_agent(self, sandbox: Sandbox) -> None:
        if self._seed.pre_agent_cmd:
            await _must(sandbox, self._seed.pre_agent_cmd, _PREPARE_TIMEOUT, what="pre_agent_cmd")


class StatelessSession(AttemptSandboxes):
    """A sandbox for the agent and a fresh one for the verifier, with the agent's work applied."""

    _agent_class = AgentSandbox

    def __init__(
        self,
        manager: SandboxOwner,
        seed: SeedResult,
        outside_endpoints: Sequence[OutsideEndpoint] = (),
    ) -> None:
        super().__init__(manager, seed, outside_endpoints)
        self._capture_cmd: str | None = manager.config.capture_cmd or seed.capture_cmd
        self._verifier: VerifierSandbox | None = None
        # What is carried from one to the other, once there is something.
        self._folder = tempfile.TemporaryDirectory(prefix="nel-carry-")
        self._carried: Path | None = None
        # Whether this session only shows that an untouched workspace can be carried.
        self._is_control = False

    async def for_verify(self) -> Sandbox:
        """The verifier's sandbox; the agent's is captured and stopped first, if it was used."""
        if self._verifier is not None:
            return self._verifier
        await self._carry()
        await self.agent.stop()
        spec = self._completed(self._seed.verify_sandbox_spec)
        self._verifier = VerifierSandbox(self._manager, spec, self._apply_work)
        if self._carried is not None:
            await self._start_with_work(self._verifier)
        return self._verifier

    async def _start_with_work(self, verifier: VerifierSandbox) -> None:
        try:
            await verifier.start()
        except SandboxError:
            # As with capturing, twice.
            try:
                await verifier.start()
            except SandboxError as error:
                await self._blame(error)

    async def _apply_work(self, sandbox: Sandbox) -> None:
        """Bring what the agent left into a verifier's sandbox."""
        if self._carried is None:
            return
        await sandbox.upload(self._carried, INPUT)
        command = self._seed.apply_cmd
        if command is None and self._capture_cmd is None:
            command = workspace.apply_command(sandbox.spec.workdir)
        if command is not None:
            await _must(sandbox, command, self._manager.config.verify_timeout, what="apply_cmd")

    async def keep(self, target: Path) -> None:
        """Capture the work, and keep it when it is not too large to be verified again some day."""
        await self._carry()
        if self._carried is not None:
            await asyncio.to_thread(_pack, self._carried, target)

    async def restore(self, kept: Path) -> None:
        """Verify what was kept, without the agent."""
        carried = Path(self._folder.name) / "output"
        await asyncio.to_thread(_unpack, kept, carried)
        await self._clean(carried)
        self._carried = carried

    async def close(self) -> None:
        """Stop both."""
        self._folder.cleanup()
        await super().close()
        if self._verifier is not None:
            await self._verifier.stop()

    async def _carry(self) -> None:
        agent = self.agent
        target = Path(self._folder.name) / "output"
        if self._carried is not None or not agent.started:
            return
        try:
            await self._capture(target)
        except BudgetError as error:
            await self._blame(error)
        except SandboxError as error:
            if not agent.is_running:
                raise
            await self._capture_again(target, error)
        await self._clean(target)
        self._carried = target

    async def _capture(self, target: Path) -> None:
        command = self._capture_cmd or workspace.capture_command(self.agent.spec.workdir)
        await _must(self.agent, command, _CAPTURE_TIMEOUT, what="capture_cmd")
        await self.agent.download(OUTPUT, target)
        if not any(target.iterdir()):
            raise SandboxError(f"capture_cmd left nothing in {OUTPUT}")

    async def _capture_again(self, target: Path, failure: SandboxError) -> None:
        """Try once more before anybody is blamed: a machine may have its bad moments."""
        await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        try:
            await self._capture(target)
        except (SandboxError, BudgetError):
            await self._blame(failure)

    async def _blame(self, failure: SandboxError | BudgetError) -> NoReturn:
        """Raise for work that could not be carried: it is the agent's doing when an untouched workspace can be."""
        if self._is_control:
            raise failure
        # There may be room for no more sandboxes than this session holds.
        await self.agent.stop()
        if self._verifier is not None:
            await self._verifier.stop()
        control = StatelessSession(self._manager, self._seed)
        control._is_control = True
        try:
            await control.agent.start()
            await control.for_verify()
        except SandboxError:
            raise failure from None
        finally:
            await control.close()
        raise TamperError(
            f"the work of the agent cannot be carried: {failure.message}"
        ) from failure

    async def _clean(self, folder: Path) -> None:
        """Make the archive of our own way to carry work plain; a way of the user's own is the user's."""
        archive = folder / ARCHIVE
        if self._applies_archive() and archive.is_file():
            await asyncio.to_thread(clean_archive, archive)

    def _applies_archive(self) -> bool:
        spec = self._completed(self._seed.verify_sandbox_spec)
        if self._seed.apply_cmd is not None:
            return self._seed.apply_cmd == workspace.apply_command(spec.workdir)
        return self._capture_cmd is None

    async def _prepare_agent(self, sandbox: Sandbox) -> None:
        workdir = shlex.quote(sandbox.spec.workdir)
        await sandbox.exec(
            f"git -C {workdir} rev-parse HEAD > {_BASE_COMMIT} 2>/dev/null", timeout=10
        )
        if self._manager.config.scrub_git_history:
            scrub = workspace.scrub_command(sandbox.spec.workdir)
            await _must(sandbox, scrub, _PREPARE_TIMEOUT, what="removing git history")
        await super()._prepare_agent(sandbox)

    def _completed(self, spec: SandboxSpec | None) -> SandboxSpec:
        """With scratch folders for what is carried from one sandbox to the other."""
        completed = super()._completed(spec)
        extra = [VolumeMount(container_path=OUTPUT), VolumeMount(container_path=INPUT)]
        return replace(completed, volumes=[*completed.volumes, *extra])


def _pack(folder: Path, target: Path) -> None:
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > _LARGEST:
        log.info("the work of an agent is too large to be kept: %s", target.name)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part")
    with tarfile.open(unfinished, "w:gz", compresslevel=1) as tar:
        tar.add(folder, arcname=".")
    unfinished.replace(target)


def _unpack(kept: Path, folder: Path) -> None:
    """Only plain files of our own making: the archive inside is opened in the sandbox, not here."""
    folder.mkdir()
    try:
        with tarfile.open(kept) as tar:
            for member in tar.getmembers():
                if member.isfile() and (content := tar.extractfile(member)) is not None:
                    (folder / Path(member.name).name).write_bytes(content.read())
    except (OSError, tarfile.TarError, EOFError) as error:
        raise SandboxError(f"the kept work of an agent cannot be read: {kept}: {error}") from error


async def _must(sandbox: Sandbox, command: str, timeout: float, what: str) -> None:
    result = await sandbox.exec(command, timeout=timeout)
    if not result.ok:
        if result.timed_out:
            why = f"timed out after {timeout:g} s"
        else:
            why = f"exit code {result.exit_code}"
        tail = (result.stderr or result.stdout).strip()[-500:]
        raise SandboxError(f"{what} failed in the sandbox ({why}): {tail}")
