"""A task folder of Harbor: instruction, limits, image, tests, solution."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.types import JsonDict, SandboxSpec
from nemo_evaluator.sandbox.base import VolumeMount
from nemo_evaluator.sandbox.dockerfile import instructions

TESTS: Final = "/tests"
LOGS: Final = "/logs"
SOLUTION: Final = "/solution"
INSTRUCTION: Final = "instruction.md"
_VERIFIER_SECONDS: Final = 600.0
_REWARD_RANGE: Final = (0.0, 1.0)
# Where neither the task nor its Dockerfile says: the folder of SWE-bench's images.
_WORKDIR: Final = "/testbed"
# What a sandbox may live beyond the times of agent and verifier: starting, installing, carrying.
_SPARE: Final = 1800.0
_BUILT: Final = ("RUN", "COPY", "ADD", "USER", "SHELL", "ENTRYPOINT", "CMD", "ARG")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class HarborTask:
    """One folder with ``instruction.md``, read when it is asked for."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def settings(self) -> JsonDict:
        """``task.toml``. Raises SeedError when it cannot be read."""
        try:
            return tomllib.loads((self.folder / "task.toml").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, OSError) as error:
            raise SeedError(f"task {self.name}: cannot read task.toml: {error}") from error

    def table(self, *names: str) -> JsonDict:
        """A table of ``task.toml``; empty when there is none."""
        found = self.settings
        for name in names:
            found = as_dict(found.get(name))
        return found

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over names, modes and contents of all files."""
        return folder_hash(self.folder)

    @property
    def agent_seconds(self) -> float | None:
        return _number(self.table("agent").get("timeout_sec"))

    @property
    def verifier_seconds(self) -> float:
        return _number(self.table("verifier").get("timeout_sec")) or _VERIFIER_SECONDS

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward. Raises SeedError for a range that is none."""
        value = self.table("verifier").get("reward_range", _REWARD_RANGE)
        if isinstance(value, list | tuple):
            bounds: list[float | None] = [as_number(bound) for bound in value]
        else:
            bounds = []
        known = [bound for bound in bounds if bound is not None]
        if len(bounds) != 2 or len(known) != 2 or known[0] >= known[1]:
            hint = "two numbers, the lower one first: reward_range = [0.0, 1.0]"
            raise SeedError(
                f"task {self.name}: [verifier] reward_range is not a range: {value!r}", hint=hint
            )
        return known[0], known[1]

    @cached_property
    def dockerfile(self) -> list[tuple[str, str]]:
        """The instructions of ``environment/Dockerfile``: words and arguments."""
        file = self.folder / "environment" / "Dockerfile"
        if file.is_file():
            return list(instructions(file))
        return []

    @property
    def image(self) -> str:
        """The image: the one that is named, one to be built under a tag of its content, or the Dockerfile's base."""
        named = self.table("environment").get("docker_image")
        if named:
            return str(named)
        if self.is_built:
            digest = folder_hash(self.folder / "environment")[:12]
            return f"nel-harbor/{safe_name(self.name).lower().strip('-._')}:{digest}"
        return next((text.split()[0] for word, text in self.dockerfile if word == "FROM"), "")

    @property
    def is_built(self) -> bool:
        named = self.table("environment").get("docker_image")
        return not named and any(word in _BUILT for word, _ in self.dockerfile)

    @property
    def workdir(self) -> str:
        given = self.table("environment").get("workdir")
        found = [text.strip() for word, text in self.dockerfile if word == "WORKDIR"]
        return str(given or (found[-1] if found else _WORKDIR))

    def spec(self, host: dict[str, str]) -> SandboxSpec:
        """The sandbox it asks for; ``host`` is the environment that ``${NAME}`` in its settings refers to."""
        wanted = self.table("environment")
        offline = (
            wanted.get("allow_internet") is False or wanted.get("network_mode") == "no-network"
        )
        return SandboxSpec(
            image=self.image,
            workdir=self.workdir,
            env=expand(wanted.get("env"), host, self.name),
            volumes=[VolumeMount(container_path=place) for place in (LOGS, TESTS)],
            cpus=_number(wanted.get("cpus")),
            memory=_megabytes(wanted, "memory"),
            disk=_megabytes(wanted, "storage"),
            network=not offline,
            life=(self.agent_seconds or 0.0) + self.verifier_seconds + _SPARE,
        )


def folder_hash(folder: Path) -> str:
    """SHA-256 over the files of a folder: their names, whether they can be run, and what is in them."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            whole.update(f"link {name}\0{path.readlink()}\0".encode())
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{path.stat().st_mode & 0o100:o} {name}\0{content}\0".encode())
    return whole.hexdigest()


def expand(given: Any, host: dict[str, str], task: str) -> dict[str, str]:
    """Variables of a task with ``${NAME}`` and ``${NAME:-default}`` filled in from what it may know of this machine.
    Raises SeedError for another."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in host and match[2] is None:
            hint = f"export it, and allow it with params: {{pass_env: [{match[1]}]}}"
            raise SeedError(f"task {task} asks for the environment variable {match[1]}", hint=hint)
        return host.get(match[1], match[2] or "")

    return {str(name): _VARIABLE.sub(value, str(text)) for name, text in as_dict(given).items()}


def _number(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None


def _megabytes(table: JsonDict, name: str) -> int | None:
    """``memory_mb = 2048`` or the older ``memory = "2G"``, in bytes."""
    number = _number(table.get(f"{name}_mb"))
    if number is not None:
        return int(number * 2**20)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([GMK])", str(table.get(name, "")).strip().upper())
    if match:
        return int(float(match[1]) * {"G": 2**30, "M": 2**20, "K": 2**10}[match[2]])
    return None
