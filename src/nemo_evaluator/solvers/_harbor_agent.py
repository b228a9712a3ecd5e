"""Run an agent of the Harbor package, unmodified, in a child process, with our sandbox as its environment."""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import (
    MissingExtraError,
    SandboxError,
    SolverError,
    UsageError,
    install_line,
)
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict, SolveResult
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers.oracle import answer_of

_CHILD: Final = Path(__file__).with_name("_harbor_child.py")
_PYTHON: Final = "NEL_HARBOR_PYTHON"
_LEAST: Final = (3, 12)
# Time in addition to the agent's own: to install it, and to let it write its logs after a timeout.
SETUP_SECONDS: Final = 1200.0
_GRACE: Final = 120.0
# The environment variables that the child inherits; none of them may hold one of our keys.
_KEPT: Final = (
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "PYTHONPATH",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
)
_QUIET: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_TELEMETRY": "false",
}
_LONGEST_LINE: Final = 2**26


@cache
def harbor_python() -> tuple[str, str]:
    """Find the Python interpreter that has Harbor installed.

    ``NEL_HARBOR_PYTHON`` names one; without it, this interpreter is used. The result is cached for the process.

    Returns:
        The path of the interpreter, and Harbor's version.

    Raises:
        UsageError: This Python is too old, or the named interpreter does not run or has no Harbor.
        MissingExtraError: Harbor is not installed for this interpreter.
    """
    configured_python = os.environ.get(_PYTHON)
    if configured_python is None and sys.version_info < _LEAST:
        problem = f"Harbor's agents need Python 3.12 or newer, and this is {sys.version_info[0]}.{sys.version_info[1]}"
        hint = (
            f"{install_line('harbor')}, or set {_PYTHON} to a Python 3.12 that has harbor installed"
        )
        raise UsageError(problem, hint=hint)
    if configured_python is None and importlib.util.find_spec("harbor") is None:
        raise MissingExtraError("harbor", extra="harbor")
    version_command = [
        configured_python or sys.executable,
        "-c",
        "from importlib.metadata import version; print(version('harbor'))",
    ]
    try:
        version_run = subprocess.run(version_command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{_PYTHON} cannot be run: {error}", hint="name an interpreter that has harbor"
        ) from error
    if version_run.returncode:
        raise UsageError(
            f"{version_command[0]} has no harbor",
            hint=f"{version_command[0]} -m pip install harbor",
        )
    return version_command[0], version_run.stdout.strip()


@dataclass(slots=True)
class HarborRun:
    """One attempt of one agent: the child process, and the sandbox that it works in.

    Attributes:
        sandbox: Where the agent's commands run.
        timeout: Seconds for the agent, without its installation.
        cmd_timeout: Maximum seconds for one command of the agent, or None for no limit of its own.
    """

    sandbox: Sandbox
    timeout: float
    cmd_timeout: float | None = None
    _broken: SandboxError | None = field(default=None, init=False)
    _ended: JsonDict | None = field(default=None, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def work(self, job: JsonDict) -> SolveResult:
        """Start the child, serve its requests until it ends, and build the result.

        Args:
            job: What the child needs to know: the agent and its settings, the model, the instruction, the environment.

        Returns:
            The agent's answer and its trajectory; after a timeout, with ``error`` set.

        Raises:
            SolverError: The agent broke or ended without reporting.
            SandboxError: The sandbox failed, or the agent could not be set up.
        """
        python, _ = harbor_python()
        with tempfile.TemporaryDirectory(prefix="nel-agent-") as folder:
            logs = Path(folder) / "agent"
            full_job = job | {
                "logs": str(logs),
                "timeout": self.timeout,
                "setup_timeout": SETUP_SECONDS,
            }
            environment = (
                {name: os.environ[name] for name in _KEPT if name in os.environ}
                | _QUIET
                | job["host_env"]
            )
            with (Path(folder) / "stderr").open("w+b") as stderr_file:
                pipes: JsonDict = {
                    "stdin": subprocess.PIPE,
                    "stdout": subprocess.PIPE,
                    "stderr": stderr_file,
                }
                child = await asyncio.create_subprocess_exec(
                    python,
                    "-P",
                    str(_CHILD),
                    **pipes,
                    env=environment,
                    limit=_LONGEST_LINE,
                    start_new_session=True,
                )
                try:
                    async with asyncio.timeout(SETUP_SECONDS + self.timeout + _GRACE):
                        await self._serve(child, full_job)
                except TimeoutError:
                    self._ended = self._ended or {"timed_out": True, "phase": "run"}
                finally:
                    for task in self._tasks:
                        task.cancel()
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
                    await child.wait()
                stderr_file.seek(0)
                stderr_tail = scrub(stderr_file.read()[-1000:].decode(errors="replace")).strip()
            return self._end(job["agent"], logs, stderr_tail)

    def _end(self, agent: str, logs: Path, tail: str) -> SolveResult:
        """Build the result from the child's last message and the agent's logs.

        Raises:
            SolverError: The agent broke or ended without reporting.
            SandboxError: The sandbox failed, or the agent could not be set up.
        """
        final_report = self._ended
        if final_report is None:
            raise SolverError(f"agent {agent} ended without a word: {tail[-500:]}")
        failure = final_report.get("error")
        if self._broken is not None and (failure or final_report.get("timed_out")):
            raise self._broken
        if final_report.get("phase") == "setup":
            reason = failure or f"not ready within {SETUP_SECONDS:g} s"
            raise SandboxError(f"agent {agent} could not be set up: {str(reason)[-800:]}")
        if failure and not final_report.get("timed_out"):
            raise SolverError(f"agent {agent} broke: {str(failure)[-800:]}")
        trajectory = _trajectory(logs / "trajectory.json")
        # The answer that the agent reports itself, else its last message.
        steps = trajectory[0]["steps"] if trajectory else []
        last_message = next(
            (step["message"] for step in reversed(steps) if step.get("source") == "agent"), ""
        )
        answer_text = str((final_report.get("metadata") or {}).get("response") or last_message)
        details = {
            "agent": final_report.get("agent", agent),
            "agent_version": final_report.get("version", "unknown"),
        }
        return answer_of(
            answer_text,
            details,
            self.timeout if final_report.get("timed_out") else None,
            trajectory=trajectory,
        )

    async def _serve(self, child: asyncio.subprocess.Process, job: JsonDict) -> None:
        """Send the job to the child and start a task per request, until the child reports its end or exits."""
        assert child.stdin is not None and child.stdout is not None
        self._answer(child, job)
        while line := await child.stdout.readline():
            message: JsonDict = json.loads(line)
            if message["op"] == "done":
                self._ended = message
                return
            task = asyncio.create_task(self._do(child, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _do(self, child: asyncio.subprocess.Process, asked: JsonDict) -> None:
        """Run one request of the agent in the sandbox and send the reply, or the error of the sandbox, to the child."""
        reply: JsonDict = {}
        try:
            if asked["op"] == "exec":
                limits = [
                    float(seconds) for seconds in (asked["timeout"], self.cmd_timeout) if seconds
                ]
                limit = min(limits, default=SETUP_SECONDS + self.timeout)
                options = {name: asked[name] for name in ("cwd", "env", "user")}
                # In the background: a terminal that an agent opens lives on between its commands.
                command_result = await self.sandbox.exec(
                    asked["command"], timeout=limit, background=True, **options
                )
                code = 124 if command_result.timed_out else command_result.exit_code
                reply = {
                    "stdout": command_result.stdout,
                    "stderr": command_result.stderr,
                    "code": code,
                }
            elif asked["op"] == "upload":
                await self.sandbox.upload(Path(asked["source"]), asked["target"])
            else:
                await self.sandbox.download(asked["source"], asked["target"])
        except SandboxError as error:
            self._broken = error
            reply = {"error": error.message}
        self._answer(child, {"id": asked["id"], **reply})

    def _answer(self, child: asyncio.subprocess.Process, message: JsonDict) -> None:
        """Write one message to the child, unless its input is closed."""
        if child.stdin is not None and not child.stdin.is_closing():
            child.stdin.write(json.dumps(message).encode() + b"\n")


def _trajectory(file: Path) -> list[JsonDict]:
    """Read the trajectory that the agent wrote; empty when there is no valid one (the proxy's is used then)."""
    try:
        document = as_dict(read_json(file))
    except (OSError, ValueError):
        return []
    valid = str(document.get("schema_version", "")).startswith("ATIF-") and document.get("steps")
    return [document] if valid else []
