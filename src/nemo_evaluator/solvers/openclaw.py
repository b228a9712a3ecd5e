"""``openclaw``: the OpenClaw command-line agent, inside the sandbox."""

import json
import math
import os
import re
import shlex
import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import Above0, Positive, ServiceName
from nemo_evaluator.config.solver_base import SolverBase, TimeoutStrategy
from nemo_evaluator.core.errors import SandboxError, SolverError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict, ModelAccess, SeedResult, SolveResult
from nemo_evaluator.sandbox.base import ExecResult, Sandbox
from nemo_evaluator.solvers.oracle import answer_of, time_limit, writable_place

_PLACES: Final = ("/tmp/nel-openclaw", "/var/tmp/nel-openclaw")  # noqa: S108 - inside the sandbox
_PROVIDER: Final = "custom"
_TAVILY_KEY: Final = "TAVILY_API_KEY"
_MAX_OUTPUT: Final = 8_000_000
# What shells say of a command that is not there, and of one that was killed from outside.
_NO_COMMAND: Final = (126, 127)
_KILLED: Final = (124, 137)
# What the agent says in place of an answer when the way to the model failed: a short text. A longer one that holds such
# words is an answer about them.
_NOTICE: Final = 300
_TRANSIENT: Final = re.compile(
    r"reasoning-only assistant turn detected|MidStreamFallbackError|APIConnectionError|"
    r"OpenAIException - list index out of range|ECONNRESET|ETIMEDOUT|ECONNREFUSED|socket hang up|"
    r"upstream request timeout|timed out after|^\W*(Agent )?couldn't generate a response",
    re.MULTILINE,
)


class OpenClawSolverConfig(SolverBase):
    """The OpenClaw command-line agent."""

    type: Literal["openclaw"] = "openclaw"
    in_sandbox: ClassVar[bool] = True
    service: ServiceName = Field(description="The model.")
    thinking: str = Field("high", description="Thinking level.")
    context_window: Positive | None = Field(None, description="Context of the model, in tokens.")
    max_concurrent: Positive = Field(
        4, description="Maximum concurrent runs of one agent and its subagents."
    )
    idle_timeout_seconds: Above0 = Field(
        600.0, description="Seconds for one model request of the agent."
    )
    run_timeout: Above0 | None = Field(None, description="Seconds for the agent.")
    timeout_strategy: TimeoutStrategy = "task"
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the agent's time.")
    web_search_provider: Literal["tavily"] | None = Field(
        None, description="Web search of the agent."
    )
    config_path: str | None = Field(None, description="Config file of the agent, used as it is.")
    skip_preflight: bool = Field(False, description="Skip the check of the agent before each task.")
    openclaw_bin: str = Field("openclaw", description="The command inside the sandbox.")


@dataclass
class OpenClawSolver:
    """Lets OpenClaw work in the sandbox. Its model calls go through the proxy, which counts and keeps them.

    The agent's own transcript is not read: from 2026.9 on it is a database with compressed rows, and the proxy has
    seen all of it.
    """

    config: OpenClawSolverConfig
    needs = ("sandbox", "model")

    def __post_init__(self) -> None:
        self.describe()
        if self.config.web_search_provider and _TAVILY_KEY not in os.environ:
            raise UsageError(
                f"web_search_provider: {_TAVILY_KEY} is not set",
                hint="set it, or leave out the search",
            )

    async def solve(
        self, task: SeedResult, sandbox: Sandbox | None = None, model: ModelAccess | None = None
    ) -> SolveResult:
        if sandbox is None or model is None:
            raise SandboxError(
                "an agent needs a sandbox and a model", hint="give the benchmark a sandbox"
            )
        config = self.config
        await sandbox.start()
        details: JsonDict = {}
        if not config.skip_preflight:
            details["openclaw_version"] = await self._version(sandbox)
        token = uuid.uuid4().hex[:8]
        place = await writable_place(sandbox, [f"{place}-{token}" for place in _PLACES])
        env = self._environment(sandbox, model, place)
        settings = self._given or dumps(
            self._settings(model.model, env["MODEL_BASE_URL"], sandbox.spec.workdir)
        )
        await sandbox.upload(settings, env["OPENCLAW_CONFIG_PATH"])
        limit = time_limit(
            task, config.run_timeout, config.timeout_strategy, cap=config.max_agent_timeout
        )
        until = time.monotonic() + limit
        text = ""
        late = False
        for session, message in _sessions(task):
            await sandbox.upload(message.encode(), f"{place}/message.txt")
            left = max(1.0, until - time.monotonic())
            words = [
                "agent",
                "--local",
                "--json",
                "--agent",
                "main",
                "--message-file",
                f"{place}/message.txt",
            ]
            words += ["--session-id", f"nel-{token}-{session}", "--thinking", config.thinking]
            words += ["--timeout", str(math.ceil(left))]
            done = await self._run(sandbox, words, left, env=env)
            text = _said(done, config.openclaw_bin)
            late = done.timed_out
            details["agent_exit_code"] = done.exit_code
            if late:
                details["openclaw_timed_out"] = True
                break
        return answer_of(text, details, limit if late else None)

    def describe(self) -> JsonDict:
        """The settings that change answers, with the text of the config file."""
        settings = self.config.model_dump(
            mode="json", exclude={"service", "config_path", "skip_preflight"}
        )
        return settings | {"config": self._given.decode(errors="replace") if self._given else None}

    @cached_property
    def _given(self) -> bytes | None:
        if self.config.config_path is None:
            return None
        try:
            return Path(self.config.config_path).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(
                f"config_path: {error}", hint="name a config file of OpenClaw"
            ) from error

    async def _run(
        self, sandbox: Sandbox, words: list[str], timeout: float, env: dict[str, str]
    ) -> ExecResult:
        # By a shell, which says in the same way everywhere that there is no such command.
        command = ["sh", "-c", 'exec "$@"', "sh", *shlex.split(self.config.openclaw_bin), *words]
        return await sandbox.exec(command, timeout=timeout, env=env, max_output_bytes=_MAX_OUTPUT)

    async def _version(self, sandbox: Sandbox) -> str:
        """Which OpenClaw is there. Raises SandboxError, with the fix, when there is none that runs."""
        done = await self._run(sandbox, ["--version"], 120.0, env={})
        if not done.ok:
            raise _not_there(done, self.config.openclaw_bin)
        found = re.search(r"\d+(\.\d+)+", done.stdout)
        if found:
            return found.group()
        return done.stdout.strip()[:100]

    def _environment(self, sandbox: Sandbox, model: ModelAccess, place: str) -> dict[str, str]:
        """The agent's folders outside of the workspace, and the way to the model: its key is nowhere else."""
        inside = sandbox.resolved_endpoint_url(
            "MODEL_BASE_URL"
        ) or sandbox.resolve_outside_endpoint(model.url)
        env = {name: value.replace("{url}", inside) for name, value in model.variables().items()}
        env |= {
            "MODEL_BASE_URL": inside,
            "OPENCLAW_HOME": place,
            "OPENCLAW_STATE_DIR": f"{place}/state",
        }
        env |= {
            "OPENCLAW_CONFIG_PATH": f"{place}/openclaw.json",
            "OPENCLAW_NO_AUTO_UPDATE": "1",
            "NO_COLOR": "1",
        }
        if self.config.web_search_provider:
            env[_TAVILY_KEY] = Secret(os.environ[_TAVILY_KEY]).reveal()
        return env

    def _settings(self, model: str, url: str, workdir: str) -> JsonDict:
        """The agent's config. One provider of ours: the name of a known one would bring in what is known of that."""
        config = self.config
        # A level other than off is refused for a model that is not said to reason.
        entry: JsonDict = {
            "id": model,
            "name": model,
            "input": ["text"],
            "reasoning": config.thinking != "off",
        }
        if config.context_window is not None:
            entry["contextWindow"] = config.context_window
        provider: JsonDict = {
            "api": "openai-completions",
            "baseUrl": url,
            "apiKey": "${MODEL_API_KEY}",
        }
        provider |= {"models": [entry], "timeoutSeconds": math.ceil(config.idle_timeout_seconds)}
        defaults: JsonDict = {
            "model": {"primary": f"{_PROVIDER}/{model}"},
            "workspace": workdir,
            "skipBootstrap": True,
        }
        defaults |= {"compaction": {"mode": "safeguard"}, "maxConcurrent": config.max_concurrent}
        settings: JsonDict = {
            "models": {"mode": "replace", "providers": {_PROVIDER: provider}},
            "agents": {"defaults": defaults},
            "tools": {"fs": {"workspaceOnly": False}},
        }
        if config.web_search_provider:
            settings["tools"]["web"] = {"search": {"provider": config.web_search_provider}}
            settings["plugins"] = {"entries": {config.web_search_provider: {"enabled": True}}}
        return settings


def _sessions(task: SeedResult) -> list[tuple[int, str]]:
    """What the agent is told, message by message, each with the number of the session it belongs to."""
    told: list[tuple[int, str]] = []
    given = task.metadata.get("sessions")
    for turn in given if isinstance(given, list) else ():
        if isinstance(turn, dict) and turn.get("prompt"):
            last = told[-1][0] if told else 1
            told.append((last + bool(turn.get("new_session") and told), str(turn["prompt"])))
    return told or [(1, "\n\n".join(filter(None, (task.system, task.prompt))))]


def _not_there(done: ExecResult, command: str) -> SandboxError:
    said = (done.stderr or done.stdout).strip()[-300:]
    fix = "use an image with OpenClaw (npm install -g openclaw, Node 24.16 or newer), or set openclaw_bin"
    return SandboxError(
        f"{command} cannot be run in the sandbox (exit {done.exit_code}: {said}): {fix}", hint=fix
    )


def _said(done: ExecResult, command: str) -> str:
    """What one run of the agent answered. Raises SandboxError when it could not be run or was killed, SolverError when
    it broke."""
    result = _result(done.stdout) or _result(done.stderr)
    payloads = [one for one in result.get("payloads") or () if isinstance(one, dict)]
    text = "\n\n".join(
        str(one["text"]) for one in payloads if one.get("text") and not one.get("isError")
    )
    if done.timed_out:
        return text
    if done.exit_code in _NO_COMMAND and not result:
        raise _not_there(done, command)
    if done.out_of_memory or done.exit_code in _KILLED:
        raise SandboxError(
            f"the agent was killed (exit {done.exit_code}): give the sandbox more memory"
        )
    meta = as_dict(result.get("meta"))
    told = next(
        (as_dict(of.get("error")).get("message") for of in (result, meta) if of.get("error")), None
    )
    told = told or next((one.get("text") for one in payloads if one.get("isError")), None)
    if told or not done.ok or not result:
        tail = str(told or (done.stderr or done.stdout).strip()[-500:])
        raise SolverError(f"agent openclaw broke: exit code {done.exit_code}: {tail}")
    if not text.strip():
        raise SolverError("agent openclaw broke: it ended without an answer")
    if len(text) <= _NOTICE and _TRANSIENT.search(text):
        raise SolverError(
            f"agent openclaw broke: it told of a failure in place of an answer: {text}"
        )
    return text


def _result(output: str) -> JsonDict:
    """The last JSON object that begins a line and is a result, or the account of an error."""
    for start in reversed([match.start() for match in re.finditer(r"^\{", output, re.MULTILINE)]):
        try:
            value: Any = json.JSONDecoder().raw_decode(output, start)[0]
        except (ValueError, RecursionError):
            continue
        if "payloads" in value or "error" in value:
            return as_dict(value)
    return {}


KIND: Final = Kind(OpenClawSolverConfig, lambda config, context: OpenClawSolver(config))
