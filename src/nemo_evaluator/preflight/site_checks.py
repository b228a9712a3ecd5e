"""What a run needs of this machine: mounts, checkpoints, GPUs, long contexts, free disk, access to images."""

import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.preflight.obstacle import ConfigPath, Obstacle

_SCARCE: Final = 200 * 1024**2
_CONTEXT: Final = re.compile(r"--(?:max-model-len|context-length|max_seq_len)[= ](\d+)")
_ENGINES: Final = ("vllm", "sglang", "trt_llm")
# Registries and parts of them that anybody may pull from.
_PUBLIC: Final = re.compile(
    r"[^/]+$|[^/.:]+/|docker\.io/|quay\.io/|ghcr\.io/|public\.ecr\.aws/|nvcr\.io/nvidia/"
)
_CREDENTIALS: Final = (".docker/config.json", ".config/enroot/.credentials")


def check_site(config: EvalConfig) -> Iterator[Obstacle]:
    """What this machine lacks for a local run, and server contexts that are shorter than the answers."""
    for name, service in config.model_services().items():
        if not isinstance(service, ManagedService):
            continue
        yield from _short_context(config, name, service)
        if config.cluster.type == "local":
            path = ("services", name)
            yield from _missing_mounts(service, path)
            yield from _missing_checkpoint(service, path)
            yield from _missing_gpus(service, path)


def disk_cautions(config: EvalConfig) -> list[str]:
    """Warn of a disk that a run of ordinary size would fill; a short run may fit, so it is only a warning."""
    if config.cluster.type != "local":
        return []
    folder = Path(config.output.dir).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free >= _SCARCE:
        return []
    return [
        f"only {free // 1024**2} MB are free in {existing}; free some, or write elsewhere: -o FOLDER"
    ]


def registry_cautions(config: EvalConfig) -> list[str]:
    """Warn of images in private registries for which this machine has no stored credentials."""
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
    """The container images that a config names: of services, sandboxes and container benchmarks."""
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


def _missing_mounts(service: ManagedService, path: ConfigPath) -> Iterator[Obstacle]:
    for number, mount in enumerate(service.container_mounts):
        source = mount.partition(":")[0]
        if not Path(source).exists():
            yield Obstacle(
                (*path, "container_mounts", number),
                f"{source} does not exist here",
                "create it, or correct the mount: HOST:CONTAINER[:ro]",
            )


def _missing_checkpoint(service: ManagedService, path: ConfigPath) -> Iterator[Obstacle]:
    is_file = service.type in _ENGINES and service.model.startswith("/")
    if is_file and not Path(service.model).exists():
        message = f"there is no checkpoint at {service.model}"
        yield Obstacle((*path, "model"), message, "give its folder, or ORG/NAME")


def _missing_gpus(service: ManagedService, path: ConfigPath) -> Iterator[Obstacle]:
    sizes = (
        service.tensor_parallel_size,
        service.pipeline_parallel_size,
        service.data_parallel_size,
    )
    needed = math.prod([service.replicas, *(size or 1 for size in sizes)])
    if needed <= 1 or service.gpus == 0:
        return
    present = _gpus()
    # 0: unknown, or the server runs on the CPU.
    if 0 < present < needed:
        message = f"needs {needed} GPUs, found {present}"
        yield Obstacle((*path, "tensor_parallel_size"), message, "nel inspect-model")


def _short_context(config: EvalConfig, name: str, service: ManagedService) -> Iterator[Obstacle]:
    """Settings that ask for longer answers than the context of a server, as far as its arguments tell it."""
    match = _CONTEXT.search(" ".join(service.extra_args))
    if match is None:
        return
    context = int(match[1])
    askers: dict[ConfigPath, Any] = {("services", name): service}
    for number, bench in enumerate(config.benchmarks):
        if bench.solver.model_service == name:
            askers["benchmarks", number, "solver"] = bench.solver
    for path, asker in askers.items():
        max_tokens = getattr(getattr(asker, "generation", None), "max_tokens", None)
        if max_tokens is not None and max_tokens >= context:
            yield Obstacle(
                (*path, "generation", "max_tokens"),
                f"answers of {max_tokens} tokens and a prompt do not fit the server's context of {context}",
                "lower max_tokens, or raise the context in extra_args",
            )


@cache
def _gpus() -> int:
    """The number of NVIDIA GPUs of this machine; 0 where that is unknown."""
    command = ["nvidia-smi", "--list-gpus"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    if listing.returncode != 0:
        return 0
    return len(listing.stdout.strip().splitlines())
