"""The contract of a sandbox: start, exec, upload, download, stop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from nemo_evaluator.core.types import SandboxSpec


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command left behind. The exit code is always the command's own; a deadline is said, not encoded."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool = False
    truncated: bool = False
    out_of_memory: bool = False
    duration_ms: float = 0.0

    @property
    def ok(self) -> bool:
        """True when the command ended by itself with 0."""
        return self.exit_code == 0 and not self.timed_out


@runtime_checkable
class Sandbox(Protocol):
    """A place where untrusted code runs. Every method raises SandboxError when the sandbox itself failed."""

    spec: SandboxSpec

    async def start(self) -> None:
        """Bring the sandbox up."""
        ...

    async def exec(
        self,
        command: str | list[str],
        *,
        timeout: float = 180.0,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
        max_output_bytes: int = 1_000_000,
    ) -> ExecResult:
        """Run a command (a string goes through ``sh -c``) in its own process group with a hard deadline."""
        ...

    async def upload(self, source: Path | bytes, target: str) -> None:
        """Put a file, a folder or bytes at ``target``."""
        ...

    async def download(self, source: str, target: Path) -> None:
        """Fetch a file or folder."""
        ...

    async def stop(self) -> None:
        """Take the sandbox down; safe to call twice."""
        ...
