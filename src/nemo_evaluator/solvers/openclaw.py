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
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict, ModelAccess, SeedResult, SolveResult
from nemo_evaluator.sandbox.base import ExecResult, Sandbox
from nemo_evaluator.solvers.oracle import answer_of, model_url_inside, time_limit, writable_place

_PLACES: Final = ("/tmp/nel-openclaw", "/var/tmp/nel-openclaw")  # noqa: S108 - inside the sandbox
_PROVIDER: Final = "custom"
_TAVILY_KEY: Final = "TAVILY_API_KEY"
_MAX_OUTPUT: Final = 8_000_000
# Exit codes of shells for a missing command, and for a command that was killed.
_NO_COMMAND: Final = (126, 127)
_KILLED: Final = (124, 137)
# The agent prints a short notice instead of an answer when the connection to the model failed. A longer text with such
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
    """Lets OpenClaw work in the sandbox; its model calls go through the proxy, which counts and records them.

    The agent's own transcript is not read: since version 2026.9 it is a database with compressed rows, and the proxy
    has recorded the same calls.

    Attributes:
        config: The settings.
    """

    config: OpenClawSolverConfig
    needs = ("sandbox", "model")

    def __post_init__(self) -> None:
        """Check the settings before the first problem.

        Raises:
            UsageError: The config file cannot be read, or the key of the web search is not set.
        """
        self.describe()
        if self.config.web_search_provider and _TAVILY_KEY not in os.environ:
            raise UsageError(
                f"web_search_provider: {_TAVILY_KEY} is not set",
                hint="set it, or leave out the search",
            )

    async def solve(
        self, task: SeedResult, sandbox: Sandbox | None = None, model: ModelAccess | None = None
    ) -> SolveResult:
        """Run the agent on one problem, message by message.

        Args:
            task: The problem.
            sandbox: Where the agent works; required.
            model: URL and key of the model; required.

        Returns:
            The answer to the last message that was sent; ``error`` is set when the time was up.

        Raises:
            SandboxError: The sandbox failed, the agent is not installed, or it was killed.
            SolverError: The agent broke, or ended without an answer.
        """
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
        possible_homes = [f"{folder}-{token}" for folder in _PLACES]
        home = await writable_place(sandbox, possible_homes)
        env = self._environment(sandbox, model, home)
        await self._upload_config(sandbox, model, env)
        seconds_allowed = time_limit(
            task, config.run_timeout, config.timeout_strategy, cap=config.max_agent_timeout
        )
        deadline = time.monotonic() + seconds_allowed
        answer = ""
        timed_out = False
        for session, message in _sessions(task):
            message_file = f"{home}/message.txt"
            await sandbox.upload(message.encode(), message_file)
            seconds_left = max(1.0, deadline - time.monotonic())
            arguments = self._arguments(message_file, f"nel-{token}-{session}", seconds_left)
            result = await self._run(sandbox, arguments, seconds_left, env=env)
            answer = _printed_answer(result, config.openclaw_bin)
            timed_out = result.timed_out
            details["agent_exit_code"] = result.exit_code
            if timed_out:
                details["openclaw_timed_out"] = True
                break
        exceeded_limit = seconds_allowed if timed_out else None
        return answer_of(answer, details, exceeded_limit)

    async def _upload_config(
        self, sandbox: Sandbox, model: ModelAccess, env: dict[str, str]
    ) -> None:
        """Write the user's config file, or one for our model, where the agent's environment says."""
        config_text = self._user_config
        if not config_text:
            settings = self._settings(model.model, env["MODEL_BASE_URL"], sandbox.spec.workdir)
            config_text = dumps(settings)
        await sandbox.upload(config_text, env["OPENCLAW_CONFIG_PATH"])

    def _arguments(self, message_file: str, session_id: str, seconds: float) -> list[str]:
        """Return the arguments of the command that sends one message to the agent."""
        arguments = ["agent", "--local", "--json", "--agent", "main"]
        arguments += ["--message-file", message_file]
        arguments += ["--session-id", session_id]
        arguments += ["--thinking", self.config.thinking]
        arguments += ["--timeout", str(math.ceil(seconds))]
        return arguments

    def describe(self) -> JsonDict:
        """Return the settings that change answers, with the text of the agent's config file."""
        settings = self.config.model_dump(
            mode="json", exclude={"service", "config_path", "skip_preflight"}
        )
        settings["config"] = None
        if self._user_config:
            settings["config"] = self._user_config.decode(errors="replace")
        return settings

    @cached_property
    def _user_config(self) -> bytes | None:
        """The bytes of the user's config file, if one is configured; raises UsageError when it cannot be read."""
        if self.config.config_path is None:
            return None
        try:
            return Path(self.config.config_path).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(
                f"config_path: {error}", hint="name a config file of OpenClaw"
            ) from error

    async def _run(
        self, sandbox: Sandbox, arguments: list[str], timeout: float, env: dict[str, str]
    ) -> ExecResult:
        # Through a shell, which reports a missing command in the same way in every sandbox.
        agent_command = shlex.split(self.config.openclaw_bin)
        command = ["sh", "-c", 'exec "$@"', "sh", *agent_command, *arguments]
        return await sandbox.exec(command, timeout=timeout, env=env, max_output_bytes=_MAX_OUTPUT)

    async def _version(self, sandbox: Sandbox) -> str:
        """Return the version of OpenClaw in the sandbox.

        Raises:
            SandboxError: OpenClaw is missing or does not run; the hint says how to install it.
        """
        result = await self._run(sandbox, ["--version"], 120.0, env={})
        if not result.ok:
            raise _not_there(result, self.config.openclaw_bin)
        version_match = re.search(r"\d+(\.\d+)+", result.stdout)
        if version_match:
            return version_match.group()
        return result.stdout.strip()[:100]

    def _environment(self, sandbox: Sandbox, model: ModelAccess, home: str) -> dict[str, str]:
        """Build the agent's environment: its folders outside the workspace, and the model's address and key.

        The key is stored nowhere else.
        """
        url_inside = model_url_inside(sandbox, model)
        env: dict[str, str] = {}
        for variable, template in model.variables().items():
            env[variable] = template.replace("{url}", url_inside)
        env["MODEL_BASE_URL"] = url_inside
        env["OPENCLAW_HOME"] = home
        env["OPENCLAW_STATE_DIR"] = f"{home}/state"
        env["OPENCLAW_CONFIG_PATH"] = f"{home}/openclaw.json"
        env["OPENCLAW_NO_AUTO_UPDATE"] = "1"
        env["NO_COLOR"] = "1"
        if self.config.web_search_provider:
            env[_TAVILY_KEY] = Secret(os.environ[_TAVILY_KEY]).reveal()
        return env

    def _settings(self, model: str, url: str, workdir: str) -> JsonDict:
        """Build the agent's config with a single model provider.

        Its name is not one that OpenClaw knows, because a known name would add OpenClaw's settings for that provider.
        """
        config = self.config
        model_entry: JsonDict = {
            "id": model,
            "name": model,
            "input": ["text"],
            # OpenClaw rejects a thinking level for a model that is not declared a reasoning model.
            "reasoning": config.thinking != "off",
        }
        if config.context_window is not None:
            model_entry["contextWindow"] = config.context_window
        provider: JsonDict = {
            "api": "openai-completions",
            "baseUrl": url,
            "apiKey": "${MODEL_API_KEY}",
            "models": [model_entry],
            "timeoutSeconds": math.ceil(config.idle_timeout_seconds),
        }
        defaults: JsonDict = {
            "model": {"primary": f"{_PROVIDER}/{model}"},
            "workspace": workdir,
            "skipBootstrap": True,
            "compaction": {"mode": "safeguard"},
            "maxConcurrent": config.max_concurrent,
        }
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
    """List the messages to the agent, each with the number of its session.

    A task with ``sessions`` in its metadata has several; any other is one message with the system prompt in front.
    """
    messages: list[tuple[int, str]] = []
    session = 1
    for turn in as_list(task.metadata.get("sessions")):
        if not isinstance(turn, dict) or not turn.get("prompt"):
            continue
        if turn.get("new_session") and messages:
            session += 1
        messages.append((session, str(turn["prompt"])))
    if messages:
        return messages
    texts = [text for text in (task.system, task.prompt) if text]
    return [(1, "\n\n".join(texts))]


def _not_there(done: ExecResult, command: str) -> SandboxError:
    """Build the error for an agent that cannot be run in the sandbox."""
    output_tail = (done.stderr or done.stdout).strip()[-300:]
    remedy = "use an image with OpenClaw (npm install -g openclaw, Node 24.16 or newer), or set openclaw_bin"
    return SandboxError(
        f"{command} cannot be run in the sandbox (exit {done.exit_code}: {output_tail}): {remedy}",
        hint=remedy,
    )


def _printed_answer(done: ExecResult, command: str) -> str:
    """Return the answer that one run of the agent printed; after a timeout, whatever it printed so far.

    Raises:
        SandboxError: The agent could not be run, or was killed.
        SolverError: The agent broke, or ended without an answer.
    """
    result = _result(done.stdout) or _result(done.stderr)
    payloads = [payload for payload in result.get("payloads") or () if isinstance(payload, dict)]
    texts: list[str] = []
    for payload in payloads:
        if payload.get("text") and not payload.get("isError"):
            texts.append(str(payload["text"]))
    answer = "\n\n".join(texts)
    if done.timed_out:
        return answer
    if done.exit_code in _NO_COMMAND and not result:
        raise _not_there(done, command)
    if done.out_of_memory or done.exit_code in _KILLED:
        raise SandboxError(
            f"the agent was killed (exit {done.exit_code}): give the sandbox more memory"
        )
    error_message = _reported_error(result, payloads)
    if error_message or not done.ok or not result:
        output_tail = (done.stderr or done.stdout).strip()[-500:]
        failure_text = str(error_message or output_tail)
        raise SolverError(f"agent openclaw broke: exit code {done.exit_code}: {failure_text}")
    if not answer.strip():
        raise SolverError("agent openclaw broke: it ended without an answer")
    if len(answer) <= _NOTICE and _TRANSIENT.search(answer):
        raise SolverError(
            f"agent openclaw broke: it printed a failure instead of an answer: {answer}"
        )
    return answer


def _reported_error(result: JsonDict, payloads: list[JsonDict]) -> Any:
    """Return the message of the first error in the agent's output, or None."""
    for section in (result, as_dict(result.get("meta"))):
        if section.get("error"):
            message = as_dict(section["error"]).get("message")
            if message:
                return message
            break
    for payload in payloads:
        if payload.get("isError"):
            return payload.get("text")
    return None


def _result(output: str) -> JsonDict:
    """Return the last JSON object at the start of a line that holds ``payloads`` or ``error``; empty if none does."""
    starts = [match.start() for match in re.finditer(r"^\{", output, re.MULTILINE)]
    decoder = json.JSONDecoder()
    for start in reversed(starts):
        try:
            value, _ = decoder.raw_decode(output, start)
        except (ValueError, RecursionError):
            continue
        if "payloads" in value or "error" in value:
            return as_dict(value)
    return {}


KIND: Final = Kind(OpenClawSolverConfig, lambda config, context: OpenClawSolver(config))
