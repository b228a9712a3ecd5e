"""The instructions of Dockerfiles, and sandboxes for those Dockerfiles that only copy files."""

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
# Patterns, variables and here-documents, which docker expands.
_NOT_PLAIN: Final = re.compile(r"[*?\[\]$]|<<")
_INSTEAD: Final = "use a docker sandbox for this task"


def instructions(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile, each as its name and its text; continued lines are joined."""
    text = re.sub(r"\\[ \t]*\n", " ", dockerfile.read_text(encoding="utf-8", errors="replace"))
    for line in text.splitlines():
        instruction, _, arguments = line.strip().partition(" ")
        if instruction and not instruction.startswith("#"):
            yield instruction.upper(), arguments.strip()


def without_build(spec: SandboxSpec, folder: Path) -> SandboxSpec:
    """The sandbox that a Dockerfile describes, without building an image: its base, and the files that it copies.

    Args:
        spec: The sandbox as the problem asks for it.
        folder: The folder of the Dockerfile and of the files that it copies.

    Returns:
        The spec with the image, files and environment of the Dockerfile; variables of ``spec`` take precedence.

    Raises:
        SandboxError: The Dockerfile does more than copy files of its folder into the working directory.
    """
    image = ""
    workdir = "/"
    files = dict(spec.files)
    env = dict[str, str]()
    for instruction, text in instructions(folder / "Dockerfile"):
        arguments = shlex.split(text)
        is_second_stage = instruction == "FROM" and (image or len(arguments) != 1)
        has_options = text.startswith(("[", "--"))
        if instruction not in _HARMLESS or is_second_stage or has_options:
            raise SandboxError(
                f"a local sandbox cannot build images, and {folder / 'Dockerfile'} has {instruction} {text[:60]}",
                hint=_INSTEAD,
            )
        if instruction == "FROM":
            image = arguments[0]
        elif instruction == "WORKDIR":
            _check_plain(arguments, text)
            workdir = posixpath.join(workdir, arguments[0])
        elif instruction == "ENV":
            env |= _variables(arguments)
        elif instruction == "COPY":
            _check_plain(arguments, text)
            for source, target in _copied(arguments, folder, workdir):
                _check_writable(target, spec.workdir)
                files[str(source)] = target
    return replace(spec, image=image, files=files, env={**env, **spec.env})


def _variables(words: list[str]) -> dict[str, str]:
    """The variables of an ENV instruction: ``NAME=VALUE ...`` or ``NAME VALUE``."""
    if "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return dict(assignment.split("=", 1) for assignment in words)


def _copied(words: list[str], folder: Path, workdir: str) -> Iterator[tuple[Path, str]]:
    """The files of a COPY instruction, each with its place inside."""
    *sources, target = words
    is_folder = target.endswith("/") or target == "." or len(sources) > 1
    for name in sources:
        source = _source(name, folder)
        place = posixpath.normpath(posixpath.join(workdir, target))
        # A folder is copied by its content, a file under its name.
        if is_folder and not source.is_dir():
            place = f"{place}/{source.name}"
        yield source, place


def _source(name: str, folder: Path) -> Path:
    """The file or folder that a COPY instruction names; a leading slash stands for the folder of the Dockerfile.

    Raises:
        SandboxError: It is outside that folder, also by way of a link, or does not exist.
    """
    source = folder / name.lstrip("/")
    root = folder.resolve()
    try:
        is_inside = source.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError) as error:
        raise SandboxError(
            f"{folder / 'Dockerfile'} copies {name!r}, which cannot be read: {error}"
        ) from error
    if not is_inside:
        raise SandboxError(f"{folder / 'Dockerfile'} copies {name!r}, which is outside its folder")
    return source


def _check_plain(words: list[str], text: str) -> None:
    """Raise SandboxError for words that stand for something else: patterns, variables, or text on the next lines."""
    if not words or _NOT_PLAIN.search(text):
        raise SandboxError(
            f"a local sandbox follows only plain names in a Dockerfile, not {text[:60]!r}",
            hint=_INSTEAD,
        )


def _check_writable(place: str, workdir: str) -> None:
    """Raise SandboxError for a place outside the working directory."""
    if not f"{place}/".startswith(f"{workdir}/"):
        raise SandboxError(
            f"a local sandbox has only {workdir} to write to, and the Dockerfile copies to {place}",
            hint=_INSTEAD,
        )
