"""An agent of the Harbor package: it runs unchanged in a child process, and our sandbox is its environment."""

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
# Beside the agent's own time: installing it, and what it writes when its time is up.
SETUP_SECONDS: Final = 1200.0
_GRACE: Final = 120.0
# What of our environment the child gets: nothing that could be a key of ours.
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
    """The interpreter that has Harbor, and Harbor's version. Raises an error that says what to install."""
    chosen = os.environ.get(_PYTHON)
    if chosen is None and sys.version_info < _LEAST:
        said = f"Harbor's agents need Python 3.12 or newer, and this is {sys.version_info[0]}.{sys.version_info[1]}"
        hint = (
            f"{install_line('harbor')}, or set {_PYTHON} to a Python 3.12 that has harbor installed"
        )
        raise UsageError(said, hint=hint)
    if chosen is None and importlib.util.find_spec("harbor") is None:
        raise MissingExtraError("harbor", extra="harbor")
    asked = [
        chosen or sys.executable,
        "-c",
        "from importlib.metadata import version; print(version('harbor'))",
    ]
    try:
        ran = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{_PYTHON} cannot be run: {error}", hint="name an interpreter that has harbor"
        ) from error
    if ran.returncode:
        raise UsageError(f"{asked[0]} has no harbor", hint=f"{asked[0]} -m pip install harbor")
    return asked[0], ran.stdout.strip()


@dataclass(slots=True)
class HarborRun:
    """One attempt of one agent: the child, and the sandbox it works in."""

    sandbox: Sandbox
    timeout: float
    cmd_timeout: float | None = None
    _broken: SandboxError | None = field(default=None, init=False)
    _ended: JsonDict | None = field(default=None, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def work(self, job: JsonDict) -> SolveResult:
        """Run the agent to its end. Raises SolverError when it broke, SandboxError when the sandbox did."""
        python, _ = harbor_python()
        with tempfile.TemporaryDirectory(prefix="nel-agent-") as folder:
            logs = Path(folder) / "agent"
            whole = job | {
                "logs": str(logs),
                "timeout": self.timeout,
                "setup_timeout": SETUP_SECONDS,
            }
            environment = (
                {name: os.environ[name] for name in _KEPT if name in os.environ}
                | _QUIET
                | job["host_env"]
            )
            with (Path(folder) / "stderr").open("w+b") as errors:
                pipes: JsonDict = {
                    "stdin": subprocess.PIPE,
                    "stdout": subprocess.PIPE,
                    "stderr": errors,
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
                        await self._serve(child, whole)
                except TimeoutError:
                    self._ended = self._ended or {"timed_out": True, "phase": "run"}
                finally:
                    for task in self._tasks:
                        task.cancel()
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
                    await child.wait()
                errors.seek(0)
                tail = scrub(errors.read()[-1000:].decode(errors="replace")).strip()
            return self._end(job["agent"], logs, tail)

    def _end(self, agent: str, logs: Path, tail: str) -> SolveResult:
        ended = self._ended
        if ended is None:
            raise SolverError(f"agent {agent} ended without a word: {tail[-500:]}")
        failed = ended.get("error")
        if self._broken is not None and (failed or ended.get("timed_out")):
            raise self._broken
        if ended.get("phase") == "setup":
            why = failed or f"not ready within {SETUP_SECONDS:g} s"
            raise SandboxError(f"agent {agent} could not be set up: {str(why)[-800:]}")
        if failed and not ended.get("timed_out"):
            raise SolverError(f"agent {agent} broke: {str(failed)[-800:]}")
        trajectory = _trajectory(logs / "trajectory.json")
        # What the agent says it did: its own word, else its last message.
        steps = trajectory[0]["steps"] if trajectory else []
        last = next(
            (step["message"] for step in reversed(steps) if step.get("source") == "agent"), ""
        )
        said = str((ended.get("metadata") or {}).get("response") or last)
        about = {
            "agent": ended.get("agent", agent),
            "agent_version": ended.get("version", "unknown"),
        }
        return answer_of(
            said, about, self.timeout if ended.get("timed_out") else None, trajectory=trajectory
        )

    async def _serve(self, child: asyncio.subprocess.Process, job: JsonDict) -> None:
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
        """One thing the agent wants of its sandbox."""
        answer: JsonDict = {}
        try:
            if asked["op"] == "exec":
                limits = [float(one) for one in (asked["timeout"], self.cmd_timeout) if one]
                limit = min(limits, default=SETUP_SECONDS + self.timeout)
                told = {name: asked[name] for name in ("cwd", "env", "user")}
                # In the background: a terminal that an agent opens lives on between its commands.
                done = await self.sandbox.exec(
                    asked["command"], timeout=limit, background=True, **told
                )
                code = 124 if done.timed_out else done.exit_code
                answer = {"stdout": done.stdout, "stderr": done.stderr, "code": code}
            elif asked["op"] == "upload":
                await self.sandbox.upload(Path(asked["source"]), asked["target"])
            else:
                await self.sandbox.download(asked["source"], asked["target"])
        except SandboxError as error:
            self._broken = error
            answer = {"error": error.message}
        self._answer(child, {"id": asked["id"], **answer})

    def _answer(self, child: asyncio.subprocess.Process, message: JsonDict) -> None:
        if child.stdin is not None and not child.stdin.is_closing():
            child.stdin.write(json.dumps(message).encode() + b"\n")


def _trajectory(file: Path) -> list[JsonDict]:
    """The agent's own account, where it is one; the proxy's takes its place otherwise."""
    try:
        document = as_dict(read_json(file))
    except (OSError, ValueError):
        return []
    valid = str(document.get("schema_version", "")).startswith("ATIF-") and document.get("steps")
    return [document] if valid else []
