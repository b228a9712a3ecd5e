"""Run an agent of the Harbor package, unmodified, in a child process, with our sandbox as its environment."""

from __future__ import annotations

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
from typing import IO, TYPE_CHECKING, Any, Final, cast

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

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument

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
# The exit code of a command that exceeded its time, as ``timeout`` reports it.
_TIMED_OUT: Final = 124


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
    python = os.environ.get(_PYTHON)
    if python is None:
        if sys.version_info < _LEAST:
            our_version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise UsageError(
                f"Harbor's agents need Python 3.12 or newer, and this is {our_version}",
                hint=f"{install_line('harbor')}, or set {_PYTHON} to a Python 3.12 that has harbor installed",
            )
        if importlib.util.find_spec("harbor") is None:
            raise MissingExtraError("harbor", extra="harbor")
    python = python or sys.executable
    version_script = "from importlib.metadata import version; print(version('harbor'))"
    try:
        version_run = subprocess.run(
            [python, "-c", version_script], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{_PYTHON} cannot be run: {error}", hint="name an interpreter that has harbor"
        ) from error
    if version_run.returncode:
        raise UsageError(f"{python} has no harbor", hint=f"{python} -m pip install harbor")
    return python, version_run.stdout.strip()


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
        with tempfile.TemporaryDirectory(prefix="nel-agent-") as folder:
            logs = Path(folder) / "agent"
            limits = {"timeout": self.timeout, "setup_timeout": SETUP_SECONDS}
            job = {**job, **limits, "logs": str(logs)}
            with (Path(folder) / "stderr").open("w+b") as stderr_file:
                await self._run_child(job, stderr_file)
                stderr_file.seek(0)
                stderr_tail = scrub(stderr_file.read()[-1000:].decode(errors="replace")).strip()
            return self._end(job["agent"], logs, stderr_tail)

    async def _run_child(self, job: JsonDict, stderr_file: IO[bytes]) -> None:
        """Start the child and serve its requests; kill it when it has ended, or when its time is up."""
        python, _ = harbor_python()
        child = await asyncio.create_subprocess_exec(
            python,
            "-P",
            str(_CHILD),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr_file,
            env=_child_environment(job),
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(SETUP_SECONDS + self.timeout + _GRACE):
                await self._serve(child, job)
        except TimeoutError:
            self._ended = self._ended or {"timed_out": True, "phase": "run"}
        finally:
            for task in self._tasks:
                task.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()

    def _end(self, agent: str, logs: Path, tail: str) -> SolveResult:
        """Build the result from the child's last message and the agent's logs.

        Raises:
            SolverError: The agent broke or ended without reporting.
            SandboxError: The sandbox failed, or the agent could not be set up.
        """
        report = self._ended
        if report is None:
            raise SolverError(f"agent {agent} ended without a word: {tail[-500:]}")
        failure = report.get("error")
        timed_out = report.get("timed_out")
        if self._broken is not None and (failure or timed_out):
            raise self._broken
        if report.get("phase") == "setup":
            reason = failure or f"not ready within {SETUP_SECONDS:g} s"
            raise SandboxError(f"agent {agent} could not be set up: {str(reason)[-800:]}")
        if failure and not timed_out:
            raise SolverError(f"agent {agent} broke: {str(failure)[-800:]}")
        trajectory = _trajectory(logs / "trajectory.json")
        # The answer that the agent reports itself, else its last message.
        metadata = report.get("metadata") or {}
        answer = metadata.get("response") or _last_message(trajectory)
        details = {
            "agent": report.get("agent", agent),
            "agent_version": report.get("version", "unknown"),
        }
        exceeded_limit = self.timeout if timed_out else None
        return answer_of(str(answer), details, exceeded_limit, trajectory=trajectory)

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

    async def _do(self, child: asyncio.subprocess.Process, request: JsonDict) -> None:
        """Run one request of the agent in the sandbox and send the reply, or the error of the sandbox, to the child."""
        reply: JsonDict = {}
        try:
            if request["op"] == "exec":
                reply = await self._exec(request)
            elif request["op"] == "upload":
                await self.sandbox.upload(Path(request["source"]), request["target"])
            else:
                await self.sandbox.download(request["source"], request["target"])
        except SandboxError as error:
            self._broken = error
            reply = {"error": error.message}
        self._answer(child, {"id": request["id"], **reply})

    async def _exec(self, request: JsonDict) -> JsonDict:
        """Run a command of the agent and return its output and exit code."""
        limit = request["timeout"] or self.cmd_timeout or SETUP_SECONDS + self.timeout
        if self.cmd_timeout:
            limit = min(limit, self.cmd_timeout)
        result = await self.sandbox.exec(
            request["command"],
            timeout=float(limit),
            # A terminal that an agent opens lives on between its commands.
            background=True,
            cwd=request["cwd"],
            env=request["env"],
            user=request["user"],
        )
        exit_code = _TIMED_OUT if result.timed_out else result.exit_code
        return {"stdout": result.stdout, "stderr": result.stderr, "code": exit_code}

    def _answer(self, child: asyncio.subprocess.Process, message: JsonDict) -> None:
        """Write one message to the child, unless its input is closed."""
        if child.stdin is not None and not child.stdin.is_closing():
            child.stdin.write(json.dumps(message).encode() + b"\n")


def _child_environment(job: JsonDict) -> dict[str, str]:
    """Return the environment of the child: a few of our variables, and those of the job."""
    environment: dict[str, str] = {}
    for name in _KEPT:
        if name in os.environ:
            environment[name] = os.environ[name]
    environment |= _QUIET
    environment |= job["host_env"]
    return environment


def _trajectory(file: Path) -> list[TrajectoryDocument]:
    """Read the trajectory that the agent wrote; empty when there is no valid one (the proxy's is used then)."""
    try:
        document = as_dict(read_json(file))
    except (OSError, ValueError):
        return []
    version = str(document.get("schema_version", ""))
    if version.startswith("ATIF-") and document.get("steps"):
        return [cast("TrajectoryDocument", document)]
    return []


def _last_message(trajectory: list[TrajectoryDocument]) -> Any:
    """Return the agent's last message, or an empty text."""
    for document in trajectory:
        for step in reversed(document["steps"]):
            if step.get("source") == "agent":
                return step["message"]
    return ""
