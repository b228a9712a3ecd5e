"""The base of the model servers: how the settings of a managed service become one command and one launch plan."""

import importlib.util
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from nemo_evaluator.config.managed_service import HelperService, ManagedService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.shell import joined
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services.base import Site

S = TypeVar("S", bound=ManagedService)
_WITH_KEY: Final = Path(__file__).with_name("_with_key.py")
# The same for servers that cannot read that file; the key comes in a variable, which the server's children do not get.
KEY_VARIABLE: Final = "NEL_SERVICE_KEY"
_KEY_FROM_VARIABLE: Final = (
    f"import os, runpy, sys; sys.argv = [*sys.argv[1:], '--api-key', os.environ.pop('{KEY_VARIABLE}')]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
# Rank and head of a server over several nodes; see Launch.argv.
NODE_LINES: Final = (
    "rank=${NEL_NODE_RANK:-${SLURM_PROCID:-0}}",
    "hosts=(${NEL_NODE_HOSTS:-127.0.0.1})",
    "head=${hosts[0]}",
)
# The settings for which every engine has flags of its own.
_ENGINE: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "reasoning_parser",
    "tool_parser",
)


@dataclass(frozen=True, slots=True)
class Planned(Generic[S]):
    """A model server to plan: the name and settings of its service, and where it is to run."""

    name: str
    service: S
    site: Site

    @property
    def port(self) -> int:
        """The port of this replica."""
        return self.service.port + self.site.replica

    @property
    def meeting_port(self) -> int:
        """The port on which its nodes find each other: after the ports of all replicas, so that these do not mix."""
        return self.port + self.service.replicas

    @property
    def model(self) -> str:
        """The model that the server loads; in a container, a folder of the host is mounted at ``/model``."""
        if self.site.contained and self.service.model.startswith("/"):
            return "/model"
        return self.service.model

    @property
    def listening(self) -> list[str]:
        """The flags for address and model name, which most servers share."""
        return [
            "--host",
            self.site.bind,
            "--port",
            str(self.port),
            "--served-model-name",
            self.service.model_id(self.name),
        ]

    @property
    def gpus(self) -> Sequence[int] | int | None:
        """Its GPUs: replicas on one machine divide a configured list; with a configured number, each has its own."""
        gpus = self.service.gpus
        replicas = self.service.replicas
        replica = self.site.replica
        if self.site.kind == "slurm" or not gpus:
            return gpus
        if isinstance(gpus, list):
            share = len(gpus) // replicas
            return gpus[replica * share : (replica + 1) * share]
        if replicas > 1:
            return range(replica * gpus, (replica + 1) * gpus)
        return gpus

    @property
    def setup(self) -> list[str]:
        """The shell lines of the config, which run before the server."""
        lines = list(self.service.setup_commands)
        if self.service.pre_cmd:
            lines.append(self.service.pre_cmd)
        return lines

    def engine_flags(self, *names: str) -> list[str]:
        """The flags of the sizes and parsers that are set.

        Args:
            names: The engine's flags for tensor, pipeline and data parallel size, reasoning parser and tool parser.
        """
        values: dict[str, object] = {}
        for flag, setting in zip(names, _ENGINE, strict=True):
            values[flag] = getattr(self.service, setting)
        return flags(values)

    def keyed_module(self, module: str, arguments: Sequence[str]) -> list[str]:
        """The command ``python -m module ... --api-key KEY``, with the key hidden from process lists."""
        if self.site.here:
            return [python_with(module), str(_WITH_KEY), "{secret_fd}", module, *arguments]
        return ["python3", "-c", _KEY_FROM_VARIABLE, module, *arguments]

    def needs_image(self) -> None:
        """Raise UsageError unless the service runs in a container, for kinds that exist as containers only."""
        kind = self.service.type
        image = f"services.{self.name}.image"
        if not self.service.image:
            raise UsageError(
                f"services.{self.name}: {kind} runs in a container", hint=f"give {image}"
            )
        if not self.site.contained:
            raise UsageError(
                f"services.{self.name}: {kind} runs in a container, and this cluster runs none"
            )

    def refuse(self, key: str, hint: str) -> None:
        """Raise UsageError, with a hint, if a setting is set that this kind of server does not support."""
        if getattr(self.service, key) != type(self.service).model_fields[key].default:
            raise UsageError(
                f"services.{self.name}.{key}: this kind of server does not take it", hint=hint
            )

    def refuse_nodes(self, nodes: int) -> None:
        """Raise UsageError for several nodes outside a cluster."""
        if nodes > 1 and self.site.kind != "slurm":
            hint = "use cluster.type: slurm, or start the server yourself and give its URL as type: api"
            raise UsageError(
                f"services.{self.name}.num_nodes: a server over {nodes} nodes needs a cluster",
                hint=hint,
            )

    def launch(
        self,
        argv: Sequence[str],
        *,
        image: str | None = None,
        key: str | None = None,
        lines: Sequence[str] | None = (),
        env: Mapping[str, str] | None = None,
        entrypoint: bool = False,
        nodes: int | None = None,
    ) -> Launch:
        """The launch plan of the server.

        Args:
            argv: Its command.
            image: The container image if the service names none.
            key: The variable that holds the API key where a pipe cannot reach the server; None: it supports no key.
            lines: Shell lines before the command, after those of the config; None: the command contains both.
            env: Variables of this kind of server; those of the config take precedence.
            entrypoint: Whether ``argv`` holds only arguments of the image's own entrypoint.
            nodes: The number of nodes; None: that of the config.

        Raises:
            UsageError: The settings do not fit together.
        """
        service = self.service
        site = self.site
        nodes = nodes or service.num_nodes
        self.refuse_nodes(nodes)
        command = list(argv)
        if lines is not None:
            command = self._after_setup(command, lines, entrypoint=entrypoint)
        variables = self._visible_gpus()
        variables |= env or {}
        variables |= service.extra_env
        if key and not site.here:
            variables[key] = site.token.reveal()
        container_image: str | None = None
        mounts: list[str] = []
        if site.contained:
            container_image = service.image or image
            mounts += service.container_mounts
            if self.model != service.model:
                mounts.append(f"{service.model}:{self.model}:ro")
        return launch_of(
            service,
            command,
            self.port,
            health_paths=(service.health_path,),
            model=service.model_id(self.name),
            protocol=service.protocol,
            env=variables,
            api_key=site.token if key else None,
            image=container_image,
            entrypoint=entrypoint,
            mounts=mounts,
            gpus=self.gpus,
            nodes=nodes,
        )

    def _after_setup(
        self, command: list[str], lines: Sequence[str], *, entrypoint: bool
    ) -> list[str]:
        """Put the shell lines of the config, and those of this kind of server, before the command.

        Raises:
            UsageError: There are such lines, and the command is the image's own.
        """
        setup_lines = [*self.setup, *lines]
        if not setup_lines:
            return command
        if entrypoint:
            raise UsageError(
                f"services.{self.name}: setup_commands and pre_cmd run before a command, "
                "and this service has none: the image has its own",
                hint="leave them out, or use an image that has them inside",
            )
        return in_shell(setup_lines, [f"exec {joined(command)}"])

    def _visible_gpus(self) -> dict[str, str]:
        """The variable that limits the server to its GPUs; a docker container sees no others anyway."""
        gpus = self.gpus
        if gpus is None or self.site.kind == "docker":
            return {}
        indices = range(gpus) if isinstance(gpus, int) else gpus
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, indices))}


class ModelServer(ABC, Generic[S]):
    """Base of the kinds of model servers."""

    def plan(self, name: str, service: S, site: Site) -> Launch:
        """The launch plan of one server; see ``ServiceKind.plan``."""
        return self.launch(Planned(name, service, site))

    @abstractmethod
    def launch(self, server: Planned[S]) -> Launch:
        """The launch plan of one server. Raises UsageError when its settings do not fit this kind."""

    def identity(self, service: S) -> JsonDict:
        """Model and arguments. The number of GPUs, and which ones, do not change the model."""
        identity: JsonDict = {
            "type": service.type,
            "model": service.model,
            "extra_args": service.extra_args,
        }
        for setting in ("image", "reasoning_parser", "tool_parser"):
            value = getattr(service, setting, None)
            if value:
                identity[setting] = value
        return identity


def launch_of(
    service: Any, argv: Sequence[str], port: int, *, nodes: int = 1, **more: Any
) -> Launch:
    """A launch plan with the timeouts, restarts and node pool of a service.

    Args:
        service: The settings of the service.
        argv: The command.
        port: The port of the server.
        nodes: The number of its nodes.
        more: Further fields of the plan.
    """
    return Launch(
        argv,
        port,
        nodes=nodes,
        pools=[(service.node_pool, nodes)] if service.node_pool else (),
        startup_timeout=service.startup_timeout,
        stop_grace=service.stop_grace,
        restarts=service.restarts,
        **more,
    )


def helper_launch(
    service: HelperService,
    site: Site,
    argv: Sequence[str],
    health: Sequence[str],
    *,
    mounts: Sequence[str] = (),
) -> Launch:
    """The launch plan of a server that serves no model.

    Args:
        service: The settings of the service.
        site: Where the server is to run.
        argv: Its command.
        health: The paths of its health check.
        mounts: The mounts of its container.
    """
    image = service.image if site.contained else None
    return launch_of(
        service,
        argv,
        service.port,
        base_path="",
        health_paths=health,
        env={"PORT": str(service.port)},
        image=image,
        mounts=mounts if image else (),
        gpus=0,
    )


def in_shell(before: Sequence[str], lines: Sequence[str]) -> list[str]:
    """A command that runs lines of shell, ``before`` first, and ends at the first that fails."""
    return ["bash", "-c", "\n".join(["set -e", *before, *lines])]


def filled(name: str, **values: object) -> list[str]:
    """The lines of a template under ``data``, with the values in their places."""
    template = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
    return template.format(**values).splitlines()


def python_with(module: str) -> str:
    """The Python that has a server installed: the one that runs nel, else the one on PATH.

    Raises:
        UsageError: Neither has it.
    """
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is not None:
        return sys.executable
    other = shutil.which("python3")
    check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    if other is not None and subprocess.run([other, "-c", check], timeout=60).returncode == 0:
        return other
    raise UsageError(
        f"{package} is not installed",
        hint=f"pip install {package}, here or in the python3 on PATH; or give an image to run it in a container",
    )


def flags(values: Mapping[str, object]) -> list[str]:
    """The flags whose value is not None, each followed by its value."""
    words: list[str] = []
    for flag, value in values.items():
        if value is not None:
            words += [flag, str(value)]
    return words
