"""Dockerfiles as far as we read them ourselves: their instructions, and those that only copy files."""

import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec

_HARMLESS: Final = ("FROM", "WORKDIR", "COPY", "ENV", "LABEL", "CMD", "EXPOSE", "MAINTAINER")
_INSTEAD: Final = "use a docker sandbox for this task"


def instructions(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile, continued lines joined."""
    text = re.sub(r"\\[ \t]*\n", " ", dockerfile.read_text(encoding="utf-8", errors="replace"))
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word and not word.startswith("#"):
            yield word.upper(), rest.strip()


def without_build(spec: SandboxSpec, folder: Path) -> SandboxSpec:
    """The sandbox that a Dockerfile describes, without building an image: its base, and what it copies into the working
    directory. Raises SandboxError when it does more than that."""
    image = ""
    workdir = "/"
    files = dict(spec.files)
    env = dict[str, str]()
    for word, text in instructions(folder / "Dockerfile"):
        parts = shlex.split(text)
        if (
            word not in _HARMLESS
            or (word == "FROM" and (image or len(parts) != 1))
            or text.startswith(("[", "--"))
        ):
            told = f"a local sandbox cannot build images, and {folder / 'Dockerfile'} has {word} {text[:60]}"
            raise SandboxError(told, hint=_INSTEAD)
        if word == "FROM":
            image = parts[0]
        elif word == "WORKDIR":
            workdir = posixpath.join(workdir, parts[0])
        elif word == "ENV":
            if "=" in parts[0]:
                env |= dict(one.split("=", 1) for one in parts)
            else:
                env |= {parts[0]: " ".join(parts[1:])}
        elif word == "COPY":
            *sources, target = parts
            into = target.endswith("/") or target == "." or len(sources) > 1
            for source in sources:
                place = posixpath.normpath(posixpath.join(workdir, target))
                if into and not (folder / source).is_dir():
                    place = f"{place}/{Path(source).name}"
                if not f"{place}/".startswith(f"{spec.workdir}/"):
                    told = f"a local sandbox has only {spec.workdir} to write to, and the Dockerfile copies to {place}"
                    raise SandboxError(told, hint=_INSTEAD)
                files[str(folder / source)] = place
    return replace(spec, image=image, files=files, env={**env, **spec.env})
