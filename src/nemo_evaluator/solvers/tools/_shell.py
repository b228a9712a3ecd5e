"""A persistent shell: each command runs in a new process, and finds what the last one left.

Working directory, variables, functions and options are carried over in a file inside the sandbox; background
processes live on. The command comes in on stdin and is evaluated as it is: exit codes, heredocs and a trailing ``&``
mean what they say.
"""

import uuid
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.sandbox.base import ExecResult, Sandbox

# Their $1 is the file that keeps the state; where there is no bash, only the working directory is kept.
_BASH, _SH = (Path(__file__).with_name(name).read_text() for name in ("shell_bash.sh", "shell_sh.sh"))
SCRIPTS: Final = (_BASH, _SH)


class Shell:
    """The shell of one problem."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._state = f"/tmp/.nel-shell-{uuid.uuid4().hex[:12]}"
        self._launch: list[str] | None = None

    async def run(self, command: str, timeout: float) -> ExecResult:
        """Run a command. Raises SandboxError when the sandbox failed."""
        if self._launch is None:
            found = await self._sandbox.exec(["sh", "-c", "command -v bash"], timeout=60.0)
            if found.timed_out:
                raise SandboxError("the sandbox did not answer within 60 s")
            self._launch = ["bash", "--norc", "--noprofile", "-c", _BASH] if found.ok else ["sh", "-c", _SH]
        return await self._sandbox.exec(
            [*self._launch, "bash", self._state], stdin=command.encode(), timeout=timeout, background=True
        )

    async def cwd(self) -> str:
        """The directory that the next command starts in."""
        kept = await self._sandbox.exec(["cat", f"{self._state}.cwd"], timeout=30.0, cwd="/")
        return kept.stdout if kept.ok and kept.stdout.startswith("/") else self._sandbox.spec.workdir
