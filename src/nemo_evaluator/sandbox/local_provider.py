"""Local sandboxes for a run: one keeper for all, and a check that this machine can isolate at all."""

from __future__ import annotations

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._keeper_client import KeeperClient
from nemo_evaluator.sandbox.base import Provider, Sandbox
from nemo_evaluator.sandbox.gvisor import GVisorSandbox
from nemo_evaluator.sandbox.local import LocalConfig, LocalSandbox
from nemo_evaluator.sandbox.unsafe import UnsafeSandbox

_HINT = (
    "install bubblewrap (apt-get install bubblewrap) and allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or use docker, "
    "or set unsafe: true to run the code with no isolation at all"
)


class LocalProvider(Provider):
    """Makes local sandboxes: each shows this machine's own system, or a folder that is given as its image."""

    no_builds = ("this benchmark builds images, which a local sandbox cannot run", "use docker")

    def __init__(self, config: LocalConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._keeper = KeeperClient()
        self._isolates = True
        self._settings = Limits.of(config)

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
        await super().close()
