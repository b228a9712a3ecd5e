"""An agent that is a folder: ``run.sh.j2``, with ``install.sh.j2`` and ``agent.toml`` where it needs them."""

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from nemo_evaluator.core.errors import SandboxError, SolverError, UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.types import ErrorKind, JsonDict, SolveResult
from nemo_evaluator.sandbox.base import Sandbox

RUN: Final = "run.sh.j2"
_INSTALL: Final = "install.sh.j2"
_INSTALL_SECONDS: Final = 900.0


@dataclass(slots=True)
class AgentEnd:
    """What an agent left besides its workspace; ``error`` says that it broke rather than finished."""

    response: str = ""
    trajectory: list[JsonDict] = field(default_factory=list)
    error: str | None = None
    timed_out: bool = False
    details: JsonDict = field(default_factory=dict)


def answer_of(ended: AgentEnd, limit: float, agent: str) -> SolveResult:
    """What the row gets of it. Raises SolverError when the agent broke; time that is up is no failure."""
    if ended.error and not ended.timed_out:
        raise SolverError(f"agent {agent} broke: {ended.error}")
    late = f"the agent did not end within {limit:g} s" if ended.timed_out else None
    return SolveResult(
        response=ended.response,
        trajectory=ended.trajectory,
        error=late,
        error_kind=ErrorKind.SOLVE_TIMEOUT if late else ErrorKind.NONE,
        scoring_details=ended.details,
    )


@dataclass(frozen=True, slots=True)
class FolderAgent:
    """Scripts that install and run an agent inside the sandbox; what it prints is its answer."""

    name: str
    run: str
    install: str | None = None
    timeout: float | None = None
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read an agent's folder. Raises UsageError when it is none."""
        if not (folder / RUN).is_file():
            raise UsageError(f"{folder} is not an agent: it has no {RUN}", hint="see docs/agents.md")
        settings: JsonDict = {}
        if (folder / "agent.toml").is_file():
            try:
                settings = tomllib.loads((folder / "agent.toml").read_text(encoding="utf-8"))
            except ValueError as error:
                raise UsageError(f"{folder / 'agent.toml'}: {error}", hint="fix the file") from error
        install = folder / _INSTALL
        return cls(
            str(settings.get("name") or folder.resolve().name),
            (folder / RUN).read_text(encoding="utf-8"),
            install.read_text(encoding="utf-8") if install.is_file() else None,
            as_number(settings.get("timeout_sec")),
            {str(key): str(value) for key, value in as_dict(settings.get("env")).items()},
        )

    async def work(
        self, instruction: str, sandbox: Sandbox, values: Mapping[str, Any], env: Mapping[str, str], timeout: float
    ) -> AgentEnd:
        """Install and run it. Raises SandboxError when it cannot be installed."""
        environment = {"DEBIAN_FRONTEND": "noninteractive", **self.env, **env}
        if self.install is not None:
            script = _render(self.install, values)
            done = await sandbox.exec(script, timeout=_INSTALL_SECONDS, env=environment, background=True)
            if not done.ok:
                tail = (done.stderr or done.stdout).strip()[-500:]
                raise SandboxError(f"agent {self.name} could not be installed (exit {done.exit_code}): {tail}")
        command = _render(self.run, {**values, "instruction": instruction})
        done = await sandbox.exec(command, timeout=timeout, env=environment)
        crashed = not done.ok and not done.timed_out
        tail = (done.stderr or done.stdout).strip()[-500:]
        return AgentEnd(
            response=done.stdout.strip(),
            timed_out=done.timed_out,
            error=f"exit code {done.exit_code}: {tail}" if crashed else None,
            details={"agent_exit_code": done.exit_code},
        )


def _render(text: str, values: Mapping[str, Any]) -> str:
    """A template of an agent, which may be anybody's; ``quote`` makes a value one word of the shell."""
    # The result is a shell script, not a page.
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    try:
        return environment.from_string(text).render(**values)
    except jinja2.TemplateError as error:
        raise UsageError(f"the agent's script cannot be rendered: {error}", hint="agent_kwargs gives values") from error
