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
    """``docker run`` in the foreground: its output is the server's log, its exit code the server's. ``env_file`` holds
    ``launch.env`` (see ``env_file_text``). The port is published on loopback only."""
    assert launch.image, "the plan was made for a place without containers"
    argv = ["docker", "run", "--rm", "--init", "--name", container, "--env-file", env_file]
    argv += ["--publish", f"127.0.0.1:{launch.port}:{launch.port}"]
    # Servers on several GPUs talk through shared memory.
    argv += ["--ipc", "host"] if launch.gpus != 0 else []
    for label in labels:
        argv += ["--label", label]
    for volume in launch.mounts:
        argv += ["--volume", mount(volume)]
    if launch.gpus is None:
        argv += ["--gpus", "all"]
    elif isinstance(launch.gpus, int):
        if launch.gpus:
            argv += ["--gpus", str(launch.gpus)]
    elif launch.gpus:
        # A list inside the option's own list, hence the quotes.
        argv += ["--gpus", f'"device={",".join(map(str, launch.gpus))}"']
    if launch.entrypoint:
        return [*argv, launch.image, *launch.argv]
    return [*argv, "--entrypoint", launch.argv[0], launch.image, *launch.argv[1:]]


def env_file_text(env: dict[str, str]) -> str:
    """An environment in the form that ``docker run --env-file`` reads. It knows no line breaks inside a value."""
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
    """What a cluster adds to a plan that becomes a step of its job: how images are run there, and its own mounts."""

    container: Literal["none", "pyxis", "apptainer"] = "none"
    mounts: Sequence[str] = ()
    mount_home: bool = True
    het_group: int | None = None
    nodelist: str | None = None


def srun_argv(launch: Launch, step: JobStep) -> list[str]:
    """``srun`` with one task on each of the server's nodes; when one of them ends badly, all end. The values of
    ``launch.env`` are to be in the environment of ``srun``."""
    nodes = str(launch.nodes)
    argv = [
        "srun",
        "--overlap",
        "--mem=0",
        "--nodes",
        nodes,
        "--ntasks",
        nodes,
        "--kill-on-bad-exit=1",
    ]
    if step.het_group is not None:
        argv += [f"--het-group={step.het_group}"]
    argv += ["--nodelist", step.nodelist] if step.nodelist else []
    image = launch.image
    mounts = list(
        dict.fromkeys([mount(volume, commas=False) for volume in [*step.mounts, *launch.mounts]])
    )
    names = [env_name(name) for name in launch.env]
    if image and step.container == "pyxis":
        argv += ["--container-image", image]
        if mounts:
            argv += [f"--container-mounts={','.join(mounts)}"]
        argv += ["--container-mount-home" if step.mount_home else "--no-container-mount-home"]
        argv += ["--container-entrypoint"] if launch.entrypoint else []
        # Without this the image's own values would win.
        if names:
            argv += [f"--container-env={','.join(names)}"]
    elif image and step.container == "apptainer":
        argv += [
            "apptainer",
            "run" if launch.entrypoint else "exec",
            *(["--nv"] if launch.gpus != 0 else []),
        ]
        for volume in mounts:
            for word in ("--bind", volume):
                argv.append(word)
        argv += [] if step.mount_home else ["--no-home"]
        argv += [
            image
            if "/" in image[:1] or "://" in image or image.endswith(".sif")
            else f"docker://{image}"
        ]
    return [*argv, *launch.argv]
