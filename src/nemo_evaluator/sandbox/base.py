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
    """What a command left behind. The exit code is always the command's own, or 128 + the signal that ended it, as a
    shell would say it; a deadline is said, not encoded."""

    stdout: str
    stderr: str
    return_code: int
    timed_out: bool = False
    truncated: bool = False
    out_of_memory: bool = False
    duration_ms: float = 0.0

    @property
    def ok(self) -> bool:
        """True when the command ended by itself with 0."""
        return self.return_code == 0 and not self.timed_out

    @property
    def exit_code(self) -> int:
        """Another name of ``return_code``."""
        return self.return_code


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended."""

    code: int
    timed_out: bool = False
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class OutsideEndpoint:
    """A URL of the host (the model proxy) that the sandbox may reach; inside, ``env_var`` holds the address to use.
    ``variables`` are set beside it; ``{url}`` in one of them stands for the address inside."""

    url: str
    env_var: str = "MODEL_BASE_URL"
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def inside(self, url: str) -> dict[str, str]:
        """The environment of commands that reach the endpoint as ``url``."""
        return {
            self.env_var: url,
            **{name: value.replace("{url}", url) for name, value in self.variables.items()},
        }


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
        """True for a volume that only ECS can mount."""
        return self.efs_filesystem_id is not None


def volumes_of(spec: SandboxSpec) -> list[VolumeMount]:
    """The volumes of a spec. Raises SandboxError for those of EFS, which no sandbox mounts yet."""
    mounts = [one if isinstance(one, VolumeMount) else VolumeMount(**one) for one in spec.volumes]
    refuse_volumes("volumes of EFS cannot be mounted", [mount for mount in mounts if mount.is_efs])
    return mounts


def refuse_volumes(why: str, mounts: Sequence[VolumeMount]) -> None:
    """Raise SandboxError, with the fix, for volumes that a sandbox cannot have: never leave them out in silence."""
    if mounts:
        fix = "put what lies there into the image, or use a docker or local sandbox with a folder of this machine"
        error = SandboxError(
            f"{why}: {', '.join(mount.container_path for mount in mounts)} ({fix})", hint=fix
        )
        error.final = True
        raise error


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """An image that an environment can build; ``source`` is its own affair."""

    image: str
    source: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageBuildRequest:
    """Images to build before the first problem: ``docker_build_fn`` gets the missing ones, and raises on failure."""

    specs: Sequence[ImageSpec]
    docker_build_fn: Callable[[list[ImageSpec]], None] | None = None
    codebuild_buildspec_fn: Callable[..., str] | None = None

    @property
    def folders(self) -> dict[str, Path]:
        """Images that nobody builds but us, each from a folder with a Dockerfile: the folders by image."""
        if self.docker_build_fn is None:
            own: list[ImageSpec] = [one for one in self.specs if "folder" in one.source]
        else:
            own = []
        return {one.image: Path(one.source["folder"]) for one in own}


@runtime_checkable
class Sandbox(Protocol):
    """A place where untrusted code runs. Every method raises SandboxError when the sandbox itself failed."""

    spec: SandboxSpec

    @property
    def is_running(self) -> bool:
        """True between ``start`` and ``stop``."""

    @property
    def container_ip(self) -> str | None:
        """The address of the sandbox's container, where it has one that the host can reach."""

    async def start(self, *, outside_endpoints: Sequence[OutsideEndpoint] = ()) -> None:
        """Bring the sandbox up; commands inside will reach ``outside_endpoints`` and see them in their environment."""

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
        """Run a command (a string goes through a shell) with a hard deadline; ``timeout_sec`` is its other name.
        Whatever it started dies with it, unless ``background`` is set and it ended by itself: then what it left running
        lives on until the sandbox stops."""

    async def run_judge(
        self, command: Sequence[str], stdin: bytes, *, timeout: float = 30.0
    ) -> ExecResult:
        """Run a command that starts a program itself and must keep out of its reach: as root where the sandbox has one,
        so that it can take away from the program what it must not have; elsewhere in folders that are gone afterwards.
        """

    async def upload(self, source: Path | str | bytes, target: str) -> None:
        """Put a file, a folder's content, or bytes at ``target``."""

    async def download(self, source: str, target: Path | str) -> None:
        """Fetch a file or a folder's content to ``target``."""

    async def stop(self) -> None:
        """Take the sandbox down; safe to call twice."""

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address under which code inside reaches a URL of the host."""

    def resolved_endpoint_url(self, env_var: str) -> str | None:
        """The address inside of the endpoint registered under ``env_var``; None when there is none."""


class Provider:
    """Makes the sandboxes of one kind for one run, and keeps what they share. The builder of a sandbox kind is called
    with its settings and the id of the run, and gives one of these."""

    # Why images cannot be built for the kind, and what to do instead.
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
        """Raise SandboxError, with what to install, when sandboxes of this kind cannot be had here."""

    async def ensure_image(self, image: str) -> None:
        """Have an image ready; there is nothing to do where it is pulled when a sandbox starts."""

    async def build_images(self, requests: Sequence[ImageBuildRequest]) -> None:
        """Build what an environment asks for."""
        if requests:
            raise SandboxError(self.no_builds[0].format(self._config.type), hint=self.no_builds[1])

    def create(self, spec: SandboxSpec) -> Sandbox:
        """A sandbox, not yet started."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of what the sandboxes shared."""
        await self._reaper.close()
