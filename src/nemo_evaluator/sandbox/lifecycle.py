"""The sandboxes of an attempt: one for solving and verifying, or a fresh one for verifying the agent's work.

- *stateful*: the verifier sees the sandbox as the agent left it;
- *stateless* (the problem names a verifier's sandbox): the work is captured, carried over and applied.

A failure of one of these steps is a SandboxError, never a verdict. Work that cannot be carried, where an untouched
workspace can, is a TamperError: an agent must not be able to drop out of the mean by breaking its sandbox.
"""

import asyncio
import logging
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final, NoReturn

from nemo_evaluator.core.errors import BudgetError, SandboxError, TamperError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox._carried import ARCHIVE, clean_archive
from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox, VolumeMount
from nemo_evaluator.sandbox.lazy_sandbox import (
    AgentSandbox,
    LazySandbox,
    SandboxOwner,
    VerifierSandbox,
)

log = logging.getLogger(__name__)
OUTPUT: Final = "/output"
INPUT: Final = "/input"
_CAPTURE_TIMEOUT: Final = 300.0
# The largest work of an agent that is stored with its answer, in bytes.
_LARGEST: Final = 64 * 2**20
_PREPARE_TIMEOUT: Final = 900.0
_BASE_COMMIT: Final = "/tmp/_nel_base_commit"


class AttemptSandboxes:
    """The sandbox of one attempt, for solving and verifying.

    Args:
        manager: Starts and stops sandboxes.
        seed: The problem.
        outside_endpoints: URLs of the host that the solver's commands may reach.

    Attributes:
        agent: The sandbox of the solver, which starts on first use.
    """

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
        self.agent = self._agent_class(manager, spec, outside_endpoints, self._prepare_agent)

    async def for_verify(self) -> Sandbox:
        """Return the sandbox of the verifier."""
        return self.agent

    async def keep(self, target: Path) -> None:
        """Store the solver's work in one file; does nothing when it cannot be carried, or is too large."""

    async def restore(self, kept: Path) -> None:
        """Use stored work in place of the solver's."""

    async def close(self) -> None:
        """Stop the sandboxes."""
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
        # The captured work, once there is some.
        self._folder = tempfile.TemporaryDirectory(prefix="nel-carry-")
        self._carried: Path | None = None
        # Whether this session only tests that an untouched workspace can be carried.
        self._is_control = False

    async def for_verify(self) -> Sandbox:
        """Return the verifier's sandbox. If the agent's was used, its work is captured first, and it is stopped.

        Raises:
            TamperError: The agent's work cannot be carried, but an untouched workspace can.
            SandboxError: The work cannot be carried for another reason.
        """
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
        """Bring the agent's work into a verifier's sandbox."""
        if self._carried is None:
            return
        await sandbox.upload(self._carried, INPUT)
        command = self._seed.apply_cmd
        if command is None and self._capture_cmd is None:
            command = workspace.apply_command(sandbox.spec.workdir)
        if command is not None:
            await _must(sandbox, command, self._manager.config.verify_timeout, what="apply_cmd")

    async def keep(self, target: Path) -> None:
        """Capture the work, and store it for a later verification if it is not too large."""
        await self._carry()
        if self._carried is not None:
            await asyncio.to_thread(_pack, self._carried, target)

    async def restore(self, kept: Path) -> None:
        """Use stored work, without the agent.

        Raises:
            SandboxError: The stored work cannot be read.
        """
        carried = Path(self._folder.name) / "output"
        await asyncio.to_thread(_unpack, kept, carried)
        await self._clean(carried)
        self._carried = carried

    async def close(self) -> None:
        """Stop both sandboxes."""
        self._folder.cleanup()
        await super().close()
        if self._verifier is not None:
            await self._verifier.stop()

    async def _carry(self) -> None:
        """Capture the agent's work, if there is any and it was not captured before."""
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
        """Try once more before the agent is blamed: the machine may be at fault."""
        await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
        try:
            await self._capture(target)
        except (SandboxError, BudgetError):
            await self._blame(failure)

    async def _blame(self, failure: SandboxError | BudgetError) -> NoReturn:
        """Raise the error for work that could not be carried.

        Raises:
            TamperError: An untouched workspace can be carried.
            SandboxError: An untouched workspace cannot be carried either.
            BudgetError: The work is too large, and an untouched workspace cannot be carried either.
        """
        if self._is_control:
            raise failure
        # The limit of concurrent sandboxes may allow no more than this session holds.
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
        """Rewrite the archive with plain content only, if nel's own commands carry the work."""
        archive = folder / ARCHIVE
        if self._applies_archive() and archive.is_file():
            await asyncio.to_thread(clean_archive, archive)

    def _applies_archive(self) -> bool:
        """Whether nel's own command applies the work."""
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
        """The completed spec, with scratch folders for the carried work."""
        completed = super()._completed(spec)
        scratch_volumes = [VolumeMount(container_path=OUTPUT), VolumeMount(container_path=INPUT)]
        return replace(completed, volumes=[*completed.volumes, *scratch_volumes])


def _pack(folder: Path, target: Path) -> None:
    """Store a folder as an archive, unless it is too large."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > _LARGEST:
        log.info("the work of an agent is too large to be stored: %s", target.name)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part")
    with tarfile.open(unfinished, "w:gz", compresslevel=1) as tar:
        tar.add(folder, arcname=".")
    unfinished.replace(target)


def _unpack(kept: Path, folder: Path) -> None:
    """Extract the plain files of a stored archive; the agent's archive among them is opened in the sandbox only."""
    folder.mkdir()
    try:
        with tarfile.open(kept) as tar:
            for member in tar.getmembers():
                if member.isfile() and (content := tar.extractfile(member)) is not None:
                    (folder / Path(member.name).name).write_bytes(content.read())
    except (OSError, tarfile.TarError, EOFError) as error:
        raise SandboxError(f"cannot read the stored work of an agent: {kept}: {error}") from error


async def _must(sandbox: Sandbox, command: str, timeout: float, what: str) -> None:
    """Run a command. Raises SandboxError, with the name of the step, when the command fails."""
    result = await sandbox.exec(command, timeout=timeout)
    if not result.ok:
        reason = f"exit code {result.exit_code}"
        if result.timed_out:
            reason = f"timed out after {timeout:g} s"
        tail = (result.stderr or result.stdout).strip()[-500:]
        raise SandboxError(f"{what} failed in the sandbox ({reason}): {tail}")
