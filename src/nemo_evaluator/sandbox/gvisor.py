"""``local`` with ``runtime: runsc``: the same view of the machine behind gVisor's own kernel. Needs root and runsc."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _bwrap
from nemo_evaluator.sandbox._backend import keepalive
from nemo_evaluator.sandbox._clients import EntryCommand, call
from nemo_evaluator.sandbox._container import ContainerSandbox
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint, volumes_of
from nemo_evaluator.sandbox.jail import cgroups

# The part of the OCI config that all sandboxes share.
_CONFIG: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("gvisor.json").read_text())
# gVisor's own threads count against the limit of the group that it runs in.
_OWN_THREADS: Final = 256


@dataclass(eq=False)
class GVisorSandbox(ContainerSandbox):
    """A gVisor container without an engine."""

    kind: ClassVar[str] = "local"
    _folder: Path = field(default_factory=Path, init=False)

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Check that gVisor can run here, and write the bundle of the container."""
        if shutil.which("runsc") is None:
            raise SandboxError(
                "runsc is not installed", hint="install gVisor (gvisor.dev), or leave runtime out"
            )
        if os.geteuid() != 0:
            raise SandboxError(
                "runtime: runsc needs root here", hint="use runtime: bwrap, or docker with runsc"
            )
        if self.settings.network != "none" or outside_endpoints:
            raise SandboxError(
                "a gVisor sandbox has no network",
                hint="use runtime: bwrap with network: model-only",
            )
        self._folder = Path(tempfile.mkdtemp(prefix="nel-gvisor-"))
        self._ending.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._folder.chmod(0o755)
        self.base_env = {
            "PATH": _bwrap.PATH,
            "HOME": _bwrap.HOME,
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",
        }
        self._write_bundle(self._folder)
        await super()._open(outside_endpoints)

    async def _boot(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        await call(
            self._runsc("run", "-detach", "-bundle", str(self._folder), self.name), timeout=60
        )

    def _removal(self) -> EntryCommand:
        return self._runsc("delete", "-force", self.name)

    async def _lost(self, launched: int, token: str) -> Exit:
        """Find out why a command ended without a report: memory may have run out, which ends the whole sandbox."""
        # The memory limit applies to gVisor itself: where Linux would kill one process, the whole sandbox ends.
        groups = [f"/sys/fs/cgroup/memory/{self.name}", f"/sys/fs/cgroup/{self.name}"]
        if cgroups.oom_kills(groups):
            self.started = False
            return Exit(137, out_of_memory=True)
        state = await call(self._runsc("state", self.name), timeout=30)
        if json.loads(state)["status"] == "running":
            return await super()._lost(launched, token)
        self.started = False
        raise SandboxError("the gVisor sandbox ended while a command ran in it")

    def _runsc(self, *words: str) -> EntryCommand:
        options = ["-root", f"{self._folder}/state", "-network=none"]
        options += ["-platform=systrap", "-overlay2=none"]
        program = shutil.which("runsc") or "runsc"
        return EntryCommand([program, *options, *words], {"PATH": os.defpath})

    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> EntryCommand:
        self._check_user(user, (None, "sandbox"))
        # In a file that only this user can read: every user can see arguments.
        handle, path = tempfile.mkstemp(dir=self._folder, suffix=".json")
        with os.fdopen(handle, "w") as file:
            json.dump(_process(argv, env), file)
        return self._runsc("exec", "-process", path, self.name)

    def _write_bundle(self, folder: Path) -> None:
        """Write the root folder and the OCI config of the container."""
        _bwrap.prepare(folder, _CONFIG["process"]["user"]["uid"])
        self._make_root(folder / "rootfs")
        limits = self.settings
        resources = {
            "memory": {"limit": limits.memory},
            "cpu": {"quota": int(limits.cpus * 100_000), "period": 100_000},
            "pids": {"limit": limits.pids + _OWN_THREADS},
        }
        main = ["/bin/sh", "-c", f"mkdir -p {_bwrap.HOME}; {keepalive(self.spec)}"]
        config = {
            **_CONFIG,
            "process": _process(main, {**self.base_env, "NEL_EXEC": "main"}),
            "mounts": [*_CONFIG["mounts"], *self._mounts(folder)],
            "linux": {**_CONFIG["linux"], "cgroupsPath": f"/{self.name}", "resources": resources},
        }
        (folder / "config.json").write_text(json.dumps(config))

    def _make_root(self, root: Path) -> None:
        """Create the folders and links of the root file system."""
        own_folders = [self.spec.workdir]
        own_folders += [volume.container_path for volume in volumes_of(self.spec)]
        for name in ("usr", "etc", "proc", "dev", "tmp", "run", *own_folders):
            (root / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                (root / name).symlink_to(Path("/", name).readlink())

    def _mounts(self, folder: Path) -> list[dict[str, Any]]:
        """The system, the scratch folders, and the volumes of the spec."""
        size = max(64 * 2**20, self.settings.memory // 4)
        mounts = [
            _mount("/usr", "/usr", "ro"),
            _mount(str(folder / "etc"), "/etc", "ro"),
            _scratch("/tmp", size),
            _scratch(self.spec.workdir, size),
        ]
        for volume in volumes_of(self.spec):
            if volume.host_path:
                mode = "ro" if volume.readonly else "rw"
                mounts.append(_mount(volume.host_path, volume.container_path, mode))
            else:
                mounts.append(_scratch(volume.container_path, size))
        return mounts


def _process(argv: list[str], env: Mapping[str, str]) -> dict[str, Any]:
    return {
        **_CONFIG["process"],
        "args": argv,
        "env": [f"{name}={value}" for name, value in env.items()],
    }


def _mount(source: str, target: str, mode: str) -> dict[str, Any]:
    return {
        "destination": target,
        "type": "bind",
        "source": source,
        "options": ["rbind", mode, "nosuid", "nodev"],
    }


def _scratch(target: str, size: int) -> dict[str, Any]:
    options = ["nosuid", "nodev", "mode=1777", f"size={size}"]
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options}
