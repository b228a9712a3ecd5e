"""Agents that forge a reward, and honest ones: every one is a script in ``exploits/agents``, run against a task's own
tests in ``exploits/agent_tasks``. Forgers never get a reward above 0; honest agents get what they have earned.
"""

from __future__ import annotations

import compileall
import shutil
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config import DockerSandbox, LocalSandbox
from nemo_evaluator.core.errors import BoundaryError, TamperError
from nemo_evaluator.core.types import JsonDict, SandboxSpec
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.sandbox.base import VolumeMount
from nemo_evaluator.sandbox.manager import SandboxManager

EXPLOITS = Path(__file__).parent / "exploits"
AGENTS = EXPLOITS / "agents"
TASKS = EXPLOITS / "agent_tasks"
# What the ordinary run tries in containers; of local sandboxes it tries one agent of each class and runner. All are
# tried with NEL_TEST_ALL=1.
IN_GVISOR = ("honest/right-unittest", "start-up-files/user-site-in-workspace")
IN_DOCKER = (
    "honest/home-workdir",
    "start-up-files/home-workdir-bashrc",
    "runner-configuration/conftest-report",
)
PYTEST_SAMPLE = ("honest", "runner-configuration", "patched-runner")
# Tasks for some classes only, and the classes that the ordinary run tries on them.
OTHER_RUNNERS = (
    "c", "helpers", "node", "npm", "parsed", "parts", "parts-script", "patched", "patched-tests", "perl", "sourced",
    "unsolved-parts", "unsolved-parts-script", "unsolved-printed", "venv",
)  # fmt: skip
OTHERS_SAMPLE = ("honest", "installed-packages", "partly-forged")
# What the system of a local sandbox needs for some tasks.
PROGRAMS = {"node": "node", "npm": "npm", "perl": "prove", "c": "gcc", "make": "make"}
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
RUNNER = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")


def agents() -> list[str]:
    """All agents, as class and name."""
    return sorted(str(path.parent.relative_to(AGENTS)) for path in AGENTS.glob("*/*/about.toml"))


def about(agent: str) -> JsonDict:
    """What is known of an agent: which tests it attacks, and what it should get."""
    return tomllib.loads((AGENTS / agent / "about.toml").read_text())


def sampled() -> set[str]:
    """The agents of the ordinary run."""
    chosen: dict[tuple[str, str], str] = {}
    for agent in agents():
        kind = agent.split("/")[0]
        runner = about(agent)["runner"]
        is_left_out = runner in OTHER_RUNNERS and kind not in OTHERS_SAMPLE
        # pytest takes a second to start, several times for each agent.
        is_slow = runner == "pytest" and kind not in PYTEST_SAMPLE
        if not is_left_out and not is_slow:
            chosen.setdefault((kind, runner), agent)
    return set(chosen.values())


def cases(place: str) -> Iterator[Any]:
    """The agents for a place, those beyond the sample marked as large."""
    sample = sampled() if place == "local" else set(IN_DOCKER)
    for agent in agents():
        facts = about(agent)
        if facts.get("place", place) != place or (
            place == "docker" and facts["runner"].startswith(("make", "unsolved"))
        ):
            continue
        marks = [] if agent in sample else [pytest.mark.large]
        program = PROGRAMS.get(facts["runner"])
        if program is not None and shutil.which(program, path=SYSTEM_PATH) is None:
            marks.append(pytest.mark.skip(reason=f"this system has no {program}"))
        yield pytest.param(agent, id=agent, marks=marks)


@pytest.fixture(scope="session")
def runner() -> Iterator[Path]:
    """A folder with pytest, for sandboxes whose system has none. Not below pytest's own folder, which only its user
    may enter."""
    with tempfile.TemporaryDirectory(prefix="nel-runner-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for package in RUNNER:
            source = next(
                Path(entry, package)
                for entry in sys.path
                if Path(entry, package, "__init__.py").is_file()
            )
            shutil.copytree(source, folder / package)
        # A part of pytest that is not in a folder of its own.
        shutil.copy(Path(pytest.__file__).parent.with_name("py.py"), folder)
        # Compiled once: every sandbox reads it anew.
        compileall.compile_dir(folder, quiet=2)
        yield folder


class Bench:
    """Lets agents work and verifies them."""

    def __init__(self, manager: SandboxManager, runner: Path) -> None:
        self.manager = manager
        self._runner = runner

    def with_runner(self, spec: SandboxSpec | None) -> SandboxSpec:
        """A sandbox that has pytest."""
        assert spec is not None
        mount = VolumeMount(
            host_path=str(self._runner), container_path="/opt/runner", readonly=True
        )
        return replace(spec, volumes=[*spec.volumes, mount])

    async def verified(self, agent: str) -> JsonDict | BoundaryError:
        """The row's reward and details, or why the row failed."""
        environment: EvalEnvironment = get_environment(f"harbor://{TASKS / about(agent)['runner']}")
        await self.manager.prepare(environment)
        seed = await environment.seed(0)
        seed.sandbox_spec = self.with_runner(seed.sandbox_spec)
        seed.verify_sandbox_spec = self.with_runner(seed.verify_sandbox_spec)
        async with self.manager.session(seed) as session:
            script = (AGENTS / agent / "agent.sh").read_text()
            worked = await session.agent.exec(script, timeout=120)
            assert worked.ok, worked.stderr
            try:
                verdict = await environment.verify_answer("", seed, await session.for_verify())
            except BoundaryError as error:
                return error
            return {"reward": verdict.reward, **verdict.scoring_details}


@pytest.fixture
async def local(runner: Path) -> AsyncIterator[Bench]:
    """Sandboxes of this machine."""
    manager = SandboxManager(LocalSandbox(type="local", memory="512m"), "run")
    yield Bench(manager, runner)
    await manager.close()


@pytest.fixture
async def docker(runner: Path) -> AsyncIterator[Bench]:
    """Containers."""
    manager = SandboxManager(DockerSandbox(type="docker", memory="512m", network="none"), "run")
    yield Bench(manager, runner)
    await manager.close()


@pytest.fixture
async def gvisor(runner: Path) -> AsyncIterator[Bench]:
    """Sandboxes of this machine behind gVisor's kernel."""
    manager = SandboxManager(LocalSandbox(type="local", memory="512m", runtime="runsc"), "run")
    yield Bench(manager, runner)
    await manager.close()


def judge(agent: str, row: JsonDict | BoundaryError) -> None:
    """Compare what an agent got with what it should get."""
    outcome = about(agent)["outcome"]
    if outcome != "refused":
        assert not isinstance(row, BoundaryError), row
        assert row["reward"] == float(outcome), row
    elif isinstance(row, BoundaryError):
        assert isinstance(row, TamperError), row
    else:
        assert row["reward"] <= 0.0, row


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("agent", list(cases("local")))
async def test_in_a_local_sandbox(agent: str, local: Bench) -> None:
    judge(agent, await local.verified(agent))


@pytest.mark.large
@pytest.mark.needs("runsc", "root")
@pytest.mark.parametrize("agent", IN_GVISOR)
async def test_in_gvisor(agent: str, gvisor: Bench) -> None:
    judge(agent, await gvisor.verified(agent))


@pytest.mark.needs("docker")
@pytest.mark.parametrize("agent", list(cases("docker")))
async def test_in_docker(agent: str, docker: Bench) -> None:
    judge(agent, await docker.verified(agent))


def test_there_are_enough_of_every_kind() -> None:
    forgers = [agent for agent in agents() if about(agent)["outcome"] == "refused"]
    assert len(forgers) >= 50
    assert {about(agent)["runner"] for agent in forgers} >= {"pytest", "unittest", "shell", "make"}
