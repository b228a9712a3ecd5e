"""``harbor``: an agent inside the sandbox: a Harbor agent by name, a class, or a folder of scripts."""

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

import jinja2
from jinja2.sandbox import SandboxedEnvironment
from pydantic import Field

from nemo_evaluator.config.fields import Above0, EnvMap, Name, ServiceName
from nemo_evaluator.config.solver_base import SolverBase, TimeoutStrategy
from nemo_evaluator.core.errors import SandboxError, SolverError, UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, ModelAccess, SeedResult, SolveResult
from nemo_evaluator.sandbox.base import ExecResult, Sandbox
from nemo_evaluator.solvers._harbor_agent import HarborRun, harbor_python
from nemo_evaluator.solvers.oracle import answer_of, model_url_inside, time_limit, writable_place

_LOGS: Final = ("/logs/agent", "/tmp/logs/agent")  # noqa: S108 - inside the sandbox
_SKILLS: Final = ("/skills", "/tmp/skills")  # noqa: S108 - inside the sandbox
_CONTEXT: Final = 262_144
_INSTALL_SECONDS: Final = 900.0
RUN: Final = "run.sh.j2"
_READ_SKILL: Final = (
    "Read {place}/SKILL.md before you begin: it tells you how to work on this task.\n\n"
)


class HarborSolverConfig(SolverBase):
    """A Harbor agent inside the sandbox."""

    type: Literal["harbor"] = "harbor"
    in_sandbox: ClassVar[bool] = True
    service: ServiceName = Field(description="The model.")
    agent: Name = Field(
        description="Name of a Harbor agent, `module:Class`, or a folder with `run.sh.j2`."
    )
    agent_kwargs: dict[str, Any] = Field(default_factory=dict, description="Settings of the agent.")
    container_env: EnvMap = Field(default_factory=dict, description="Environment of the agent.")
    run_timeout: Above0 | None = Field(None, description="Seconds for the agent.")
    cmd_timeout: Above0 | None = Field(None, description="Seconds for one command of the agent.")
    timeout_strategy: TimeoutStrategy = "override"
    max_agent_timeout: Above0 | None = Field(None, description="Cap on the agent's time.")
    skill: str | None = Field(None, description="Skill given to the agent.")
    skill_dir: str | None = Field(None, description="Folder of skills.")


@dataclass(frozen=True, slots=True)
class FolderAgent:
    """Scripts that install and run an agent inside the sandbox; its standard output is its answer.

    Attributes:
        name: The agent's name.
        run: The template of the script that runs it (``run.sh.j2``).
        install: The template of the script that installs it (``install.sh.j2``), if it has one.
        timeout: Seconds for the agent, from ``agent.toml``.
        env: Environment variables, from ``agent.toml``.
    """

    name: str
    run: str
    install: str | None = None
    timeout: float | None = None
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read an agent's folder.

        Args:
            folder: A folder with ``run.sh.j2``, and optionally ``install.sh.j2`` and ``agent.toml``.

        Raises:
            UsageError: The folder has no ``run.sh.j2``, or ``agent.toml`` is not valid.
        """
        run = _read_if_exists(folder / RUN)
        if run is None:
            raise UsageError(
                f"{folder} is not an agent: it has no {RUN}", hint="see docs/agents.md"
            )
        settings_file = folder / "agent.toml"
        try:
            settings = tomllib.loads(_read_if_exists(settings_file) or "")
        except ValueError as error:
            raise UsageError(f"{settings_file}: {error}", hint="fix the file") from error
        env: dict[str, str] = {}
        for variable, value in as_dict(settings.get("env")).items():
            env[str(variable)] = str(value)
        return cls(
            name=str(settings.get("name") or folder.resolve().name),
            run=run,
            install=_read_if_exists(folder / "install.sh.j2"),
            timeout=as_number(settings.get("timeout_sec")),
            env=env,
        )

    async def work(
        self,
        instruction: str,
        sandbox: Sandbox,
        values: Mapping[str, Any],
        env: Mapping[str, str],
        timeout: float,
    ) -> SolveResult:
        """Install the agent and run it.

        Args:
            instruction: The text of the problem.
            sandbox: Where the scripts run.
            values: The values for the templates, besides ``instruction``.
            env: Environment variables that override the agent's own.
            timeout: Seconds for the agent, without its installation.

        Raises:
            SandboxError: The agent cannot be installed.
            SolverError: The agent exited with an error.
            UsageError: A template cannot be rendered.
        """
        environment = {"DEBIAN_FRONTEND": "noninteractive", **self.env, **env}
        if self.install is not None:
            script = _render(self.install, values)
            result = await sandbox.exec(
                script, timeout=_INSTALL_SECONDS, env=environment, background=True
            )
            if not result.ok:
                raise SandboxError(f"agent {self.name} could not be installed ({_exit(result)})")
        command = _render(self.run, {**values, "instruction": instruction})
        result = await sandbox.exec(command, timeout=timeout, env=environment)
        if not result.ok and not result.timed_out:
            raise SolverError(f"agent {self.name} broke: {_exit(result)}")
        details = {"agent_exit_code": result.exit_code}
        exceeded_limit = timeout if result.timed_out else None
        return answer_of(result.stdout.strip(), details, exceeded_limit)


def _read_if_exists(file: Path) -> str | None:
    if not file.is_file():
        return None
    return file.read_text(encoding="utf-8")


def _exit(done: ExecResult) -> str:
    return f"exit code {done.exit_code}: {(done.stderr or done.stdout).strip()[-500:]}"


def _render(text: str, values: Mapping[str, Any]) -> str:
    """Render a template of an agent; the filter ``quote`` quotes a value for the shell.

    Anybody may have written the template, so it is rendered in Jinja's sandbox.
    """
    # The result is a shell script, not a page.
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    try:
        return environment.from_string(text).render(**values)
    except jinja2.TemplateError as error:
        raise UsageError(
            f"the agent's script cannot be rendered: {error}", hint="agent_kwargs gives values"
        ) from error


@dataclass
class HarborSolver:
    """Lets an agent work in the sandbox; its model calls go through the proxy, which counts them.

    A timeout is not a failure: the workspace is verified as the agent left it. An agent that could not be set up, a
    broken sandbox and an unreachable model are failures of the harness and are retried.

    Attributes:
        config: The settings.
    """

    config: HarborSolverConfig
    needs = ("sandbox", "model")

    def __post_init__(self) -> None:
        """Check the settings before the first problem.

        Raises:
            UsageError: The agent or the skill cannot be found.
        """
        self.describe()
        if self.config.skill and not (self._skill_dir / "SKILL.md").is_file():
            raise UsageError(
                f"skill {self.config.skill!r}: {self._skill_dir} has no SKILL.md",
                hint="set skill_dir",
            )

    async def solve(
        self, task: SeedResult, sandbox: Sandbox | None = None, model: ModelAccess | None = None
    ) -> SolveResult:
        """Run the agent on one problem.

        Args:
            task: The problem.
            sandbox: Where the agent works; required.
            model: URL and key of the model; required.

        Raises:
            SandboxError: The sandbox failed, or the agent could not be set up or installed.
            SolverError: The agent broke.
        """
        if sandbox is None or model is None:
            raise SandboxError(
                "an agent needs a sandbox and a model", hint="give the benchmark a sandbox"
            )
        await sandbox.start()
        await writable_place(sandbox, _LOGS)
        instruction = await self._instruction(task, sandbox)
        limit = self._limit(task)
        url_inside = model_url_inside(sandbox, model)
        env = self._environment(model)
        if self._folder is not None:
            env["LLM_BASE_URL"] = url_inside
            template_values = {"model": model.model, **self.config.agent_kwargs}
            return await self._folder.work(
                instruction, sandbox, template_values, env=env, timeout=limit
            )
        job = self._job(task, sandbox, model, instruction=instruction)
        job["env"] = env
        job["url"] = model.url
        job["url_inside"] = url_inside
        return await HarborRun(sandbox, limit, self.config.cmd_timeout).work(job)

    async def _instruction(self, task: SeedResult, sandbox: Sandbox) -> str:
        """Copy the skill into the sandbox, if there is one, and return the prompt that refers to it."""
        skill = self.config.skill
        if not skill:
            return task.prompt
        skills_folder = await writable_place(sandbox, _SKILLS)
        skill_folder = f"{skills_folder}/{skill}"
        await sandbox.upload(self._skill_dir, skill_folder)
        return _READ_SKILL.format(place=skill_folder) + task.prompt

    def _limit(self, task: SeedResult) -> float:
        """Return how many seconds the agent gets.

        The limit in an agent's folder replaces that of the task, unless the settings have a limit or another strategy.
        """
        config = self.config
        folder_limit = None
        if self._folder is not None:
            folder_limit = self._folder.timeout
        if folder_limit and config.run_timeout is None and config.timeout_strategy == "override":
            return min(folder_limit, config.max_agent_timeout or folder_limit)
        return time_limit(
            task, config.run_timeout, config.timeout_strategy, cap=config.max_agent_timeout
        )

    def _environment(self, model: ModelAccess) -> dict[str, str]:
        """Return the agent's environment: name and key of the model, then the settings' variables."""
        key = model.api_key.reveal()
        return {
            "LLM_API_KEY": key,
            "LLM_MODEL": model.model,
            "OPENAI_API_KEY": key,
            "MSWEA_API_KEY": key,
            **self.config.container_env,
        }

    def describe(self) -> JsonDict:
        """The settings that change answers, with the agent's own text or Harbor's version."""
        settings = self.config.model_dump(mode="json", exclude={"service"})
        if self._folder is not None:
            return settings | {"folder": asdict(self._folder), "agent": self._folder.name}
        return settings | {"harbor": harbor_python()[1]}

    @cached_property
    def _folder(self) -> FolderAgent | None:
        """Load the agent's folder, if the agent is one; raise UsageError for a path that does not exist."""
        path = Path(self.config.agent).expanduser()
        if not path.is_dir() and self.config.agent.startswith((".", "/", "~")):
            raise UsageError(f"there is no agent's folder {path}", hint="a folder with run.sh.j2")
        if path.is_dir():
            return FolderAgent.load(path)
        return None

    @property
    def _skill_dir(self) -> Path:
        return Path(self.config.skill_dir or ".").expanduser() / (self.config.skill or "")

    def _job(
        self, task: SeedResult, sandbox: Sandbox, model: ModelAccess, instruction: str
    ) -> JsonDict:
        """Build the job of the child process; the caller adds the agent's environment and its URLs of the model."""
        agent_name = self.config.agent
        if agent_name == "claude-code":
            model_name = model.model
        else:
            model_name = f"openai/{model.model}"
        environment_dir = Path.cwd()
        if task.folder:
            environment_dir = task.folder / "environment"
        model_info = {
            "max_input_tokens": _CONTEXT,
            "max_output_tokens": _CONTEXT,
            "input_cost_per_token": 0.0,
            "output_cost_per_token": 0.0,
        }
        return {
            "agent": agent_name,
            "kwargs": self.config.agent_kwargs,
            "model_name": model_name,
            "model_info": model_info,
            "host_env": {"OPENAI_API_KEY": model.api_key.reveal(), "OPENAI_BASE_URL": model.url},
            "instruction": instruction,
            "task": str(task.metadata.get("task_id") or "task"),
            "workdir": sandbox.spec.workdir,
            "environment_dir": str(environment_dir),
        }


KIND: Final = Kind(HarborSolverConfig, lambda config, context: HarborSolver(config))
