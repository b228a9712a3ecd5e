"""Run one Harbor agent in a process of its own, under the Python that has Harbor; nel does not import this file.

The job arrives as one line of JSON on stdin. Commands and files go to the sandbox through the parent: one line of JSON
per request on stdout, one line per reply on stdin. The last line on stdout reports how the agent ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from harbor.agents.factory import AgentFactory
from harbor.agents.installed.base import BaseInstalledAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.config import AgentConfig
from harbor.models.trial.paths import TrialPaths

Json = dict[str, Any]


class ParentConnection:
    """The connection to the parent process; several requests may be open at once."""

    def __init__(self, out: TextIO) -> None:
        """Create a connection without open requests.

        Args:
            out: The stream that the parent reads.
        """
        self._out = out
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._number = 0

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Pass each reply to the request that awaits it; exit the process when the parent closes the stream.

        Args:
            reader: The stream that the parent writes to.
        """
        while line := await reader.readline():
            reply = json.loads(line)
            self._waiting.pop(reply["id"]).set_result(reply)
        os._exit(1)

    async def ask(self, op: str, **fields: Any) -> Json:
        """Send one request and wait for the reply.

        Args:
            op: The operation: ``exec``, ``upload`` or ``download``.
            **fields: The fields of the request.

        Raises:
            RuntimeError: The sandbox failed.
        """
        self._number += 1
        reply_future = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = reply_future
        self.say({"id": self._number, "op": op, **fields})
        reply: Json = await reply_future
        if "error" in reply:
            raise RuntimeError(f"sandbox: {reply['error']}")
        return reply

    def say(self, message: Json) -> None:
        """Write one message to the parent."""
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


class SandboxEnvironment(BaseEnvironment):  # type: ignore[misc]
    """The parent's sandbox as a Harbor environment.

    Attributes:
        connection: The connection to the parent; set after construction.
    """

    connection: ParentConnection

    @staticmethod
    def type() -> str:
        """Return the name of this kind of environment."""
        return "nel"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """Claim every capability that Harbor checks: the parent has checked them already."""
        return EnvironmentCapabilities(gpus=True, disable_internet=True)

    def _validate_definition(self) -> None:
        """Check nothing: the parent has started the sandbox already."""

    async def start(self, force_build: bool) -> None:
        """Do nothing: the sandbox is already running."""

    async def stop(self, delete: bool) -> None:
        """Do nothing: the parent stops the sandbox."""

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file of this machine into the sandbox."""
        await self.connection.ask("upload", source=str(source_path), target=str(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy a folder of this machine into the sandbox."""
        await self.connection.ask("upload", source=str(source_dir), target=str(target_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file of the sandbox to this machine."""
        await self.connection.ask("download", source=str(source_path), target=str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy a folder of the sandbox to this machine."""
        await self.connection.ask("download", source=str(source_dir), target=str(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
        **_: Any,
    ) -> ExecResult:
        """Run a command in the sandbox.

        Args:
            command: The shell command.
            cwd: The working directory; None for the sandbox's own.
            env: Additional environment variables.
            timeout_sec: Maximum seconds; None for the parent's limit.
            user: The user to run as; None for the environment's default user.

        Returns:
            The output and the exit code.

        Raises:
            RuntimeError: The sandbox failed.
        """
        if user is None:
            user = self.default_user
        reply = await self.connection.ask(
            "exec",
            command=command,
            cwd=cwd,
            env=env,
            timeout=timeout_sec,
            user=None if user is None else str(user),
        )
        return ExecResult(stdout=reply["stdout"], stderr=reply["stderr"], return_code=reply["code"])


def _agent(job: Json, logs: Path) -> Any:
    """Create the agent and give it the model's address as seen from where it runs: here, or inside the sandbox."""
    config = AgentConfig(
        name=job["agent"], model_name=job["model_name"], kwargs=job["kwargs"], env=job["env"]
    )
    agent_class = AgentFactory.get_agent_class_from_config(config)
    in_sandbox = issubclass(agent_class, BaseInstalledAgent)
    url = job["url_inside"] if in_sandbox else job["url"]
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "LLM_BASE_URL"):
        config.env.setdefault(variable, url)
    config.env.setdefault("ANTHROPIC_BASE_URL", url.removesuffix("/v1"))
    if not in_sandbox:
        os.environ.update(config.env)
    option_fields = getattr(getattr(agent_class, "options_model", None), "model_fields", {})
    if "api_base" in option_fields:
        config.kwargs.setdefault("api_base", url)
    if "model_info" in option_fields:
        config.kwargs.setdefault("model_info", job["model_info"])
    return AgentFactory.create_agent_from_config(config, logs_dir=logs)


async def _work(job: Json, connection: ParentConnection, logs: Path) -> Json:
    """Set up and run the agent, and return the report on how it ended."""
    environment = SandboxEnvironment(
        environment_dir=Path(job["environment_dir"]),
        environment_name=job["task"],
        session_id="nel",
        trial_paths=TrialPaths(trial_dir=logs.parent),
        task_env_config=EnvironmentConfig(workdir=job["workdir"]),
        enable_environment_dir_upload=False,
    )
    environment.connection = connection
    agent = _agent(job, logs)
    context = AgentContext()
    report: Json = {"op": "done", "agent": agent.name(), "error": None, "timed_out": False}
    report["phase"] = "setup"
    try:
        async with asyncio.timeout(job["setup_timeout"]):
            await agent.setup(environment)
        report["phase"] = "run"
        async with asyncio.timeout(job["timeout"]):
            await agent.run(job["instruction"], environment, context)
    except TimeoutError:
        report["timed_out"] = True
    except Exception as error:  # noqa: BLE001 - anybody's agent: whatever it raises is how it ended
        report["error"] = f"{type(error).__name__}: {error}"
    if isinstance(agent, BaseInstalledAgent):
        try:
            # The logs that the agent wrote inside. Without them, the trajectory comes from the proxy.
            await environment.download_dir("/logs/agent", logs)
        except RuntimeError as error:
            logging.warning("the agent's logs were not fetched: %s", error)
        agent.populate_context_post_run(context)
    report["version"] = agent.version() or "unknown"
    report["metadata"] = {}
    if isinstance(context.metadata, dict):
        report["metadata"] = context.metadata
    return report


async def _main() -> None:
    """Read the job, run the agent, and report how it ended."""
    # Keep what libraries print out of the messages to the parent: their stdout becomes stderr.
    parent_stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    job = json.loads(await reader.readline())
    connection = ParentConnection(parent_stream)
    listener = asyncio.create_task(connection.listen(reader))
    logs = Path(job["logs"])
    logs.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(Path.cwd()))
    connection.say(await _work(job, connection, logs))
    listener.cancel()


if __name__ == "__main__":
    asyncio.run(_main())
