"""What the model servers share: how the settings of a managed service become one command and one plan."""

import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.config.service_base import HelperService, ManagedService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services.base import Launch, Site

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


def model_launch(
    name: str,
    service: ManagedService,
    site: Site,
    argv: Sequence[str],
    *,
    image: str | None = None,
    key: str | None = None,
    lines: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    entrypoint: bool = False,
    nodes: int | None = None,
) -> Launch:
    """The plan of a model server.

    ``image`` is the one to take when the service names none; ``key`` the variable in which the server takes its key
    where a pipe cannot reach it (None: it cannot ask for one). ``lines`` of shell stand before the command.
    """
    shell = [*service.setup_commands, *([service.pre_cmd] if service.pre_cmd else []), *lines]
    nodes = nodes or service.num_nodes
    refuse_nodes(name, nodes, site)
    if shell and entrypoint:
        raise UsageError(
            f"services.{name}: setup_commands and pre_cmd need a command to stand before, and this image has its own",
            hint="leave them out, or use an image that has them inside",
        )
    token = site.token if key else None
    variables = {**visible_gpus(service, site), **(env or {}), **service.extra_env}
    if key and token and not site.here:
        variables[key] = token.reveal()
    mounts = list(service.container_mounts)
    if model_path(service, site) != service.model:
        mounts.append(f"{service.model}:{model_path(service, site)}:ro")
    return Launch(
        argv=in_shell(shell, [f"exec {shlex.join(argv)}"]) if shell else list(argv),
        port=port_of(service, site),
        health_paths=(service.health_path,),
        model=service.model_id(name),
        protocol=service.protocol,
        startup_timeout=service.startup_timeout,
        env=variables,
        api_key=token,
        stop_grace=service.stop_grace,
        restarts=service.restarts,
        image=(service.image or image) if site.contained else None,
        entrypoint=entrypoint,
        mounts=mounts if site.contained else (),
        gpus=gpus_of(service, site),
        nodes=nodes,
        pools=[(service.node_pool, nodes)] if service.node_pool else (),
    )


class ModelServer:
    """Base of the kinds of model servers."""

    def identity(self, service: Any) -> JsonDict:
        """Model and arguments; on how many GPUs, and which, the server runs does not change what the model is."""
        known: JsonDict = {"type": service.type, "model": service.model, "extra_args": service.extra_args}
        further = {key: getattr(service, key, None) for key in ("image", "reasoning_parser", "tool_parser")}
        return known | {key: value for key, value in further.items() if value}


def helper_launch(
    service: HelperService, site: Site, argv: Sequence[str], health: Sequence[str], *, mounts: Sequence[str] = ()
) -> Launch:
    """The plan of a server that is no model."""
    return Launch(
        argv=argv,
        port=service.port,
        base_path="",
        health_paths=health,
        startup_timeout=service.startup_timeout,
        env={"PORT": str(service.port)},
        stop_grace=service.stop_grace,
        restarts=service.restarts,
        image=service.image if site.contained else None,
        mounts=mounts if site.contained and service.image else (),
        gpus=0,
        pools=[(service.node_pool, 1)] if service.node_pool else (),
    )


def in_shell(before: Sequence[str], lines: Sequence[str]) -> list[str]:
    """One command of several lines of shell, which ends at the first that fails."""
    return ["bash", "-c", "\n".join(["set -e", *before, *lines])]


def filled(name: str, **values: object) -> list[str]:
    """The lines of a file under ``data``, with the values in their places."""
    return (Path(__file__).parent / "data" / name).read_text(encoding="utf-8").format(**values).splitlines()


def keyed_module(site: Site, module: str, arguments: Sequence[str]) -> list[str]:
    """``python -m module`` with ``--api-key`` in no process list."""
    if site.here:
        return [python_with(module), str(_WITH_KEY), "{secret_fd}", module, *arguments]
    return ["python3", "-c", _KEY_FROM_VARIABLE, module, *arguments]


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


def listening(service: ManagedService, name: str, site: Site) -> list[str]:
    """The flags that most servers share."""
    where = ["--host", site.bind, "--port", str(port_of(service, site))]
    return [*where, "--served-model-name", service.model_id(name)]


def flags(values: Mapping[str, object]) -> list[str]:
    """Those flags that have a value."""
    return [word for flag, value in values.items() if value is not None for word in (flag, str(value))]


def port_of(service: ManagedService, site: Site) -> int:
    """The port of one replica."""
    return service.port + site.replica


def meeting_port(service: ManagedService, site: Site) -> int:
    """Where the nodes of one replica find each other: after the ports of all servers, so that replicas do not meet."""
    return service.port + service.replicas + site.replica


def model_path(service: ManagedService, site: Site) -> str:
    """What the server is told to load: a folder of the host is mounted at ``/model``."""
    return "/model" if site.contained and service.model.startswith("/") else service.model


def gpus_of(service: ManagedService, site: Site) -> Sequence[int] | int | None:
    """The GPUs of one replica. Replicas on one machine share the list that was given, or count on from each other."""
    gpus, here = service.gpus, site.kind != "slurm"
    if isinstance(gpus, list):
        share = len(gpus) // service.replicas if here else len(gpus)
        return gpus[site.replica * share : (site.replica + 1) * share] if here else gpus
    if gpus and here and service.replicas > 1:
        return range(site.replica * gpus, (site.replica + 1) * gpus)
    return gpus


def visible_gpus(service: ManagedService, site: Site) -> dict[str, str]:
    """What tells a process which GPUs are its own. A container sees no others."""
    gpus = gpus_of(service, site)
    if gpus is None or site.kind == "docker":
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus) if isinstance(gpus, int) else gpus))}


def needs_image(name: str, service: ManagedService, site: Site) -> None:
    """Refuse a service that only exists as a container where it has none."""
    if not service.image:
        raise UsageError(f"services.{name}: {service.type} runs in a container", hint=f"give services.{name}.image")
    if not site.contained:
        raise UsageError(f"services.{name}: {service.type} runs in a container, and this cluster runs none")


def refuse_setting(name: str, key: str, given: object, hint: str) -> None:
    """Refuse a setting that this kind of server has no word for."""
    if given:
        raise UsageError(f"services.{name}.{key}: this kind of server does not take it", hint=hint)


def refuse_nodes(name: str, nodes: int, site: Site) -> None:
    """Several nodes are a cluster's to give."""
    if nodes > 1 and site.kind != "slurm":
        hint = "use cluster.type: slurm, or start the server yourself and give its URL as type: api"
        raise UsageError(f"services.{name}.num_nodes: a server over {nodes} nodes needs a cluster", hint=hint)
