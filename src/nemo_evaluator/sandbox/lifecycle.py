"""From solving to verifying: in one sandbox, or by carrying the agent's work into a fresh one.

- *stateful*: the verifier sees the sandbox as the agent left it;
- *stateless* (the problem names a verifier's sandbox): the work is captured, carried over and applied;
- without a spec there is none.

Every step between is the harness's own: when one fails, that is a SandboxError, never a verdict.
"""

import asyncio
import logging
import shlex
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox, VolumeMount
from nemo_evaluator.sandbox.lazy import Keeper, LazySandbox

log = logging.getLogger(__name__)
OUTPUT: Final = "/output"
INPUT: Final = "/input"
_CAPTURE_TIMEOUT: Final = 300.0
# Bytes of an agent's work that are kept beside its answer.
_LARGEST: Final = 64 * 2**20
_PREPARE_TIMEOUT: Final = 900.0
_BASE_COMMIT: Final = "/tmp/_nel_base_commit"


class Session:
    """The sandboxes of one attempt: one for both parts."""

    def __init__(self, agent: LazySandbox | None) -> None:
        self._agent = agent

    @property
    def agent(self) -> Sandbox | None:
        """Where the solver works; it starts when it is first used."""
        return self._agent

    async def for_verify(self) -> Sandbox | None:
        """Where the verifier works."""
        return self._agent

    async def keep(self, target: Path) -> None:
        """Keep what the solver left as one file, unless it stays where it is or is too large."""

    async def restore(self, kept: Path) -> None:
        """Take what was kept for the work of the solver."""

    async def close(self) -> None:
        """Stop what is left."""
        if self._agent is not None:
            await self._agent.stop()


class StatelessSession(Session):
    """A sandbox for the agent and a fresh one for the verifier, with the agent's work applied."""

    def __init__(self, manager: Keeper, seed: SeedResult, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        config = manager.config
        self._manager = manager
        self._seed = seed
        self._capture_cmd: str | None = config.capture_cmd or seed.capture_cmd
        self._scrub: bool = config.scrub_git_history
        self._timeout: float = config.verify_timeout
        agent_spec = _with_folders(manager.resolve(seed.sandbox_spec or seed.verify_sandbox_spec, seed.metadata))
        self._verify_spec = _with_folders(manager.resolve(seed.verify_sandbox_spec, seed.metadata))
        self._started = LazySandbox(manager, agent_spec, outside_endpoints, self._prepare_agent)
        self._verifier: LazySandbox | None = None
        # What is carried from one to the other, once there is something.
        self._folder = tempfile.TemporaryDirectory(prefix="nel-carry-")
        self._carried: Path | None = None
        super().__init__(self._started)

    async def for_verify(self) -> Sandbox | None:
        """The verifier's sandbox; the agent's is captured and stopped first, if it was used."""
        if self._verifier is not None:
            return self._verifier
        await self._carry()
        await self._started.stop()
        self._verifier = LazySandbox(self._manager, self._verify_spec)
        if self._carried is not None:
            await self._apply(self._verifier, self._carried)
        return self._verifier

    async def keep(self, target: Path) -> None:
        """Capture the work, and keep it when it is not too large to be verified again some day."""
        await self._carry()
        if self._carried is not None:
            await asyncio.to_thread(_pack, self._carried, target)

    async def restore(self, kept: Path) -> None:
        """Verify what was kept, without the agent."""
        self._carried = Path(self._folder.name) / "output"
        await asyncio.to_thread(_unpack, kept, self._carried)

    async def close(self) -> None:
        """Stop both."""
        self._folder.cleanup()
        await super().close()
        if self._verifier is not None:
            await self._verifier.stop()

    async def _carry(self) -> None:
        if self._carried is None and self._started.started:
            target = Path(self._folder.name) / "output"
            await self._capture(self._started, target)
            self._carried = target

    async def _prepare_agent(self, sandbox: Sandbox) -> None:
        workdir = shlex.quote(sandbox.spec.workdir)
        await sandbox.exec(f"git -C {workdir} rev-parse HEAD > {_BASE_COMMIT} 2>/dev/null", timeout=10)
        if self._scrub:
            await _must(
                sandbox, workspace.scrub_command(sandbox.spec.workdir), _PREPARE_TIMEOUT, "removing git history"
            )
        if self._seed.pre_agent_cmd:
            await _must(sandbox, self._seed.pre_agent_cmd, _PREPARE_TIMEOUT, "pre_agent_cmd")

    async def _capture(self, agent: Sandbox, target: Path) -> None:
        command = self._capture_cmd or workspace.capture_command(agent.spec.workdir)
        await _must(agent, command, _CAPTURE_TIMEOUT, "capture_cmd")
        await agent.download(OUTPUT, target)
        if not any(target.iterdir()):
            raise SandboxError(f"capture_cmd left nothing in {OUTPUT}")

    async def _apply(self, verifier: Sandbox, carried: Path) -> None:
        await verifier.upload(carried, INPUT)
        command = self._seed.apply_cmd
        if command is None and self._capture_cmd is None:
            command = workspace.apply_command(verifier.spec.workdir)
        if command is not None:
            await _must(verifier, command, self._timeout, "apply_cmd")


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
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:
                    (folder / Path(member.name).name).write_bytes(content.read())
    except (OSError, tarfile.TarError, EOFError) as error:
        raise SandboxError(f"the kept work of an agent cannot be read: {kept}: {error}") from error


def open_session(manager: Keeper, seed: SeedResult, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> Session:
    """The life cycle that a problem and the config ask for."""
    if seed.verify_sandbox_spec is not None and not manager.config.stateful:
        return StatelessSession(manager, seed, outside_endpoints)
    spec = manager.resolve(seed.sandbox_spec or seed.verify_sandbox_spec, seed.metadata)

    async def prepare(sandbox: Sandbox) -> None:
        if seed.pre_agent_cmd:
            await _must(sandbox, seed.pre_agent_cmd, _PREPARE_TIMEOUT, "pre_agent_cmd")

    return Session(LazySandbox(manager, spec, outside_endpoints, prepare))


def _with_folders(spec: SandboxSpec) -> SandboxSpec:
    """The same with scratch folders for what is carried from one sandbox to the other."""
    extra = [VolumeMount(container_path=OUTPUT), VolumeMount(container_path=INPUT)]
    return replace(spec, volumes=[*spec.volumes, *extra])


async def _must(sandbox: Sandbox, command: str, timeout: float, what: str) -> None:
    result = await sandbox.exec(command, timeout=timeout)
    if not result.ok:
        why = f"timed out after {timeout:g} s" if result.timed_out else f"exit code {result.exit_code}"
        tail = (result.stderr or result.stdout).strip()[-500:]
        raise SandboxError(f"{what} failed in the sandbox ({why}): {tail}")
