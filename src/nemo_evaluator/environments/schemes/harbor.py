"""``harbor://``: Harbor tasks, from a folder (``harbor://./tasks``) or a registered dataset
(``harbor://terminal-bench@2.0``).

After the agent has finished, nel uploads the task's tests and runs them in a separate sandbox, into which it copies the
agent's working directory. If a dataset needs what the agent installed elsewhere, the tests run in the agent's own
sandbox, as Harbor does it (``params: {verify: shared}``, or ``environment_mode = "shared"`` in task.toml).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from nemo_evaluator.core.errors import SandboxError, ScorerError, SeedError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict, SeedResult, VerifyResult
from nemo_evaluator.environments.base import EnvironmentFacts, EvalEnvironment
from nemo_evaluator.environments.registry import harbor_names
from nemo_evaluator.environments.schemes._harbor_registry import fetch, tasks_in
from nemo_evaluator.environments.schemes._harbor_task import (
    INSTRUCTION,
    SOLUTION,
    TESTS,
    HarborTask,
)
from nemo_evaluator.environments.schemes._harbor_tests import VERIFIER, TaskTests
from nemo_evaluator.environments.schemes._harbor_verification import Verification
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox.base import ImageBuildRequest, ImageSpec, Sandbox
from nemo_evaluator.sandbox.steering import SteeringChange

_VERSION: Final = "5"
# Lists the files that an agent left in the verifier's folders before the verifier started.
_TRACES: Final = f"find {TESTS} {VERIFIER} -mindepth 1 2>/dev/null | head -n 20"
_CARRIED: Final = "traces.txt"
# Start with a new file, because an agent could have left a pipe there.
_WRITE_TRACES: Final = f"rm -rf /output/{_CARRIED}\n{_TRACES} > /output/{_CARRIED}"
_FIND_TRACES: Final = f"""\
if [ -d /input ]; then echo a fresh sandbox; cat /input/{_CARRIED} 2>/dev/null
else echo the sandbox of the agent; {_TRACES}; fi"""
TRIPWIRES: Final = {
    rf"(?<![\w./-]){TESTS}\b": "looked for the tests",
    rf"{VERIFIER}\b|\breward\.(txt|json)\b": "looked for the verifier's files",
    rf"(?<![\w./-]){SOLUTION}\b": "looked for the solution",
    r"git\b[^\n;|&]*\b(reflog|fsck|unpack-objects|batch-all-objects)\b|\.git/(objects|logs|packed-refs)"
    r"|git\b[^\n;|&]*\b(log|rev-list|branch|show)\b[^\n;|&]*\s--all\b": "searched the git history",
}
_NETWORK: Final = {
    r"\b(curl|wget|git clone|pip3? install|npm install|apt(-get)? install)\b": "tried to reach a network"
}


def _host_variables(names: Sequence[str]) -> dict[str, str]:
    """Return the variables of this machine that tasks may read, as far as they are set; their values are secrets."""
    variables: dict[str, str] = {}
    for name in names:
        if name in os.environ:
            variables[name] = Secret(os.environ[name]).reveal()
    return variables


class HarborEnvironment(EvalEnvironment):
    """Harbor tasks, each solved by an agent in a sandbox: ``harbor://PATH`` or ``harbor://NAME[@VERSION]``.

    Args:
        uri: The URI of the tasks.
        num_examples: The number of tasks, from the first; None for all.
        tasks: The names of the tasks to run; None for all.
        verify: Run the tests in a ``fresh`` sandbox with the agent's working directory (default), or in the agent's
            own (``shared``).
        scrub_git_history: Remove what repositories in the working directory know of later commits; on unless the
            dataset is about git.
        keep_swebench_multilingual_hints: Keep the hints in the prompts of SWE-bench Multilingual.
        pass_env: The environment variables of this machine that tasks may read. Tasks are third-party code.
        challenge: Verify every success again with failures planted in the tests.

    Raises:
        UsageError: There are no such tasks.
    """

    def __init__(
        self,
        uri: str,
        num_examples: int | None = None,
        tasks: Sequence[str] | None = None,
        verify: Literal["fresh", "shared"] | None = None,
        scrub_git_history: bool | None = None,
        keep_swebench_multilingual_hints: bool = True,
        pass_env: Sequence[str] = (),
        challenge: bool = True,
    ) -> None:
        location = uri.partition("://")[2]
        path = Path(location).expanduser()
        if path.is_dir():
            name = path.resolve().name
            dataset_settings: JsonDict = {}
            available_tasks = tasks_in(path.resolve())
        elif location.startswith((".", "/", "~")):
            hint = "name a folder of tasks, each with instruction.md"
            raise UsageError(f"{uri}: {path} is not a folder", hint=hint)
        else:
            name = location
            dataset_settings = harbor_names().get(location.partition("@")[0], {})
            available_tasks = _registered_tasks(location, dataset_settings, tasks)
        self.name = f"harbor_{safe_name(name)}"
        self._dataset = _chosen_tasks(uri, available_tasks, tasks)[:num_examples]
        verification_mode = verify or dataset_settings.get("verify")
        self._shared = verification_mode == "shared"
        if scrub_git_history is None:
            self._scrub: Any | bool = dataset_settings.get("scrub_git_history", True)
        else:
            self._scrub = scrub_git_history
        self._hints = keep_swebench_multilingual_hints or "multilingual" not in location
        self._challenges = challenge
        # The steering files that known solutions change, by the content hash of their tasks.
        self._allowed: dict[str, dict[str, SteeringChange]] = {}
        self._host = _host_variables(pass_env)

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """Declare that the tasks need a sandbox and images."""
        return EnvironmentFacts(needs=frozenset({"sandbox", "images"}))

    async def seed(self, idx: int) -> SeedResult:
        """Return a task as a problem, with its sandboxes and the commands that carry over the agent's work."""
        task: HarborTask = self._dataset[idx]
        task.check_links()
        prompt = (task.folder / INSTRUCTION).read_text(encoding="utf-8").strip()
        if not self._hints:
            prompt = prompt.partition("\n## Hints")[0].rstrip()
        spec = task.spec(self._host)
        task_wants_shared = task.table("verifier").get("environment_mode") == "shared"
        shared = self._shared or task_wants_shared
        task_metadata = task.table("metadata")
        metadata = task_metadata | {
            "source": "harbor",
            "task_id": task.name,
            "task_hash": task.content_hash,
        }
        metadata["verifier_timeout_sec"] = task.verifier_seconds
        if task.agent_seconds is not None:
            metadata["agent_timeout_sec"] = task.agent_seconds
        scrub_command: str | None = None
        if self._scrub and not task_metadata.get("keep_git_history"):
            scrub_command = workspace.scrub_command(task.workdir)
        tripwires = dict(TRIPWIRES)
        if not spec.network:
            tripwires |= _NETWORK
        return SeedResult(
            prompt=prompt,
            expected_answer="",
            metadata=metadata,
            sandbox_spec=spec,
            verify_sandbox_spec=None if shared else spec,
            pre_agent_cmd=scrub_command,
            capture_cmd=f"{_WRITE_TRACES}\n{workspace.capture_command(task.workdir)}",
            apply_cmd=workspace.apply_command(task.workdir),
            folder=task.folder,
            tripwires=tripwires,
        )

    async def image_build_requests(self) -> list[Any] | None:
        """Return the images to build from Dockerfiles; nel builds each when a task first needs it."""
        tasks_to_build = [task for task in self._dataset if task.is_built]
        specs: list[ImageSpec] = []
        for task in tasks_to_build:
            specs.append(ImageSpec(task.image, {"folder": str(task.folder / "environment")}))
        if specs:
            return [ImageBuildRequest(specs)]
        return None

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **_: Any
    ) -> VerifyResult:
        """Refuse: verification needs the task's folder, which only the seed has.

        Raises:
            ScorerError: Always.
        """
        raise ScorerError("a Harbor task is verified with its folder, which only its seed has")

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """Run the task's tests on the agent's work, read the reward, and check that the work earned it.

        Raises:
            ScorerError: The tests leave no reward that counts.
            TamperError: The work got its reward by other means than passing the tests.
            SandboxError: There is no sandbox.
            SeedError: The task has no tests.
        """
        if sandbox is None:
            raise SandboxError(
                "a Harbor task is verified in a sandbox", hint="give the benchmark a sandbox"
            )
        assert seed.folder is not None
        task = HarborTask(seed.folder)
        if not (task.folder / "tests" / "test.sh").is_file():
            raise SeedError(f"task {task.name} has no tests/test.sh")
        traces_result = await sandbox.exec(_FIND_TRACES)
        sandbox_description, *trace_lines = traces_result.stdout.split("\n")
        verification = Verification(
            TaskTests(task, self._host), sandbox, self._allowed, challenges=self._challenges
        )
        verdict = await verification.run()
        verdict.scoring_details["verified_in"] = sandbox_description
        left_files = [line for line in trace_lines if line]
        if left_files:
            verdict.scoring_details["tripwires"] = {
                "left files in the verifier's folders": "\n".join(left_files)
            }
        return verdict

    def scorer_fingerprint(self) -> str:
        """Identify how tasks are verified; the tests are identified by the task hash in each problem's metadata."""
        sandbox = "shared" if self._shared else "fresh"
        challenge = "" if self._challenges else "-unchallenged"
        return f"harbor-{_VERSION}-{sandbox}{challenge}"


def _registered_tasks(
    location: str, dataset_settings: JsonDict, names: Sequence[str] | None
) -> list[HarborTask]:
    """Return the tasks of a registered dataset.

    Args:
        location: The dataset as named in the URI, ``NAME`` or ``NAME@VERSION``.
        dataset_settings: nel's settings of this dataset; empty for most datasets.
        names: The tasks to fetch; None for those in the settings, else all.
    """
    name, _, version = location.partition("@")
    dataset, _, default_version = str(dataset_settings.get("dataset", name)).partition("@")
    return fetch(
        dataset, version or default_version or None, names or dataset_settings.get("tasks")
    )


def _chosen_tasks(
    uri: str, available_tasks: list[HarborTask], names: Sequence[str] | None
) -> list[HarborTask]:
    """Return the tasks with the given names; without names, all.

    Raises:
        UsageError: There are no tasks, or none with one of the names.
    """
    chosen_tasks = available_tasks
    if names:
        available_names = [task.name for task in available_tasks]
        for name in names:
            if name not in available_names:
                hint = did_you_mean(name, available_names, "") or None
                raise UsageError(f"{uri} has no task {name!r}", hint=hint)
        chosen_tasks = [task for task in available_tasks if task.name in names]
    if not chosen_tasks:
        raise UsageError(f"{uri} has no tasks", hint=f"a task is a folder with {INSTRUCTION}")
    return chosen_tasks


KIND: Final = Kind(build=HarborEnvironment)
