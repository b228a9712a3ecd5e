"""The forms of a launch plan: the command that starts it in a container, or as a step of a SLURM job.
The form for this machine is ``launch.argv`` itself."""

from collections.abc import Sequence
from typing import Literal

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.shell import env_name, mount
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.servers.launch import Launch


def docker_argv(
    launch: Launch, container: str, env_file: str, labels: Sequence[str] = ()
) -> list[str]:
    """The ``docker run`` command of a server, in the foreground: it prints the server's log and has its exit code.

    The port is published on loopback only.

    Args:
        launch: The launch plan; it needs an image.
        container: The name of the container.
        env_file: A file that holds ``launch.env`` (see ``env_file_text``).
        labels: Labels of the container, as ``name=value``.
    """
    assert launch.image, "the launch plan has no container image"
    argv = ["docker", "run", "--rm", "--init", "--name", container, "--env-file", env_file]
    argv += ["--publish", f"127.0.0.1:{launch.port}:{launch.port}"]
    if launch.gpus != 0:
        # Processes of servers on several GPUs exchange data through shared memory.
        argv += ["--ipc", "host"]
    for label in labels:
        argv += ["--label", label]
    for volume in launch.mounts:
        argv += ["--volume", mount(volume)]
    argv += _docker_gpus(launch)
    if launch.entrypoint:
        return [*argv, launch.image, *launch.argv]
    return [*argv, "--entrypoint", launch.argv[0], launch.image, *launch.argv[1:]]


def _docker_gpus(launch: Launch) -> list[str]:
    if launch.gpus is None:
        return ["--gpus", "all"]
    if not launch.gpus:
        return []
    if isinstance(launch.gpus, int):
        return ["--gpus", str(launch.gpus)]
    # The value is a comma-separated list itself, so the device list needs quotes of its own.
    devices = ",".join(map(str, launch.gpus))
    return ["--gpus", f'"device={devices}"']


def env_file_text(env: dict[str, str]) -> str:
    """The text of a file for ``docker run --env-file``.

    Raises:
        UsageError: A value holds a line break, which the format cannot express.
    """
    lines: list[str] = []
    for name, value in env.items():
        if any(character in value for character in "\r\n\0"):
            raise UsageError(
                f"the variable {name} holds a line break, which containers cannot be given"
            )
        lines.append(f"{env_name(name)}={value}\n")
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class JobStep:
    """What a cluster adds to a plan that becomes a step of its job."""

    #: How images run there; ``none``: the command runs without a container.
    container: Literal["none", "pyxis", "apptainer"] = "none"
    #: Mounts of every container, besides those of the plan.
    mounts: Sequence[str] = ()
    mount_home: bool = True
    #: The component of a heterogeneous job in which the step runs.
    het_group: int | None = None
    nodelist: str | None = None


def srun_argv(launch: Launch, step: JobStep) -> list[str]:
    """The ``srun`` command of a server, with one task on each of its nodes; if one task fails, all end.

    Args:
        launch: The launch plan. ``srun`` must have the values of ``launch.env`` in its environment.
        step: What the cluster adds.
    """
    nodes = str(launch.nodes)
    argv = ["srun", "--overlap", "--mem=0", "--nodes", nodes, "--ntasks", nodes]
    argv += ["--kill-on-bad-exit=1"]
    if step.het_group is not None:
        argv += [f"--het-group={step.het_group}"]
    if step.nodelist:
        argv += ["--nodelist", step.nodelist]
    # Every form checks these texts: each raises for one that must not reach a script.
    mounts = _all_mounts(launch, step)
    variables = [env_name(name) for name in launch.env]
    if launch.image and step.container == "pyxis":
        argv += _pyxis_options(launch, step, mounts, variables=variables)
    elif launch.image and step.container == "apptainer":
        argv += _apptainer_command(launch, step, mounts)
    return [*argv, *launch.argv]


def _pyxis_options(
    launch: Launch, step: JobStep, mounts: list[str], variables: list[str]
) -> list[str]:
    options = ["--container-image", launch.image or ""]
    if mounts:
        options += [f"--container-mounts={','.join(mounts)}"]
    options += ["--container-mount-home" if step.mount_home else "--no-container-mount-home"]
    if launch.entrypoint:
        options += ["--container-entrypoint"]
    if variables:
        # Without this option the image's own values take precedence.
        options += [f"--container-env={','.join(variables)}"]
    return options


def _apptainer_command(launch: Launch, step: JobStep, mounts: list[str]) -> list[str]:
    """The ``apptainer`` command in front of the server's own; ``run`` starts the image's entrypoint."""
    image = launch.image or ""
    is_file = image.startswith("/") or image.endswith(".sif")
    is_url = "://" in image
    if not is_file and not is_url:
        image = f"docker://{image}"
    action = "run" if launch.entrypoint else "exec"
    argv = ["apptainer", action]
    if launch.gpus != 0:
        argv += ["--nv"]
    for volume in mounts:
        argv += ["--bind", volume]
    if not step.mount_home:
        argv += ["--no-home"]
    return [*argv, image]


def _all_mounts(launch: Launch, step: JobStep) -> list[str]:
    """The mounts of the cluster and of the plan, each once."""
    mounts = [mount(volume, commas=False) for volume in [*step.mounts, *launch.mounts]]
    return list(dict.fromkeys(mounts))
