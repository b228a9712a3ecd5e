"""What a run needs besides its config: mounts, checkpoints, disk, GPUs, contexts, images, endpoints that answer."""

import asyncio
import math
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.errors import AuthError, NelError, NotFoundError
from nemo_evaluator.core.types import Message
from nemo_evaluator.models import Client, endpoint_of
from nemo_evaluator.models.retry import RetryConfig

Found = tuple[tuple[str | int, ...], str, str]
_SCARCE: Final = 200 * 1024**2
_LENGTH: Final = re.compile(r"--(?:max-model-len|context-length|max_seq_len)[= ](\d+)")
_ENGINES: Final = ("vllm", "sglang", "trt_llm")
# Registries and parts of them that anybody may pull from.
_PUBLIC: Final = re.compile(
    r"[^/]+$|[^/.:]+/|docker\.io/|quay\.io/|ghcr\.io/|public\.ecr\.aws/|nvcr\.io/nvidia/"
)
_HELLO: Final[list[Message]] = [{"role": "user", "content": "Hi"}]
_SHORT = 16
_PATIENCE = 60.0
_PLACES: Final[dict[type[NelError], str]] = {AuthError: "api_key", NotFoundError: "model"}
_STORED: Final = (".docker/config.json", ".config/enroot/.credentials")


def check_site(config: EvalConfig) -> Iterator[Found]:
    """What this machine lacks for a local run, and contexts that are shorter than the answers that are asked for."""
    for name, service in config.model_services().items():
        path = ("services", name)
        if isinstance(service, ManagedService):
            yield from _context(config, name, service)
        if not isinstance(service, ManagedService) or config.cluster.type != "local":
            continue
        for number, mount in enumerate(service.container_mounts):
            if not Path(mount.partition(":")[0]).exists():
                hint = "create it, or correct the mount: HOST:CONTAINER[:ro]"
                yield (
                    (*path, "container_mounts", number),
                    f"{mount.partition(':')[0]} does not exist here",
                    hint,
                )
        if (
            service.type in _ENGINES
            and service.model.startswith("/")
            and not Path(service.model).exists()
        ):
            yield (
                (*path, "model"),
                f"there is no checkpoint at {service.model}",
                "give its folder, or ORG/NAME",
            )
        sizes = (
            service.tensor_parallel_size,
            service.pipeline_parallel_size,
            service.data_parallel_size,
        )
        wanted = math.prod([service.replicas, *(size or 1 for size in sizes)])
        if wanted > 1 and service.gpus != 0 and wanted > (gpus := _gpus()) > 0:
            said = f"{wanted} GPUs are needed, and there are {gpus}"
            yield (*path, "tensor_parallel_size"), said, "nel inspect-model"


def disk_cautions(config: EvalConfig) -> list[str]:
    """A disk that a run of ordinary size would fill; a short run may fit, so it is no error."""
    folder = Path(config.output.dir).absolute()
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if config.cluster.type != "local" or (free := shutil.disk_usage(there).free) >= _SCARCE:
        return []
    return [
        f"only {free // 1024**2} MB are free in {there}; free some, or write elsewhere: -o FOLDER"
    ]


def registry_cautions(config: EvalConfig) -> list[str]:
    """Images of registries that are not public, for which no credentials are stored here."""
    images = {getattr(service, "image", None) for service in config.services.values()}
    images |= {getattr(bench.sandbox, "image", None) for bench in config.benchmarks}
    names = [bench.name for bench in config.benchmarks if bench.name.startswith("container:")]
    images |= {name.partition("://")[2].partition("#")[0] for name in names}
    files = [Path.home() / name for name in _STORED]
    stored = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    private: list[Any] = []
    for image in images:
        if image and not image.startswith(("/", ".")) and not _PUBLIC.match(image):
            private.append(image)
    return [
        f"{image} may be private, and ~/{' and ~/'.join(_STORED)} hold no credentials for {image.partition('/')[0]}"
        for image in sorted(private)
        if image.partition("/")[0] not in stored
    ]


def pinged(config: EvalConfig) -> list[str]:
    """The services that can be asked before a run: those that nel does not start itself."""
    return [name for name, service in config.model_services().items() if service.type == "api"]


async def ping(config: EvalConfig) -> AsyncIterator[Found]:
    """Endpoints, the judges' too, that do not answer, refuse the key, or do not know the model: one short question."""
    for name in pinged(config):
        endpoint = endpoint_of(name, config.services[name], url=config.base_url(name))
        async with Client(replace(endpoint, retry=RetryConfig(max_retries=0))) as client:
            try:
                await asyncio.wait_for(
                    client.chat(_HELLO, generation={"max_tokens": _SHORT}), _PATIENCE
                )
            except TimeoutError:
                yield (
                    ("services", name, "url"),
                    f"no answer within {_PATIENCE:.0f} s",
                    "is the server overloaded?",
                )
            except NelError as error:
                hint = error.hint or "check the service's url, model and api_key"
                yield ("services", name, _PLACES.get(type(error), "url")), error.message, hint


def _context(config: EvalConfig, name: str, service: ManagedService) -> Iterator[Found]:
    found = _LENGTH.search(" ".join(service.extra_args))
    if found is None:
        return
    places: dict[tuple[str | int, ...], Any] = {("services", name): service}
    asking = [
        (number, one.solver)
        for number, one in enumerate(config.benchmarks)
        if one.solver.model_service == name
    ]
    places |= {("benchmarks", number, "solver"): solver for number, solver in asking}
    for path, owner in places.items():
        most = getattr(getattr(owner, "generation", None), "max_tokens", None)
        if most is not None and most >= int(found[1]):
            said = f"answers of {most} tokens and a prompt do not fit the server's context of {found[1]}"
            hint = "lower max_tokens, or raise the context in extra_args"
            yield (*path, "generation", "max_tokens"), said, hint


@cache
def _gpus() -> int:
    """NVIDIA GPUs of this machine; 0 where that cannot be said."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    if done.returncode == 0:
        return len(done.stdout.strip().splitlines())
    return 0
