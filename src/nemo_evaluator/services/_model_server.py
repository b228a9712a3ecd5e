"""What the model servers share: how the settings of a managed service become one command and one plan."""

import importlib.util
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from nemo_evaluator.config.service_base import HelperService, ManagedService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.shell import joined
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services.base import Site

S = TypeVar("S", bound=ManagedService)
_WITH_KEY: Final = Path(__file__).with_name("_with_key.py")
# The same for places that do not see that file; the key comes in a variable, which the server's children do not get.
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
# What engines have flags for, each in words of its own.
_ENGINE: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "reasoning_parser",
    "tool_parser",
)


@dataclass(frozen=True, slots=True)
class Planned(Generic[S]):
    """One model server to be: its service and where it is to run."""

    name: str
    service: S
    site: Site

    @property
    def port(self) -> int:
        """The port of this replica."""
        return self.service.port + self.site.replica

    @property
    def meeting_port(self) -> int:
        """Where its nodes find each other: after the ports of all servers, so that replicas do not meet."""
        return self.port + self.service.replicas

    @property
    def model(self) -> str:
        """What the server is told to load: a folder of the host is mounted at ``/model``."""
        if self.site.contained and self.service.model.startswith("/"):
            return "/model"
        return self.service.model

    @property
    def listening(self) -> list[str]:
        """The flags that most servers share."""
        where = ["--host", self.site.bind, "--port", str(self.port)]
        return [*where, "--served-model-name", self.service.model_id(self.name)]

    @property
    def gpus(self) -> Sequence[int] | int | None:
        """Its GPUs. Replicas on one machine share the list that was given, or count on from each other."""
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
        """The lines of shell that the config puts before the server."""
        return [*self.service.setup_commands, *filter(None, [self.service.pre_cmd])]

    def engine_flags(self, *names: str) -> list[str]:
        """Sizes (tensor, pipeline, data) and parsers (reasoning, tools) that are set, under these flags."""
        return flags(
            {flag: getattr(self.service, key) for flag, key in zip(names, _ENGINE, strict=True)}
        )

    def keyed_module(self, module: str, arguments: Sequence[str]) -> list[str]:
        """``python -m module`` with ``--api-key`` in no process list."""
        if self.site.here:
            return [python_with(module), str(_WITH_KEY), "{secret_fd}", module, *arguments]
        return ["python3", "-c", _KEY_FROM_VARIABLE, module, *arguments]

    def needs_image(self) -> None:
        """Refuse a service that only exists as a container where it has none."""
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
        """Refuse a setting that this kind of server has no word for."""
        if getattr(self.service, key) != type(self.service).model_fields[key].default:
            raise UsageError(
                f"services.{self.name}.{key}: this kind of server does not take it", hint=hint
            )

    def refuse_nodes(self, nodes: int) -> None:
        """Several nodes are a cluster's to give."""
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
        """The plan. ``image`` is the one to take when the service names none; ``key`` the variable in which the server
        takes its key where a pipe cannot reach it (None: it cannot ask for one). ``lines`` of shell stand before the
        command, after those of the config; None: both are in it already."""
        service = self.service
        site = self.site
        variables = dict[str, str]()
        shell = [] if lines is None else [*self.setup, *lines]
        nodes = nodes or service.num_nodes
        self.refuse_nodes(nodes)
        if shell and entrypoint:
            raise UsageError(
                f"services.{self.name}: setup_commands and pre_cmd need a command to stand before, "
                "and this image has its own",
                hint="leave them out, or use an image that has them inside",
            )
        # A container sees no other GPUs than its own.
        if self.gpus is not None and site.kind != "docker":
            if isinstance(self.gpus, int):
                mine: Sequence[int] = range(self.gpus)
            else:
                mine = self.gpus
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, mine))
        variables |= {**(env or {}), **service.extra_env}
        if key and not site.here:
            variables[key] = site.token.reveal()
        mounts = [*service.container_mounts]
        if self.model != service.model:
            mounts += [f"{service.model}:{self.model}:ro"]
        return launch_of(
            service,
            in_shell(shell, [f"exec {joined(argv)}"]) if shell else list(argv),
            self.port,
            health_paths=(service.health_path,),
            model=service.model_id(self.name),
            protocol=service.protocol,
            env=variables,
            api_key=site.token if key else None,
            image=(service.image or image) if site.contained else None,
            entrypoint=entrypoint,
            mounts=mounts if site.contained else (),
            gpus=self.gpus,
            nodes=nodes,
        )


class ModelServer(ABC, Generic[S]):
    """Base of the kinds of model servers."""

    def plan(self, name: str, service: S, site: Site) -> Launch:
        return self.launch(Planned(name, service, site))

    @abstractmethod
    def launch(self, server: Planned[S]) -> Launch:
        """The plan of one server."""

    def identity(self, service: S) -> JsonDict:
        """Model and arguments; on how many GPUs, and which, the server runs does not change what the model is."""
        known: JsonDict = {
            "type": service.type,
            "model": service.model,
            "extra_args": service.extra_args,
        }
        further: dict[str, Any | None] = {}
        for key in ("image", "reasoning_parser", "tool_parser"):
            further[key] = getattr(service, key, None)
        return known | {key: value for key, value in further.items() if value}


def launch_of(
    service: Any, argv: Sequence[str], port: int, *, nodes: int = 1, **more: Any
) -> Launch:
    """A plan with what a service says of its life and its place."""
    life = {key: getattr(service, key) for key in ("startup_timeout", "stop_grace", "restarts")}
    pools = [(service.node_pool, nodes)] if service.node_pool else ()
    return Launch(argv, port, nodes=nodes, pools=pools, **life, **more)


def helper_launch(
    service: HelperService,
    site: Site,
    argv: Sequence[str],
    health: Sequence[str],
    *,
    mounts: Sequence[str] = (),
) -> Launch:
    """The plan of a server that is no model."""
    image = service.image if site.contained else None
    env = {"PORT": str(service.port)}
    mounts = mounts if image else ()
    return launch_of(
        service,
        argv,
        service.port,
        base_path="",
        health_paths=health,
        env=env,
        image=image,
        mounts=mounts,
        gpus=0,
    )


def in_shell(before: Sequence[str], lines: Sequence[str]) -> list[str]:
    """One command of several lines of shell, which ends at the first that fails."""
    return ["bash", "-c", "\n".join(["set -e", *before, *lines])]


def filled(name: str, **values: object) -> list[str]:
    """The lines of a file under ``data``, with the values in their places."""
    return (
        (Path(__file__).parent / "data" / name)
        .read_text(encoding="utf-8")
        .format(**values)
        .splitlines()
    )


def python_with(module: str) -> str:
    """The interpreter that has the server: ours, else the one on PATH."""
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is not None:
        return sys.executable
    other = shutil.which("python3")
    check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    if other is not None and subprocess.run([other, "-c", check], timeout=60).returncode == 0:
        return other
    hint = f"pip install {package}, here or in the python3 on PATH; or give an image to run it in a container"
    raise UsageError(f"{package} is not installed", hint=hint)


def flags(values: Mapping[str, object]) -> list[str]:
    """Those flags that have a value."""
    results: list[str] = []
    for flag, value in values.items():
        if value is not None:
            for word in (flag, str(value)):
                results.append(word)
    return results
