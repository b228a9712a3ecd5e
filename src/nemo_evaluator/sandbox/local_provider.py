"""Local sandboxes for a run: one keeper for all, and a check that this machine can isolate at all."""

from collections.abc import Sequence
from pathlib import Path

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox._keeper_client import KeeperClient
from nemo_evaluator.sandbox.base import ImageBuildRequest, Provider, Sandbox
from nemo_evaluator.sandbox.dockerfile import without_build
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
        self._folders: dict[str, Path] = {}

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

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Note the folders of images that may be no more than a plain system and some files; see ``create``."""
        await super().build_images([one for one in requests if not one.folders])
        for request in requests:
            self._folders |= request.folders

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A local sandbox. What a Dockerfile only copies is put where it says; commands of one cannot be run."""
        if spec.image in self._folders:
            spec = without_build(spec, self._folders[spec.image])
        limits = self._settings.of_problem(spec, self._config)
        if not self._isolates:
            return UnsafeSandbox(spec, self._run_id)
        if self._config.runtime == "runsc":
            return GVisorSandbox(spec, self._run_id, settings=limits, reaper=self._reaper)
        return LocalSandbox(spec, self._run_id, settings=limits, keeper=self._keeper)

    async def close(self) -> None:
        await self._keeper.close()
        await super().close()
