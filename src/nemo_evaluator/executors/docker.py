"""``docker``: runs in one container on this machine, as the user who started it."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, cast

from pydantic import Field

from nemo_evaluator.config.cluster_base import ClusterBase
from nemo_evaluator.config.fields import Argument, EnvMap, Mount, Size, no_items
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic, write_json
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.shell import assignments, mount, quoted
from nemo_evaluator.executors.base import Executor, Job, Life, not_running
from nemo_evaluator.executors.request import carried_secrets, needed_variables, write_request
from nemo_evaluator.store.layout import LOG
from nemo_evaluator.store.lock import holder_of
from nemo_evaluator.store.run_registry import RunMeta, refreshed

_GRACE: Final = 20
_VARIABLES: Final = ".docker.env"
# Exit codes of `docker run` itself, and for a command that is missing in the image.
_NOT_RUN: Final = (125, 126, 127)
# Variables that name folders; these folders are mounted in the container.
_FOLDERS: Final = (
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "HF_HOME",
    "NEL_MODELS_DIR",
    "NEL_DATA_MIRROR",
)
# Variables are passed in a file that is removed before the run begins, so `docker inspect` and ps do not show them.
_READ: Final = '. "$1" && rm -f "$1" && exec nel eval run --request "$2"'
_ABSENT: Final = ("No such container", "no such container", "is already in progress")
_TIMEOUT: Final = 120.0


def docker(*words: str, absent: bool = False, timeout: float = _TIMEOUT) -> str | None:
    """Run a docker command and return its output.

    Args:
        words: The command's arguments.
        absent: Return None if the container does not exist.
        timeout: Seconds the command may take.

    Raises:
        UsageError: If Docker is not installed, does not answer, or the command fails.
    """
    try:
        completed = subprocess.run(
            ["docker", *words], capture_output=True, text=True, timeout=timeout
        )
    except FileNotFoundError as error:
        hint = "install Docker, or use cluster.type: local"
        raise UsageError("the docker command is not installed", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"docker {words[0]} did not answer", hint="check `docker version`"
        ) from error
    if completed.returncode == 0:
        return completed.stdout.strip()
    if absent and any(message in completed.stderr for message in _ABSENT):
        return None
    raise UsageError(
        f"docker {words[0]} failed: {completed.stderr.strip()}",
        hint="check `docker version` and the image",
    )


class DockerCluster(ClusterBase):
    """One container on this machine."""

    type: Literal["docker"] = "docker"
    image: Argument | None = Field(None, description="Image with nel inside.")
    container_mounts: list[Mount] = Field(
        default_factory=no_items, description="Mounts, `host:container[:ro]`."
    )
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the container.")
    mount_home: bool = Field(True, description="Mount the home folder.")
    network: Argument = Field(
        "host", description="Network of the container; `host` reaches models on this machine."
    )
    shm_size: Size | None = Field(None, description="Shared memory.")


@dataclass(frozen=True, slots=True)
class DockerHandle:
    """The container of a run; the name is chosen before the container exists."""

    container_id: str
    image: str


class Docker(Executor):
    """Runs in a container that is removed when the run ends."""

    def start(self, job: Job) -> int:
        """Start the container, and wait for it unless ``--background`` is given.

        Raises:
            UsageError: If no image is set, or the container is already running.
        """
        job.refuse_submit()
        settings = cast(DockerCluster, job.loaded.config.cluster)
        if settings.image in (None, "local"):
            hint = "build one from a checkout (see docs/continuous-integration.md), then set cluster.image to its name"
            raise UsageError("cluster.type docker needs an image with nel inside", hint=hint)
        handle = DockerHandle(f"nel-{job.run.run_id}", str(settings.image))
        container = handle.container_id
        job.folder.mkdir(parents=True, exist_ok=True)
        _remove_old(container)
        job.run.noting(handle).save()
        write_json(job.folder / "docker.json", asdict(handle))
        with _variables(job, settings) as variables:
            arguments = _options(job, settings, handle, variables=variables)
            arguments.append(str(write_request(job.request, job.run.run_id, job.folder)))
            if not job.request.background:
                return _attached(arguments, handle)
            docker("run", "--detach", *arguments)
        job.tell_started(f"Started in the background: container {container}", asdict(handle))
        return 0

    def life(self, run: RunMeta) -> Life | None:
        """Return the container's state: "running" once the worker in it has locked the output folder."""
        run = refreshed(run)
        handle = run.handle(DockerHandle)
        if handle is None or "exit_code" in run.details:
            return None
        container = handle.container_id
        if _state(container) in (None, "removing"):
            return None
        state: Literal["starting", "running"] = "starting"
        holder = holder_of(Path(run.output_dir))
        if holder and holder.run_id == run.run_id:
            state = "running"
        return Life(state, f"container {container}", {"container_id": container})

    def stop(self, run: RunMeta) -> None:
        """Send SIGTERM, after which the run sends no new requests; send SIGKILL if it does not end in time."""
        life = self.life(run)
        if life is None:
            raise not_running(run)
        name = life.facts["container_id"]
        docker("stop", "--time", str(_GRACE), name, absent=True)
        _wait_gone(name)


def _remove_old(container: str) -> None:
    """Remove an ended container of this name; raise UsageError if it is running."""
    state = _state(container)
    if state == "running":
        raise UsageError(f"container {container} is running", hint="wait for it, or stop the run")
    if state is not None:
        docker("rm", "--force", container, absent=True)
        _wait_gone(container)


def _wait_gone(container: str) -> None:
    """Wait until Docker has removed an ended container."""
    deadline = time.monotonic() + _GRACE
    while _state(container) is not None and time.monotonic() < deadline:
        time.sleep(0.05)


def _state(container: str) -> str | None:
    """Return Docker's status of a container; None if it does not exist."""
    return docker("container", "inspect", "--format", "{{.State.Status}}", container, absent=True)


def _options(job: Job, settings: DockerCluster, handle: DockerHandle, variables: Path) -> list[str]:
    """Return the arguments of ``docker run`` that precede the path of the request."""
    arguments = ["--rm", "--init"]
    arguments += ["--name", handle.container_id]
    arguments += ["--label", f"nel.run_id={job.run.run_id}"]
    arguments += ["--user", f"{os.getuid()}:{os.getgid()}"]
    arguments += ["--security-opt", "no-new-privileges"]
    arguments += ["--log-driver", "none"]
    arguments += ["--network", settings.network]
    arguments += ["--workdir", str(Path.cwd())]
    # The folder lock records the host name: with the same name, this machine can check whether the holder is alive.
    if settings.network != "host":
        arguments += ["--hostname", socket.gethostname()]
    if settings.shm_size:
        arguments += ["--shm-size", settings.shm_size]
    for folder in _outermost(_needed_folders(job, settings)):
        arguments += ["--volume", mount(f"{folder}:{folder}")]
    for volume in settings.container_mounts:
        arguments += ["--volume", mount(volume)]
    script = _READ
    if job.request.background:
        script += f" >>{quoted(job.folder / LOG)} 2>&1"
    return [*arguments, "--entrypoint", "sh", handle.image, "-c", script, "nel", str(variables)]


def _needed_folders(job: Job, settings: DockerCluster) -> list[Path]:
    """Return the folders that the run reads or writes; the container mounts them at the same paths."""
    folders = [job.folder, Path.cwd()]
    config_dir = job.run.place("config_dir")
    if config_dir is not None:
        folders.append(config_dir)
    for name in _FOLDERS:
        if os.environ.get(name):
            folders.append(Path(os.environ[name]).resolve())
    if settings.mount_home:
        folders.append(Path.home())
    mirror = job.loaded.config.datasets.mirror
    if mirror:
        folders.append(Path(mirror).resolve())
    return folders


def _outermost(folders: list[Path]) -> list[Path]:
    """Return the existing folders that are not inside another one of the list.

    Raises:
        UsageError: If one of them is ``/``.
    """
    outermost: list[Path] = []
    for folder in sorted(set(folders)):
        if folder == Path("/"):
            raise UsageError(
                "/ cannot be mounted in a container", hint="start the run in a folder of its own"
            )
        is_inside_another = any(folder.is_relative_to(parent) for parent in outermost)
        if folder.is_dir() and not is_inside_another:
            outermost.append(folder)
    return outermost


@contextmanager
def _variables(job: Job, settings: DockerCluster) -> Iterator[Path]:
    """Write the variables of the run to a file that only its owner can read; yield its path and remove it afterwards.

    A run in the background removes the file itself.
    """
    values: dict[str, str] = {}
    for name in _FOLDERS:
        folder = os.environ.get(name)
        if folder:
            values[name] = folder
    values |= needed_variables(job.loaded)
    values["HOME"] = str(Path.home()) if settings.mount_home else "/tmp"  # noqa: S108
    values["PYTHONUNBUFFERED"] = "1"
    values |= settings.container_env
    values |= carried_secrets(job.request)
    path = job.folder / _VARIABLES
    started = False
    write_atomic(path, assignments(values, export=True), mode=0o600)
    try:
        yield path
        started = True
    finally:
        if not (started and job.request.background):
            path.unlink(missing_ok=True)


def _attached(arguments: list[str], handle: DockerHandle) -> int:
    """Run in the foreground, forwarding signals to the container and its output to the terminal."""
    client = subprocess.Popen(["docker", "run", *arguments], stdin=subprocess.DEVNULL)
    with _forwarded_signals(client):
        code = client.wait()
    if code in _NOT_RUN:
        raise UsageError(
            f"the image {handle.image} could not run nel", hint="see Docker's error above"
        )
    return code


@contextmanager
def _forwarded_signals(client: subprocess.Popen[bytes]) -> Iterator[None]:
    """Send SIGTERM on to a process; SIGINT reaches it from the terminal. Only the main thread may set handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def forward(number: int, _: object) -> None:
        if number != signal.SIGINT:
            client.send_signal(number)

    old_handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        old_handlers[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


KIND: Final = Kind(DockerCluster, Docker)
