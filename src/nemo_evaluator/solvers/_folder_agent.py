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
from nemo_evaluator.sandbox.base import ExecResult, Sandbox

RUN: Final = "run.sh.j2"
_INSTALL_SECONDS: Final = 900.0


def answer_of(
    response: str, details: JsonDict, late: float | None, trajectory: list[JsonDict] | None = None
) -> SolveResult:
    """What an agent left besides its workspace. One whose time was up (``late``, in seconds) is no failure."""
    error = f"the agent did not end within {late:g} s" if late is not None else None
    kind = ErrorKind.SOLVE_TIMEOUT if error else ErrorKind.NONE
    return SolveResult(response, None, trajectory or [], error=error, error_kind=kind, scoring_details=details)


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
        files = [folder / name for name in (RUN, "install.sh.j2", "agent.toml")]
        texts = {file.name: file.read_text(encoding="utf-8") for file in files if file.is_file()}
        try:
            settings = tomllib.loads(texts.get("agent.toml", ""))
        except ValueError as error:
            raise UsageError(f"{folder / 'agent.toml'}: {error}", hint="fix the file") from error
        name = str(settings.get("name") or folder.resolve().name)
        env = {str(key): str(value) for key, value in as_dict(settings.get("env")).items()}
        return cls(name, texts[RUN], texts.get("install.sh.j2"), as_number(settings.get("timeout_sec")), env)

    async def work(
        self, instruction: str, sandbox: Sandbox, values: Mapping[str, Any], env: Mapping[str, str], timeout: float
    ) -> SolveResult:
        """Install and run it. Raises SandboxError when it cannot be installed, SolverError when it breaks."""
        environment = {"DEBIAN_FRONTEND": "noninteractive", **self.env, **env}
        if self.install is not None:
            script = _render(self.install, values)
            done = await sandbox.exec(script, timeout=_INSTALL_SECONDS, env=environment, background=True)
            if not done.ok:
                raise SandboxError(f"agent {self.name} could not be installed ({_exit(done)})")
        command = _render(self.run, {**values, "instruction": instruction})
        done = await sandbox.exec(command, timeout=timeout, env=environment)
        if not done.ok and not done.timed_out:
            raise SolverError(f"agent {self.name} broke: {_exit(done)}")
        details = {"agent_exit_code": done.exit_code}
        return answer_of(done.stdout.strip(), details, timeout if done.timed_out else None)


def _exit(done: ExecResult) -> str:
    return f"exit code {done.exit_code}: {(done.stderr or done.stdout).strip()[-500:]}"


def _render(text: str, values: Mapping[str, Any]) -> str:
    """A template of an agent, which may be anybody's; ``quote`` makes a value one word of the shell."""
    # The result is a shell script, not a page.
    environment = SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    try:
        return environment.from_string(text).render(**values)
    except jinja2.TemplateError as error:
        raise UsageError(f"the agent's script cannot be rendered: {error}", hint="agent_kwargs gives values") from error
