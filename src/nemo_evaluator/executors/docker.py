"""``docker``: the run happens in one container on this machine, as the user who started it."""

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
# Exit codes of `docker run` itself and of a container whose command is not there.
_NOT_RUN: Final = (125, 126, 127)
# Folders that variables name; what is in them is used inside, too.
_FOLDERS: Final = (
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "HF_HOME",
    "NEL_MODELS_DIR",
    "NEL_DATA_MIRROR",
)
# Variables come in a file that is gone before the run begins: `docker inspect` and process lists show none of them.
_READ: Final = '. "$1" && rm -f "$1" && exec nel eval run --request "$2"'
_ABSENT: Final = ("No such container", "no such container", "is already in progress")
_TIMEOUT: Final = 120.0


def docker(*words: str, absent: bool = False, timeout: float = _TIMEOUT) -> str | None:
    """What a docker command prints; with ``absent`` None when it says that there is no such container."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=timeout)
    except FileNotFoundError as error:
        hint = "install Docker, or use cluster.type: local"
        raise UsageError("the docker command is not installed", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"docker {words[0]} did not answer", hint="check `docker version`"
        ) from error
    if done.returncode == 0:
        return done.stdout.strip()
    if absent and any(told in done.stderr for told in _ABSENT):
        return None
    raise UsageError(
        f"docker {words[0]} failed: {done.stderr.strip()}",
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
    """The container of a run; its name is known before it exists."""

    container_id: str
    image: str


class Docker(Executor):
    """Runs in a container that is removed when the run ends."""

    def start(self, job: Job) -> int:
        """Start the container, and wait for it unless ``--background`` is given."""
        job.refuse_submit()
        settings = cast(DockerCluster, job.loaded.config.cluster)
        if settings.image in (None, "local"):
            hint = "build one from a checkout (see docs/continuous-integration.md), then set cluster.image to its name"
            raise UsageError("cluster.type docker needs an image with nel inside", hint=hint)
        handle = DockerHandle(f"nel-{job.run.run_id}", str(settings.image))
        job.folder.mkdir(parents=True, exist_ok=True)
        left = _state(handle.container_id)
        if left == "running":
            raise UsageError(
                f"container {handle.container_id} is running", hint="wait for it, or stop the run"
            )
        if left is not None:
            docker("rm", "--force", handle.container_id, absent=True)
            _wait_gone(handle.container_id)
        job.run.noting(handle).save()
        write_json(job.folder / "docker.json", asdict(handle))
        with _variables(job, settings) as variables:
            words = [
                *_options(job, settings, handle, variables=variables),
                str(write_request(job.request, job.run.run_id, job.folder)),
            ]
            if not job.request.background:
                return _attached(words, handle)
            docker("run", "--detach", *words)
        job.tell_started(
            f"Started in the background: container {handle.container_id}", asdict(handle)
        )
        return 0

    def life(self, run: RunMeta) -> Life | None:
        """The container; it runs once it holds the folder."""
        run = refreshed(run)
        handle = run.handle(DockerHandle)
        if (
            handle is None
            or "exit_code" in run.details
            or _state(handle.container_id) in (None, "removing")
        ):
            return None
        holder = holder_of(Path(run.output_dir))
        if holder and holder.run_id == run.run_id:
            state: Literal["starting", "running"] = "running"
        else:
            state = "starting"
        return Life(
            state, f"container {handle.container_id}", {"container_id": handle.container_id}
        )

    def stop(self, run: RunMeta) -> None:
        """SIGTERM, upon which it sends nothing new; SIGKILL when it does not end; then the container is gone."""
        life = self.life(run)
        if life is None:
            raise not_running(run)
        name = life.facts["container_id"]
        docker("stop", "--time", str(_GRACE), name, absent=True)
        _wait_gone(name)


def _wait_gone(container: str) -> None:
    """The engine removes a container a moment after it has ended."""
    until = time.monotonic() + _GRACE
    while _state(container) is not None and time.monotonic() < until:
        time.sleep(0.05)


def _state(container: str) -> str | None:
    """The engine's description of a container; None when it has none of this name."""
    return docker("container", "inspect", "--format", "{{.State.Status}}", container, absent=True)


def _options(job: Job, settings: DockerCluster, handle: DockerHandle, variables: Path) -> list[str]:
    """The words of ``docker run`` before those of the request."""
    words = [
        "--rm",
        "--init",
        "--name",
        handle.container_id,
        "--label",
        f"nel.run_id={job.run.run_id}",
    ]
    words += [
        "--user",
        f"{os.getuid()}:{os.getgid()}",
        "--security-opt",
        "no-new-privileges",
        "--log-driver",
        "none",
    ]
    words += ["--network", settings.network, "--workdir", str(Path.cwd())]
    # The kernel's lock tells whether its holder lives: it is the same kernel, and to be seen as such.
    if settings.network != "host":
        words += ["--hostname", socket.gethostname()]
    if settings.shm_size:
        words += ["--shm-size", settings.shm_size]
    mounts = [f"{folder}:{folder}" for folder in _outermost(_needed_folders(job, settings))]
    for volume in [*mounts, *settings.container_mounts]:
        words += ["--volume", mount(volume)]
    if job.request.background:
        script = f"{_READ} >>{quoted(job.folder / LOG)} 2>&1"
    else:
        script = _READ
    return [*words, "--entrypoint", "sh", handle.image, "-c", script, "nel", str(variables)]


def _needed_folders(job: Job, settings: DockerCluster) -> list[Path]:
    """The folders that the run reads or writes, which the container sees under their own paths."""
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
    """Existing folders that are in no other of them."""
    outermost: list[Path] = []
    for folder in sorted(set(folders)):
        if folder == Path("/"):
            raise UsageError(
                "/ cannot be mounted in a container", hint="start the run in a folder of its own"
            )
        if folder.is_dir() and not any(folder.is_relative_to(outer) for outer in outermost):
            outermost.append(folder)
    return outermost


@contextmanager
def _variables(job: Job, settings: DockerCluster) -> Iterator[Path]:
    """A file that sets the variables of the run, for its owner only; a run in the background removes it itself."""
    values = {name: value for name in _FOLDERS if (value := os.environ.get(name))}
    home = str(Path.home()) if settings.mount_home else "/tmp"  # noqa: S108
    values |= needed_variables(job.loaded) | {"HOME": home}
    values |= {"PYTHONUNBUFFERED": "1"} | settings.container_env | carried_secrets(job.request)
    path = job.folder / _VARIABLES
    started = False
    write_atomic(path, assignments(values, export=True), mode=0o600)
    try:
        yield path
        started = True
    finally:
        if not (started and job.request.background):
            path.unlink(missing_ok=True)


def _attached(words: list[str], handle: DockerHandle) -> int:
    """Run in the foreground: signals reach the container through the client, its output comes through as it is."""
    client = subprocess.Popen(["docker", "run", *words], stdin=subprocess.DEVNULL)
    here = threading.current_thread() is threading.main_thread()
    old = {
        number: signal.signal(
            number,
            lambda number, _: client.send_signal(number) if number != signal.SIGINT else None,
        )
        for number in ((signal.SIGINT, signal.SIGTERM) if here else ())
    }
    try:
        code = client.wait()
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    if code in _NOT_RUN:
        raise UsageError(
            f"the image {handle.image} could not run nel", hint="see Docker's error above"
        )
    return code


KIND: Final = Kind(DockerCluster, Docker)
