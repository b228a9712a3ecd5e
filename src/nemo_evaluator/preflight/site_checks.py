"""Checks of this machine: mounts, checkpoints, GPUs, context lengths, free disk space, credentials for images."""

import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.preflight.obstacle import ConfigPath, Obstacle

if TYPE_CHECKING:
    from nemo_evaluator.config.managed_service import ManagedService

_SCARCE: Final = 200 * 1024**2
_CONTEXT: Final = re.compile(r"--(?:max-model-len|context-length|max_seq_len)[= ](\d+)")
_ENGINES: Final = ("vllm", "sglang", "trt_llm")
# Registries, and sections of them, that allow anonymous pulls.
_PUBLIC: Final = re.compile(
    r"[^/]+$|[^/.:]+/|docker\.io/|quay\.io/|ghcr\.io/|public\.ecr\.aws/|nvcr\.io/nvidia/"
)
_CREDENTIALS: Final = (".docker/config.json", ".config/enroot/.credentials")


def check_site(config: EvalConfig) -> Iterator[Obstacle]:
    """Yield what a local run lacks on this machine, and server contexts that are too short for the answers."""
    for name, service in config.model_services().items():
        if service.type == "api":
            # It needs nothing on this machine, and most configs have only such services.
            continue
        from nemo_evaluator.config.managed_service import ManagedService  # noqa: PLC0415

        if not isinstance(service, ManagedService):
            continue
        yield from _short_context(config, name, service)
        if config.cluster.type == "local":
            path = ("services", name)
            yield from _missing_mounts(service, path)
            yield from _missing_checkpoint(service, path)
            yield from _missing_gpus(service, path)


def disk_cautions(config: EvalConfig) -> list[str]:
    """Warn about little free disk space. It is only a warning, since a short run may still fit."""
    if config.cluster.type != "local":
        return []
    folder = Path(config.output.dir).absolute()
    while not folder.exists():
        folder = folder.parent
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes >= _SCARCE:
        return []
    free_megabytes = free_bytes // 1024**2
    return [
        f"only {free_megabytes} MB are free in {folder}; free some, or write elsewhere: -o FOLDER"
    ]


def registry_cautions(config: EvalConfig) -> list[str]:
    """Warn about images in private registries for which this machine has no stored credentials."""
    credentials = ""
    for name in _CREDENTIALS:
        file = Path.home() / name
        if file.is_file():
            credentials += file.read_text(errors="replace") + "\n"
    files = " and ".join(f"~/{name}" for name in _CREDENTIALS)
    cautions = []
    for image in sorted(_images(config)):
        registry = image.partition("/")[0]
        is_file = image.startswith(("/", "."))
        if is_file or _PUBLIC.match(image) or registry in credentials:
            continue
        cautions.append(f"{image} may be private, and {files} hold no credentials for {registry}")
    return cautions


def _images(config: EvalConfig) -> set[str]:
    """Return the container images that a config names: of services, sandboxes and container benchmarks."""
    images: set[str] = set()
    for service in config.services.values():
        images.add(getattr(service, "image", None) or "")
    for bench in config.benchmarks:
        images.add(getattr(bench.sandbox, "image", None) or "")
        if bench.name.startswith("container:"):
            address = bench.name.partition("://")[2]
            images.add(address.partition("#")[0])
    images.discard("")
    return images


def _missing_mounts(service: "ManagedService", path: ConfigPath) -> Iterator[Obstacle]:
    for index, mount in enumerate(service.container_mounts):
        source = mount.partition(":")[0]
        if not Path(source).exists():
            yield Obstacle(
                (*path, "container_mounts", index),
                f"{source} does not exist here",
                "create it, or correct the mount: HOST:CONTAINER[:ro]",
            )


def _missing_checkpoint(service: "ManagedService", path: ConfigPath) -> Iterator[Obstacle]:
    is_local_path = service.type in _ENGINES and service.model.startswith("/")
    if is_local_path and not Path(service.model).exists():
        message = f"there is no checkpoint at {service.model}"
        yield Obstacle((*path, "model"), message, "give its folder, or ORG/NAME")


def _missing_gpus(service: "ManagedService", path: ConfigPath) -> Iterator[Obstacle]:
    """Yield a problem if the servers of a service need more GPUs than this machine has."""
    sizes = (
        service.tensor_parallel_size,
        service.pipeline_parallel_size,
        service.data_parallel_size,
    )
    needed = math.prod([service.replicas, *(size or 1 for size in sizes)])
    if needed <= 1 or service.gpus == 0:
        return
    available = _gpus()
    # 0: unknown, or the server runs on the CPU.
    if 0 < available < needed:
        message = f"needs {needed} GPUs, found {available}"
        yield Obstacle((*path, "tensor_parallel_size"), message, "nel inspect-model")


def _short_context(config: EvalConfig, name: str, service: "ManagedService") -> Iterator[Obstacle]:
    """Yield settings that ask for longer answers than the context that a server's arguments set."""
    match = _CONTEXT.search(" ".join(service.extra_args))
    if match is None:
        return
    context = int(match[1])
    settings_by_path: dict[ConfigPath, Any] = {("services", name): service}
    for index, bench in enumerate(config.benchmarks):
        if bench.solver.model_service == name:
            settings_by_path["benchmarks", index, "solver"] = bench.solver
    for path, settings in settings_by_path.items():
        max_tokens = getattr(getattr(settings, "generation", None), "max_tokens", None)
        if max_tokens is not None and max_tokens >= context:
            yield Obstacle(
                (*path, "generation", "max_tokens"),
                f"answers of {max_tokens} tokens and a prompt do not fit the server's context of {context}",
                "lower max_tokens, or raise the context in extra_args",
            )


@cache
def _gpus() -> int:
    """Return the number of NVIDIA GPUs of this machine; 0 if it is unknown."""
    command = ["nvidia-smi", "--list-gpus"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    if listing.returncode != 0:
        return 0
    return len(listing.stdout.strip().splitlines())
