"""What vLLM and SGLang share: how the settings of a managed service become one command on this machine."""

from __future__ import annotations

import importlib.util
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import NotBuiltError, UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services.base import Launch

if TYPE_CHECKING:
    from nemo_evaluator.config.service_base import ManagedService

_WITH_KEY: Final = Path(__file__).with_name("_with_key.py")


def plan_python_server(
    name: str, service: ManagedService, module: str, model_flag: str, sizes: Mapping[str, int | None]
) -> Launch:
    """``python -m module`` with model, port, name, parallel sizes and a token of this run, on loopback."""
    _refuse(name, service)
    argv = [_python_with(module), str(_WITH_KEY), "{secret_fd}", module]
    argv += [model_flag, service.model, "--host", "127.0.0.1", "--port", str(service.port)]
    argv += ["--served-model-name", service.served_model_name or name]
    for flag, size in sizes.items():
        argv += [flag, str(size)] if size is not None else []
    return Launch(
        argv=_after_commands(service, [*argv, *service.extra_args]),
        port=service.port,
        health_paths=(service.health_path,),
        startup_timeout=service.startup_timeout,
        env={**_visible_gpus(service.gpus), **service.extra_env},
        api_key=Secret(secrets.token_urlsafe(24)),
        stop_grace=15.0,
    )


def python_server_identity(kind: str, service: ManagedService) -> JsonDict:
    """Model and arguments; on how many GPUs, and which, the server runs does not change what the model is."""
    return {"type": kind, "model": service.model, "extra_args": service.extra_args}


def _refuse(name: str, service: ManagedService) -> None:
    wanted = {"num_nodes": service.num_nodes > 1, "image": service.image, "container_mounts": service.container_mounts}
    for key, given in wanted.items():
        if given:
            raise NotBuiltError(
                f"services.{name}.{key}: this version starts servers as processes of this machine only",
                hint="leave it out, or start the server yourself and give its URL as type: api",
            )


def _python_with(module: str) -> str:
    """The interpreter that has the server: ours, else the one on PATH."""
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is not None:
        return sys.executable
    other = shutil.which("python3")
    check = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    if other is not None and subprocess.run([other, "-c", check], timeout=60).returncode == 0:
        return other
    raise UsageError(f"{package} is not installed", hint=f"pip install {package}, here or in the python3 on PATH")


def _visible_gpus(gpus: Sequence[int] | int | None) -> dict[str, str]:
    if gpus is None:
        return {}
    numbers = range(gpus) if isinstance(gpus, int) else gpus
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, numbers))}


def _after_commands(service: ManagedService, argv: list[str]) -> list[str]:
    commands = [*service.setup_commands, *([service.pre_cmd] if service.pre_cmd else [])]
    if not commands:
        return argv
    return ["bash", "-c", "\n".join(["set -e", *commands, f"exec {shlex.join(argv)}"])]
