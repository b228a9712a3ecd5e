"""``local`` with ``runtime: runsc``: the same view of the machine behind gVisor's own kernel. Needs root and runsc."""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox import _bwrap
from nemo_evaluator.sandbox._backend import keepalive
from nemo_evaluator.sandbox._container import ContainerSandbox
from nemo_evaluator.sandbox._entry_command import Client, call
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint, volumes_of
from nemo_evaluator.sandbox.jail import cgroups

_UID: Final = 65534
# gVisor's own threads count against the limit of the group that it runs in.
_OWN_THREADS: Final = 256


def find_runsc() -> str | None:
    """The runsc binary."""
    return shutil.which("runsc")


@dataclass(eq=False)
class GVisorSandbox(ContainerSandbox):
    """A gVisor container without an engine."""

    kind: ClassVar[str] = "local"
    _folder: Path | None = field(default=None, init=False)

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        if find_runsc() is None:
            raise SandboxError("runsc is not installed", hint="install gVisor (gvisor.dev), or leave runtime out")
        if os.geteuid() != 0:
            raise SandboxError("runtime: runsc needs root here", hint="use runtime: bwrap, or docker with runsc")
        if self.settings.network != "none" or outside_endpoints:
            raise SandboxError("a gVisor sandbox has no network", hint="use runtime: bwrap with network: model-only")
        self._folder = Path(tempfile.mkdtemp(prefix="nel-gvisor-"))
        self._folder.chmod(0o755)
        self.base_env = {"PATH": _bwrap.PATH, "HOME": self.spec.workdir, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
        self._write_bundle(self._folder)
        await super()._open(outside_endpoints)

    async def _boot(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        await call(self._runsc("run", "-detach", "-bundle", str(self._folder), self.name), timeout=60)

    def _removal(self) -> Client:
        return self._runsc("delete", "-force", self.name)

    async def stop(self) -> None:
        """Remove the container and its bundle."""
        try:
            await super().stop()
        finally:
            folder, self._folder = self._folder, None
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    async def _post_mortem(self) -> Exit | None:
        # Its memory limit is that of the whole: where Linux would kill one process, gVisor ends altogether.
        groups = [f"/sys/fs/cgroup/memory/{self.name}", f"/sys/fs/cgroup/{self.name}"]
        if cgroups.oom_kills(groups):
            self.started = False
            return Exit(137, out_of_memory=True)
        state = await call(self._runsc("state", self.name), timeout=30)
        if json.loads(state)["status"] == "running":
            return None
        self.started = False
        raise SandboxError("the gVisor sandbox ended while a command ran in it")

    def _runsc(self, *words: str) -> Client:
        options = ["-root", f"{self._folder}/state", "-network=none", "-platform=systrap", "-overlay2=none"]
        return Client([find_runsc() or "runsc", *options, *words], _ENV)

    def _client(self, argv: list[str], env: dict[str, str], user: str | None) -> Client:
        self._check_user(user, (None, "sandbox"))
        assert self._folder is not None
        # In a file that only we can read: arguments are for all to see.
        handle, path = tempfile.mkstemp(dir=self._folder, suffix=".json")
        with os.fdopen(handle, "w") as file:
            json.dump({**_PROCESS, "args": argv, "env": [f"{name}={value}" for name, value in env.items()]}, file)
        return self._runsc("exec", "-process", path, self.name)

    def _write_bundle(self, folder: Path) -> None:
        _bwrap.prepare(folder, _UID)
        root = folder / "rootfs"
        for name in ("usr", "etc", "proc", "dev", "tmp", "run", self.spec.workdir.lstrip("/")):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                (root / name).symlink_to(Path("/", name).readlink())
        (folder / "config.json").write_text(json.dumps(self._config(folder, root)))

    def _config(self, folder: Path, root: Path) -> dict[str, Any]:
        limits = self.settings
        size = max(64 * 2**20, limits.memory // 4)
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            _bind("/usr", "/usr"),
            _bind(str(folder / "etc"), "/etc"),
            _scratch("/tmp", size),
            _scratch(self.spec.workdir, size),
        ]
        for mount in volumes_of(self.spec):
            if not mount.host_path:
                mounts.append(_scratch(mount.container_path, size))
            else:
                mounts.append(_bind(mount.host_path, mount.container_path, read_only=mount.readonly))
            (root / mount.container_path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        environment = [f"{name}={value}" for name, value in {**self.base_env, "NEL_EXEC": "main"}.items()]
        return {
            "ociVersion": "1.0.0",
            "process": {**_PROCESS, "args": ["/bin/sh", "-c", keepalive(self.spec)], "env": environment},
            "root": {"path": str(root), "readonly": True},
            "hostname": "sandbox",
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
                "cgroupsPath": f"/{self.name}",
                "resources": {
                    "memory": {"limit": limits.memory},
                    "cpu": {"quota": int(limits.cpus * 100_000), "period": 100_000},
                    "pids": {"limit": limits.pids + _OWN_THREADS},
                },
            },
        }


_ENV: Final = {"PATH": os.defpath}
_PROCESS: Final[dict[str, Any]] = {
    "user": {"uid": _UID, "gid": _UID},
    "cwd": "/",
    "noNewPrivileges": True,
    "capabilities": {},
    "rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
}


def _bind(source: str, target: str, *, read_only: bool = True) -> dict[str, Any]:
    options = ["rbind", "ro" if read_only else "rw", "nosuid", "nodev"]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def _scratch(target: str, size: int) -> dict[str, Any]:
    options = ["nosuid", "nodev", "mode=1777", f"size={size}"]
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options}
