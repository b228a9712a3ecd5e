"""``type: llama_cpp``: a small model on this machine, served by ``llama-server`` or by the xllamacpp library."""

import importlib.util
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import orjson
from pydantic import Field

from nemo_evaluator.config.fields import (
    Above0,
    Count,
    EnvMap,
    Line,
    LineName,
    Port,
    Positive,
    Protocol,
    ShellText,
    no_items,
)
from nemo_evaluator.config.service_base import Balancer, ModelService
from nemo_evaluator.core.errors import MissingExtraError, UsageError
from nemo_evaluator.core.files import cache_folder, file_sha256, read_json, write_json
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import launch_of
from nemo_evaluator.services.base import Site
from nemo_evaluator.services.packaged import model_file

# Threads that spin at barriers take the cores from the evaluator and from each other: beside other work the
# model is three times slower and costs twice the CPU time.
_POLITE: Final = {"OMP_WAIT_POLICY": "passive"}
# The file in the cache folder with the checksums of served models.
_SUMS: Final = "sha256.json"


class LlamaCppService(ModelService):
    """A small model on this machine: a GGUF file, or a packaged model by name."""

    type: Literal["llama_cpp"] = "llama_cpp"
    model: LineName = Field(description="A .gguf file, or a packaged model such as `smollm2-135m`.")
    protocol: Protocol = Field("chat_completions", description="How requests are written.")
    served_model_name: Line | None = Field(
        None, description="Name in requests; null: the name of the service."
    )
    context_size: Positive = Field(8192, description="Context of one slot, in tokens.")
    slots: Positive = Field(4, description="Concurrent requests.")
    threads: Positive | None = Field(
        None, description="CPU threads; null: as many as there are cores."
    )
    port: Port | None = Field(None, description="Port of the server; null: any free one.")
    replicas: Positive = Field(
        1, description="Servers of this service, on ports that follow each other."
    )
    balancer: Balancer = Field("nel", description="What spreads requests over the replicas.")
    balancer_port: Port = Field(5009, description="Port of `balancer: haproxy`.")
    restarts: Count = Field(1, description="How often a server that has crashed is started again.")
    stop_grace: Above0 = Field(
        5.0, description="Seconds that the server gets to end before it is killed."
    )
    node_pool: Line | None = Field(None, description="Node pool of the cluster.")
    startup_timeout: Above0 = Field(120.0, description="Seconds until the server must be up.")
    backend: Literal["auto", "llama-server", "xllamacpp"] = Field(
        "auto",
        description="What serves the model; `auto` takes the llama-server command where it is found.",
    )
    extra_args: list[ShellText] = Field(
        default_factory=no_items, description="Further arguments of llama-server."
    )
    extra_env: EnvMap = Field(default_factory=dict, description="Environment of the server.")

    def model_id(self, name: str) -> str:
        """The model name in requests: the configured one, else the name of the service."""
        return self.served_model_name or name


class LlamaCpp:
    """Plans a small model that runs on this machine."""

    def plan(self, name: str, service: LlamaCppService, site: Site) -> Launch:
        """The launch plan, with the backend that is installed.

        Args:
            name: The name of the service in the config.
            service: Its settings.
            site: Where the server is to run.

        Raises:
            UsageError: The model file or the backend is missing.
        """
        port = service.port + site.replica if service.port else free_port()
        binary = _binary(service)
        argv = [binary] if binary else _library(name, service)
        argv += ["--model", str(model_file(service.model)), "--alias", service.model_id(name)]
        argv += ["--host", site.bind, "--port", str(port)]
        argv += ["--ctx-size", str(service.context_size * service.slots)]
        argv += ["--parallel", str(service.slots)]
        argv += ["--threads", str(service.threads or _cores())]
        env = _POLITE | service.extra_env
        if site.here:
            argv += ["--api-key-file", "/dev/fd/{secret_fd}"]
        else:
            env["LLAMA_API_KEY"] = site.token.reveal()
        if binary:
            argv += ["--poll", "0", "--metrics", *service.extra_args]
        return launch_of(
            service,
            argv,
            port,
            model=service.model_id(name),
            protocol=service.protocol,
            env=env,
            api_key=site.token,
            gpus=0,
        )

    def identity(self, service: LlamaCppService) -> JsonDict:
        """The checksum of the weights, and the settings that change answers; slots, threads and ports do not."""
        return {
            "type": "llama_cpp",
            "gguf_sha256": cached_sha256(model_file(service.model)),
            "context_size": service.context_size,
            "extra_args": service.extra_args,
        }


KIND: Final = Kind(LlamaCppService, LlamaCpp)


def _cores() -> int:
    """The number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _binary(service: LlamaCppService) -> str | None:
    """The path of llama-server; None: the library serves the model."""
    if service.backend == "xllamacpp":
        return None
    configured = os.environ.get("NEL_LLAMA_SERVER")
    binary = shutil.which(configured or "llama-server")
    if configured and not binary:
        raise UsageError(
            f"NEL_LLAMA_SERVER names {configured!r}, which was not found",
            hint="correct it or unset it",
        )
    if service.backend == "llama-server" and not binary:
        raise UsageError(
            "llama-server is not on PATH",
            hint="install llama.cpp, or set backend: auto to use the xllamacpp library",
        )
    return binary


def _library(name: str, service: LlamaCppService) -> list[str]:
    """The command of our server on top of the xllamacpp library."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError(
            "xllamacpp (which serves the model where llama-server is absent)", extra="local"
        )
    if service.extra_args:
        raise UsageError(
            f"services.{name}.extra_args are arguments of llama-server, which is not on PATH",
            hint="install llama.cpp, or leave them out",
        )
    return [sys.executable, "-m", "nemo_evaluator.services._xllamacpp_server"]


def cached_sha256(path: Path) -> str:
    """The checksum of a file; computed again only when its size or modification time differs."""
    status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    cache = cache_folder() / _SUMS
    checksums: dict[str, str] = {}
    with suppress(OSError, orjson.JSONDecodeError):
        checksums = read_json(cache)
    if key not in checksums:
        checksums[key] = file_sha256(path)
        # A read-only home costs time, not correctness.
        with suppress(OSError):
            write_json(cache, checksums)
    return checksums[key]
