"""A Harbor task folder: instruction, limits, image, tests and solution."""

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
_PARTS: Final = (
    INSTRUCTION,
    "task.toml",
    "environment",
    "environment/Dockerfile",
    "tests",
    "tests/test.sh",
    "solution",
    "solution/solve.sh",
)
_VERIFIER_SECONDS: Final = 600.0
_REWARD_RANGE: Final = (0.0, 1.0)
# The default if neither the task nor its Dockerfile sets one: the folder of SWE-bench's images.
_WORKDIR: Final = "/testbed"
# A sandbox lives this much longer than the limits of agent and verifier: time to start, install and copy.
_SPARE: Final = 1800.0
_BUILT: Final = ("RUN", "COPY", "ADD", "USER", "SHELL", "ENTRYPOINT", "CMD", "ARG")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class HarborTask:
    """A folder with ``instruction.md``; nel reads its other files on demand."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @cached_property
    def settings(self) -> JsonDict:
        """The content of ``task.toml``; empty if there is no such file.

        Raises:
            SeedError: The file cannot be read or parsed.
        """
        try:
            return tomllib.loads((self.folder / "task.toml").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, OSError) as error:
            raise SeedError(f"task {self.name}: cannot read task.toml: {error}") from error

    def table(self, *names: str) -> JsonDict:
        """Return a table of ``task.toml``.

        Args:
            *names: The keys that lead to the table, outermost first.

        Returns:
            The table; empty if it does not exist.
        """
        table = self.settings
        for name in names:
            table = as_dict(table.get(name))
        return table

    @cached_property
    def content_hash(self) -> str:
        """The SHA-256 of the names, modes and contents of all files."""
        return folder_hash(self.folder)

    def check_links(self) -> None:
        """Check that no part of the task is a link that leaves the folder of tasks: nel would read what it leads to.

        Raises:
            SeedError: A part leads elsewhere.
        """
        collection = self.folder.resolve().parent
        for name in _PARTS:
            part = self.folder / name
            if part.is_symlink() and not part.resolve().is_relative_to(collection):
                raise SeedError(
                    f"task {self.name}: {name} is a link that leaves the folder of tasks",
                    hint="copy what it leads to into the task",
                )

    @property
    def has_solution(self) -> bool:
        """Whether the task has a known solution, ``solution/solve.sh``."""
        return (self.folder / "solution" / "solve.sh").is_file()

    @property
    def text(self) -> str:
        """The text of the instruction and the tests."""
        instruction = (self.folder / INSTRUCTION).read_text(encoding="utf-8", errors="replace")
        return f"{instruction}\n{self.test_text}"

    @property
    def test_text(self) -> str:
        """The text of all files of the tests."""
        file_texts: list[str] = []
        for path in sorted((self.folder / "tests").rglob("*")):
            if path.is_file():
                file_texts.append(path.read_text(encoding="utf-8", errors="replace"))
        return "\n".join(file_texts)

    @property
    def agent_seconds(self) -> float | None:
        """The agent's time limit; None if the task sets none."""
        return _number(self.table("agent").get("timeout_sec"))

    @property
    def verifier_seconds(self) -> float:
        """The time limit of the tests."""
        return _number(self.table("verifier").get("timeout_sec")) or _VERIFIER_SECONDS

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward.

        Raises:
            SeedError: ``reward_range`` is not a valid range.
        """
        value = self.table("verifier").get("reward_range", _REWARD_RANGE)
        if isinstance(value, list | tuple):
            bounds: list[float | None] = [as_number(bound) for bound in value]
        else:
            bounds = []
        numeric_bounds = [bound for bound in bounds if bound is not None]
        if len(bounds) != 2 or len(numeric_bounds) != 2 or numeric_bounds[0] >= numeric_bounds[1]:
            hint = "two numbers, the lower one first: reward_range = [0.0, 1.0]"
            raise SeedError(
                f"task {self.name}: [verifier] reward_range is not a range: {value!r}", hint=hint
            )
        return numeric_bounds[0], numeric_bounds[1]

    @cached_property
    def dockerfile(self) -> list[tuple[str, str]]:
        """The instructions of ``environment/Dockerfile`` as pairs of keyword and arguments."""
        file = self.folder / "environment" / "Dockerfile"
        if file.is_file():
            return list(instructions(file))
        return []

    @property
    def image(self) -> str:
        """The image to run.

        It is ``docker_image`` of ``task.toml`` if set, else a tag derived from the content if nel has to build the
        image, else the base image of the Dockerfile.
        """
        image_name = self.table("environment").get("docker_image")
        if image_name:
            return str(image_name)
        if self.is_built:
            digest = folder_hash(self.folder / "environment")[:12]
            return f"nel-harbor/{safe_name(self.name).lower().strip('-._')}:{digest}"
        return next(
            (arguments.split()[0] for keyword, arguments in self.dockerfile if keyword == "FROM"),
            "",
        )

    @property
    def is_built(self) -> bool:
        """Whether nel has to build the image from the Dockerfile."""
        image_name = self.table("environment").get("docker_image")
        return not image_name and any(keyword in _BUILT for keyword, _ in self.dockerfile)

    @property
    def workdir(self) -> str:
        """The working directory: from ``task.toml``, else the last ``WORKDIR`` of the Dockerfile, else ``/testbed``."""
        configured = self.table("environment").get("workdir")
        dockerfile_workdirs = [
            arguments.strip() for keyword, arguments in self.dockerfile if keyword == "WORKDIR"
        ]
        return str(configured or (dockerfile_workdirs[-1] if dockerfile_workdirs else _WORKDIR))

    def spec(self, host: dict[str, str]) -> SandboxSpec:
        """Return the sandbox that the task needs.

        Args:
            host: The environment variables that ``${NAME}`` in the task's settings may refer to.

        Raises:
            SeedError: The settings refer to another variable.
        """
        environment = self.table("environment")
        offline = (
            environment.get("allow_internet") is False
            or environment.get("network_mode") == "no-network"
        )
        return SandboxSpec(
            image=self.image,
            workdir=self.workdir,
            env=expand(environment.get("env"), host, self.name),
            volumes=[VolumeMount(container_path=path) for path in (LOGS, TESTS)],
            cpus=_number(environment.get("cpus")),
            memory=_megabytes(environment, "memory"),
            disk=_megabytes(environment, "storage"),
            network=not offline,
            life=(self.agent_seconds or 0.0) + self.verifier_seconds + _SPARE,
        )


def folder_hash(folder: Path) -> str:
    """Return the SHA-256 of a folder's files: their names, executable bits and contents."""
    folder_digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            folder_digest.update(f"link {name}\0{path.readlink()}\0".encode())
        elif path.is_file():
            content_digest = hashlib.sha256(path.read_bytes()).hexdigest()
            folder_digest.update(
                f"{path.stat().st_mode & 0o100:o} {name}\0{content_digest}\0".encode()
            )
    return folder_digest.hexdigest()


def expand(given: Any, host: dict[str, str], task: str) -> dict[str, str]:
    """Expand ``${NAME}`` and ``${NAME:-default}`` in a task's environment variables.

    Args:
        given: The table of variables, as the task writes it.
        host: The variables of this machine that the task may use.
        task: The name of the task, for error messages.

    Raises:
        SeedError: A variable is neither in ``host`` nor has a default.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in host and match[2] is None:
            hint = f"export it, and allow it with params: {{pass_env: [{match[1]}]}}"
            raise SeedError(f"task {task} asks for the environment variable {match[1]}", hint=hint)
        return host.get(match[1], match[2] or "")

    return {str(name): _VARIABLE.sub(value, str(text)) for name, text in as_dict(given).items()}


def _number(value: Any) -> float | None:
    """Return a positive number as a float, anything else as None."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    return None


def _megabytes(table: JsonDict, name: str) -> int | None:
    """Return a size in bytes, from ``memory_mb = 2048`` or the older ``memory = "2G"``."""
    number = _number(table.get(f"{name}_mb"))
    if number is not None:
        return int(number * 2**20)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([GMK])", str(table.get(name, "")).strip().upper())
    if match:
        return int(float(match[1]) * {"G": 2**30, "M": 2**20, "K": 2**10}[match[2]])
    return None
