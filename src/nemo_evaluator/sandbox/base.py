"""The contract of a sandbox: start, exec, upload, download, stop."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.sandbox._reaper import Reaper

# Called with "stdout" or "stderr" and bytes as they arrive.
OnOutput: TypeAlias = Callable[[str, bytes], object]


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The result of a command.

    Attributes:
        stdout: Its output; the middle is left out where it is too long.
        stderr: Its errors, likewise.
        return_code: Its own exit code, or 128 + the number of the signal that ended it.
        timed_out: Whether its deadline ended it.
        truncated: Whether a part of the output was left out.
        out_of_memory: Whether the kernel killed a process because memory ran out.
        duration_ms: How long it ran.
    """

    stdout: str
    stderr: str
    return_code: int
    timed_out: bool = False
    truncated: bool = False
    out_of_memory: bool = False
    duration_ms: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with 0."""
        return self.return_code == 0 and not self.timed_out

    @property
    def exit_code(self) -> int:
        """The same as ``return_code``."""
        return self.return_code


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended."""

    code: int
    timed_out: bool = False
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class OutsideEndpoint:
    """A URL of the host (the model proxy) that the sandbox may reach.

    Attributes:
        url: The URL on the host.
        env_var: The variable that holds the address to use inside.
        variables: Further variables; ``{url}`` in a value becomes the address inside.
    """

    url: str
    env_var: str = "MODEL_BASE_URL"
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def inside(self, url: str) -> dict[str, str]:
        """Return the environment of commands that reach the endpoint at ``url``."""
        env = {self.env_var: url}
        for name, value in self.variables.items():
            env[name] = value.replace("{url}", url)
        return env


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A folder of the host (or of EFS, under ECS) that is mounted into a sandbox."""

    host_path: str = ""
    container_path: str = ""
    readonly: bool = False
    efs_filesystem_id: str | None = None
    efs_root_directory: str | None = None
    efs_access_point_id: str | None = None

    @property
    def is_efs(self) -> bool:
        """Whether only ECS can mount the volume."""
        return self.efs_filesystem_id is not None


def volumes_of(spec: SandboxSpec) -> list[VolumeMount]:
    """Return the volumes of a spec.

    Raises:
        SandboxError: A volume is one of EFS, which no sandbox mounts yet.
    """
    mounts: list[VolumeMount] = []
    for volume in spec.volumes:
        mounts.append(volume if isinstance(volume, VolumeMount) else VolumeMount(**volume))
    efs_mounts = [mount for mount in mounts if mount.is_efs]
    refuse_volumes("volumes of EFS cannot be mounted", efs_mounts)
    return mounts


def refuse_volumes(why: str, mounts: Sequence[VolumeMount]) -> None:
    """Raise SandboxError for volumes that a sandbox cannot mount; they are never skipped silently.

    Args:
        why: The reason.
        mounts: The volumes; empty: nothing is raised.
    """
    if not mounts:
        return
    paths = ", ".join(mount.container_path for mount in mounts)
    fix = "put their content into the image, or use a docker or local sandbox with a folder of this machine"
    error = SandboxError(f"{why}: {paths} ({fix})", hint=fix)
    error.final = True
    raise error


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """An image that an environment can build; only the environment interprets ``source``, except for ``folder``."""

    image: str
    source: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageBuildRequest:
    """Images to build before the first problem.

    nel calls ``docker_build_fn`` with the missing ones; it raises on failure.
    """

    specs: Sequence[ImageSpec]
    docker_build_fn: Callable[[list[ImageSpec]], None] | None = None
    codebuild_buildspec_fn: Callable[..., str] | None = None

    @property
    def folders(self) -> dict[str, Path]:
        """The folders, by image, from whose Dockerfile nel itself builds an image."""
        folders: dict[str, Path] = {}
        if self.docker_build_fn is None:
            for spec in self.specs:
                if "folder" in spec.source:
                    folders[spec.image] = Path(spec.source["folder"])
        return folders


@runtime_checkable
class Sandbox(Protocol):
    """An isolated environment for untrusted code. Every method raises SandboxError when the sandbox itself fails."""

    spec: SandboxSpec

    @property
    def is_running(self) -> bool:
        """True between ``start`` and ``stop``."""

    @property
    def container_ip(self) -> str | None:
        """The address of the container, if it has one that the host can reach."""

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Start the sandbox.

        Args:
            outside_endpoints: URLs of the host that commands may reach, and find in their environment.
        """

    async def exec(
        self,
        command: str | Sequence[str],
        timeout: float = 180.0,
        *,
        timeout_sec: float | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
        max_output_bytes: int = 1_000_000,
        on_output: OnOutput | None = None,
        background: bool = False,
    ) -> ExecResult:
        """Run a command with a hard deadline. When it ends, all its processes are killed.

        Args:
            command: An argument list, or a string for a shell.
            timeout: Seconds until it is killed.
            timeout_sec: Another name of ``timeout``.
            cwd: The working directory; None: that of the spec.
            env: Variables, in addition to those of the spec.
            stdin: Its input.
            user: The user that it runs as; None: the default of the sandbox.
            max_output_bytes: The most that is kept of each stream.
            on_output: Receives "stdout" or "stderr" and bytes as they arrive.
            background: Whether processes that the command leaves stay until the sandbox stops, if it ends by itself.
        """

    async def run_judge(
        self, command: Sequence[str], stdin: bytes, *, timeout: float = 30.0
    ) -> ExecResult:
        """Run a command that starts a program and judges it, and that the program must not reach.

        It runs as root where the sandbox has root, so that it can restrict the program; elsewhere in folders that are
        removed afterwards.

        Args:
            command: An argument list.
            stdin: Its input.
            timeout: Seconds until it is killed.
        """

    async def upload(self, source: Path | str | bytes, target: str) -> None:
        """Put a file, a folder's content, or bytes at ``target``."""

    async def download(self, source: str, target: Path | str) -> None:
        """Fetch a file or a folder's content to ``target``."""

    async def stop(self) -> None:
        """Stop the sandbox; safe to call twice."""

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address under which code inside reaches a URL of the host."""

    def resolved_endpoint_url(self, env_var: str) -> str | None:
        """The address inside of the endpoint that is registered under ``env_var``; None when there is none."""


class Provider:
    """Creates the sandboxes of one kind for one run, and owns their shared resources.

    Args:
        config: The sandbox config.
        run_id: The run that the sandboxes belong to.

    Attributes:
        concurrency: The most sandboxes at the same time.
    """

    # Why images cannot be built for the kind, and the fix.
    no_builds: ClassVar[tuple[str, str]] = (
        "this benchmark builds images, which a {} sandbox cannot run",
        "use docker",
    )

    def __init__(self, config: Any, run_id: str) -> None:
        self._config = config
        self._run_id = run_id
        self.concurrency: int = config.concurrency
        self._reaper = Reaper()

    async def check(self) -> None:
        """Check that sandboxes of this kind work here.

        Raises:
            SandboxError: They do not; the message has the fix.
        """

    async def ensure_image(self, image: str) -> None:
        """Pull or build an image if necessary; kinds that pull when a sandbox starts do nothing."""

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Build the images of an environment.

        Raises:
            SandboxError: This kind cannot build images.
        """
        if requests:
            problem, fix = self.no_builds
            raise SandboxError(problem.format(self._config.type), hint=fix)

    def create(self, spec: SandboxSpec) -> Sandbox:
        """Create a sandbox, without starting it."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release the shared resources."""
        await self._reaper.close()
