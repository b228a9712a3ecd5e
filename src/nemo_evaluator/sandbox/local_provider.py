"""Local sandboxes for a run: one keeper for all, and a check that this machine can isolate at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._keeper_client import KeeperClient
from nemo_evaluator.sandbox._reaper import Reaper
from nemo_evaluator.sandbox._sizes import parse_size
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.sandbox.gvisor import GVisorSandbox
from nemo_evaluator.sandbox.local import LocalConfig, LocalSandbox, LocalSettings
from nemo_evaluator.sandbox.unsafe import UnsafeSandbox

_HINT = (
    "install bubblewrap (apt-get install bubblewrap) and allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or use docker, "
    "or set unsafe: true to run the code with no isolation at all"
)


class LocalProvider:
    """Makes local sandboxes."""

    def __init__(self, config: LocalConfig, run_id: str) -> None:
        self._config = config
        self._run_id = run_id
        self._keeper = KeeperClient()
        self._reaper = Reaper()
        self._isolates = True
        self.concurrency = config.concurrency
        self._settings = LocalSettings(
            memory=parse_size(config.memory),
            cpus=config.cpus,
            pids=config.pids,
            network=config.network,
            read_only=config.read_only,
        )

    async def check(self) -> None:
        """Start a sandbox and run something in it; nothing less proves that this machine isolates."""
        probe = self.create(SandboxSpec())
        try:
            await probe.start()
            result = await probe.exec(["true"], timeout=20)
            if not result.ok:
                raise SandboxError(f"a test command failed: {result.stderr.strip()}")
        except SandboxError as error:
            if self._config.unsafe:
                self._isolates = False
                return
            raise SandboxError(f"this machine cannot isolate untrusted code: {error.message}", hint=_HINT) from error
        finally:
            await probe.stop()

    async def ensure_image(self, image: str) -> None:
        """There is nothing to pull: an image is a folder, and starting says whether it will do."""

    async def build_images(self, requests: Sequence[Any]) -> None:
        """Refuse: a local sandbox shows this machine's own system."""
        if requests:
            raise SandboxError("this benchmark builds images, which a local sandbox cannot run", hint="use docker")

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A local sandbox."""
        if not self._isolates:
            return UnsafeSandbox(spec, self._run_id)
        if self._config.runtime == "runsc":
            return GVisorSandbox(spec, self._run_id, settings=self._settings, reaper=self._reaper)
        return LocalSandbox(spec, self._run_id, settings=self._settings, keeper=self._keeper)

    async def close(self) -> None:
        """End the keeper and the reaper."""
        await self._keeper.close()
        await self._reaper.close()
