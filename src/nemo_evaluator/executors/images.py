"""Images with nel inside: from a checkout for ``cluster.type: docker``, or around a benchmark (``nel package``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import nemo_evaluator
from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.errors import UsageError

_NAME: Final = "nemo-evaluator:local"
# The image that a benchmark's scheme needs, where that is not the base.
_VARIANTS: Final = {"lm-eval": "lm-eval", "skills": "skills", "gym": "gym", "harbor": "harbor"}
_ABSENT: Final = ("No such container", "no such container", "is already in progress")
_TIMEOUT: Final = 120.0


def docker(*words: str, absent: bool = False, timeout: float = _TIMEOUT) -> str | None:
    """What a docker command prints; with ``absent`` None when it says that there is no such container."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=timeout)
    except FileNotFoundError as error:
        raise UsageError(
            "the docker command is not installed", hint="install Docker, or use cluster.type: local"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"docker {words[0]} did not answer", hint="check `docker version`") from error
    if done.returncode == 0:
        return done.stdout.strip()
    if absent and any(told in done.stderr for told in _ABSENT):
        return None
    raise UsageError(f"docker {words[0]} failed: {done.stderr.strip()}", hint="check `docker version` and the image")


def local_image(config: EvalConfig) -> str:
    """Build the image that a config's benchmarks need from this checkout; what has not changed comes from the cache."""
    root = Path(nemo_evaluator.__file__).resolve().parents[2]
    if not (root / "docker" / "Dockerfile.base").is_file():
        hint = "name an image with nel inside: cluster.image"
        raise UsageError("there is no checkout from which an image could be built", hint=hint)
    schemes = {bench.name.partition("://")[0] for bench in config.benchmarks if "://" in bench.name}
    variants = sorted({_VARIANTS[scheme] for scheme in schemes if scheme in _VARIANTS})
    variant = "full" if len(variants) > 1 else next(iter(variants), "")
    tag = build(root / "docker" / "Dockerfile.base", _NAME, root)
    if variant:
        tag = build(root / "docker" / f"Dockerfile.{variant}", f"{_NAME}-{variant}", root, BASE=tag)
    return tag


def build(dockerfile: Path, tag: str, context: Path, **arguments: str) -> str:
    """Build an image; its progress goes to stderr. Returns the tag."""
    print(f"building the image {tag} ({dockerfile})", file=sys.stderr, flush=True)
    words = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    command = ["docker", "build", "--tag", tag, "--file", str(dockerfile), *words, str(context)]
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2).returncode
    except FileNotFoundError as error:
        raise UsageError("the docker command is not installed", hint="install Docker") from error
    if code:
        raise UsageError(f"the image {tag} could not be built", hint="what the engine says is above")
    return tag
