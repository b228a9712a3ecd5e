"""Runs one Harbor agent in a process of its own, under the Python that has Harbor; not imported by nel.

The job comes as one line of JSON on stdin. Commands and files go to the sandbox through the parent: one line of JSON
per request on stdout, one per answer on stdin. The last line says how the agent ended.
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
    """The way to the parent; many requests may be under way."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._number = 0

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to those who wait for them, until the parent hangs up."""
        while line := await reader.readline():
            answer = json.loads(line)
            self._waiting.pop(answer["id"]).set_result(answer)
        os._exit(1)

    async def ask(self, op: str, **what: Any) -> Json:
        """One request. Raises RuntimeError when the sandbox failed."""
        self._number += 1
        waiting = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self.say({"id": self._number, "op": op, **what})
        answer: Json = await waiting
        if "error" in answer:
            raise RuntimeError(f"sandbox: {answer['error']}")
        return answer

    def say(self, message: Json) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


class SandboxEnvironment(BaseEnvironment):  # type: ignore[misc]
    """The parent's sandbox as Harbor sees it."""

    line: ParentConnection

    @staticmethod
    def type() -> str:
        return "nel"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """All that Harbor asks for was settled by the parent."""
        return EnvironmentCapabilities(gpus=True, disable_internet=True)

    def _validate_definition(self) -> None:
        """The parent has started it already."""

    async def start(self, force_build: bool) -> None:
        """It runs."""

    async def stop(self, delete: bool) -> None:
        """The parent stops it."""

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self.line.ask("upload", source=str(source_path), target=str(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self.line.ask("upload", source=str(source_dir), target=str(target_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self.line.ask("download", source=str(source_path), target=str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self.line.ask("download", source=str(source_dir), target=str(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
        **_: Any,
    ) -> ExecResult:
        as_user = user if user is not None else self.default_user
        asked = {
            "cwd": cwd,
            "env": env,
            "timeout": timeout_sec,
            "user": None if as_user is None else str(as_user),
        }
        answer = await self.line.ask("exec", command=command, **asked)
        return ExecResult(
            stdout=answer["stdout"], stderr=answer["stderr"], return_code=answer["code"]
        )


def _agent(job: Json, logs: Path) -> Any:
    """The agent, told of the model where it will look for it: on this side, or inside the sandbox."""
    config = AgentConfig(
        name=job["agent"], model_name=job["model_name"], kwargs=job["kwargs"], env=job["env"]
    )
    kind = AgentFactory.get_agent_class_from_config(config)
    inside = issubclass(kind, BaseInstalledAgent)
    url = job["url_inside"] if inside else job["url"]
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "LLM_BASE_URL", "ANTHROPIC_BASE_URL"):
        config.env.setdefault(
            name, url.removesuffix("/v1") if name.startswith("ANTHROPIC") else url
        )
    if not inside:
        os.environ.update(config.env)
    known = getattr(getattr(kind, "options_model", None), "model_fields", {})
    given = {"api_base": url, "model_info": job["model_info"]}
    config.kwargs = {**{k: v for k, v in given.items() if k in known}, **config.kwargs}
    return AgentFactory.create_agent_from_config(config, logs_dir=logs)


async def _work(job: Json, line: ParentConnection, logs: Path) -> Json:
    trial = TrialPaths(trial_dir=logs.parent)
    environment = SandboxEnvironment(
        environment_dir=Path(job["environment_dir"]),
        environment_name=job["task"],
        session_id="nel",
        trial_paths=trial,
        task_env_config=EnvironmentConfig(workdir=job["workdir"]),
        enable_environment_dir_upload=False,
    )
    environment.line = line
    agent = _agent(job, logs)
    context = AgentContext()
    ended: Json = {"op": "done", "agent": agent.name(), "error": None, "timed_out": False}
    phase = "setup"
    try:
        async with asyncio.timeout(job["setup_timeout"]):
            await agent.setup(environment)
        phase = "run"
        async with asyncio.timeout(job["timeout"]):
            await agent.run(job["instruction"], environment, context)
    except TimeoutError:
        ended["timed_out"] = True
    except Exception as error:  # noqa: BLE001 - anybody's agent: whatever it raises is how it ended
        ended["error"] = f"{type(error).__name__}: {error}"
    ended["phase"] = phase
    if isinstance(agent, BaseInstalledAgent):
        try:
            # What it wrote inside; without it there is no trajectory of its own, and the proxy's is used.
            await environment.download_dir("/logs/agent", logs)
        except RuntimeError as error:
            logging.warning("the agent's logs were not fetched: %s", error)
        agent.populate_context_post_run(context)
    ended["version"] = agent.version() or "unknown"
    if isinstance(context.metadata, dict):
        ended["metadata"] = context.metadata
    else:
        ended["metadata"] = {}
    return ended


async def _main() -> None:
    # What libraries print must not mix with what we say.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    job = json.loads(await reader.readline())
    line = ParentConnection(out)
    listening = asyncio.create_task(line.listen(reader))
    logs = Path(job["logs"])
    logs.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(Path.cwd()))
    line.say(await _work(job, line, logs))
    listening.cancel()


if __name__ == "__main__":
    asyncio.run(_main())
