"""``harbor://``: tasks of Harbor, from a folder (``harbor://./tasks``) or a dataset of its registry
(``harbor://terminal-bench@2.0``).

A task's tests are uploaded when the agent is done, and run in a sandbox of their own into which the agent's working
directory is carried; where a dataset needs what the agent installed elsewhere, they run in the agent's own sandbox, as
Harbor does it (``params: {verify: shared}``, or ``environment_mode = "shared"`` in task.toml).
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

_VERSION: Final = "3"
# What an agent leaves in the verifier's places before there is a verifier.
_TRACES: Final = f"find {TESTS} {VERIFIER} -mindepth 1 2>/dev/null | head -n 20"
_CARRIED: Final = "traces.txt"
# First a new file: an agent could have left a pipe there.
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


class HarborEnvironment(EvalEnvironment):
    """Tasks that an agent works on in a sandbox, and their own tests: ``harbor://PATH`` or ``harbor://NAME[@VERSION]``.

    ``tasks`` keeps the named ones. ``verify`` says where the tests run: in a ``fresh`` sandbox with the working
    directory carried over (default), or in the agent's own (``shared``). ``scrub_git_history`` removes what a
    repository knows of its own future (default: on, unless the dataset is about git). ``pass_env`` names the variables
    of this machine that tasks may be given: they come from others, and ask for what they like. ``challenge`` verifies
    every success once more with failures planted in the tests.
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
        place = uri.partition("://")[2]
        path = Path(place).expanduser()
        named: JsonDict = {}
        if path.is_dir():
            found = tasks_in(path.resolve())
        else:
            name, _, version = place.partition("@")
            if place.startswith((".", "/", "~")):
                hint = "name a folder of tasks, each with instruction.md"
                raise UsageError(f"{uri}: {path} is not a folder", hint=hint)
            named = harbor_names().get(name, {})
            dataset, _, pinned = str(named.get("dataset", name)).partition("@")
            found = fetch(dataset, version or pinned or None, tasks or named.get("tasks"))
        if tasks:
            have = [task.name for task in found]
            for absent in [name for name in tasks if name not in have]:
                raise UsageError(
                    f"{uri} has no task {absent!r}", hint=did_you_mean(absent, have, "") or None
                )
            found = [task for task in found if task.name in tasks]
        if not found:
            raise UsageError(f"{uri} has no tasks", hint=f"a task is a folder with {INSTRUCTION}")
        self.name = f"harbor_{safe_name(path.resolve().name if path.is_dir() else place)}"
        self._dataset = found[:num_examples]
        self._shared = (verify or named.get("verify")) == "shared"
        if scrub_git_history is None:
            self._scrub: Any | bool = named.get("scrub_git_history", True)
        else:
            self._scrub = scrub_git_history
        self._hints = keep_swebench_multilingual_hints or "multilingual" not in place
        self._challenges = challenge
        # The steering files that known solutions change, by the content of their tasks.
        self._allowed: dict[str, dict[str, SteeringChange]] = {}
        self._host = {
            name: Secret(os.environ[name]).reveal() for name in pass_env if name in os.environ
        }

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        return EnvironmentFacts(needs=frozenset({"sandbox", "images"}))

    async def seed(self, idx: int) -> SeedResult:
        task: HarborTask = self._dataset[idx]
        prompt = (task.folder / INSTRUCTION).read_text(encoding="utf-8").strip()
        if not self._hints:
            prompt = prompt.partition("\n## Hints")[0].rstrip()
        spec = task.spec(self._host)
        shared = self._shared or task.table("verifier").get("environment_mode") == "shared"
        about = task.table("metadata")
        metadata = about | {
            "source": "harbor",
            "task_id": task.name,
            "task_hash": task.content_hash,
        }
        metadata["verifier_timeout_sec"] = task.verifier_seconds
        if task.agent_seconds is not None:
            metadata["agent_timeout_sec"] = task.agent_seconds
        scrub = self._scrub and not about.get("keep_git_history")
        return SeedResult(
            prompt=prompt,
            expected_answer="",
            metadata=metadata,
            sandbox_spec=spec,
            verify_sandbox_spec=None if shared else spec,
            pre_agent_cmd=workspace.scrub_command(task.workdir) if scrub else None,
            capture_cmd=f"{_WRITE_TRACES}\n{workspace.capture_command(task.workdir)}",
            apply_cmd=workspace.apply_command(task.workdir),
            folder=task.folder,
            tripwires=TRIPWIRES | ({} if spec.network else _NETWORK),
        )

    async def image_build_requests(self) -> list[Any] | None:
        """Dockerfiles, to be built when a task is the first to need one."""
        built = [task for task in self._dataset if task.is_built]
        specs: list[ImageSpec] = []
        for task in built:
            specs.append(ImageSpec(task.image, {"folder": str(task.folder / "environment")}))
        if specs:
            return [ImageBuildRequest(specs)]
        return None

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **_: Any
    ) -> VerifyResult:
        raise ScorerError("a Harbor task is verified with its folder, which only its seed has")

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """Upload the tests, run them, read the reward they leave, and make sure that it was earned.

        Raises:
            ScorerError: when the tests leave no reward that counts.
            TamperError: when the work got its reward otherwise than by passing the tests.
        """
        if sandbox is None:
            raise SandboxError(
                "a Harbor task is verified in a sandbox", hint="give the benchmark a sandbox"
            )
        assert seed.folder is not None
        task = HarborTask(seed.folder)
        if not (task.folder / "tests" / "test.sh").is_file():
            raise SeedError(f"task {task.name} has no tests/test.sh")
        traces = await sandbox.exec(_FIND_TRACES)
        place, *left = traces.stdout.split("\n")
        verification = Verification(
            TaskTests(task, self._host), sandbox, self._allowed, challenges=self._challenges
        )
        verdict = await verification.run()
        verdict.scoring_details["verified_in"] = place
        left_files = [line for line in left if line]
        if left_files:
            verdict.scoring_details["tripwires"] = {
                "left files in the verifier's folders": "\n".join(left_files)
            }
        return verdict

    def scorer_fingerprint(self) -> str:
        """The tests themselves are in the metadata of each problem, by their hash."""
        challenge = "" if self._challenges else "-unchallenged"
        return f"harbor-{_VERSION}-{'shared' if self._shared else 'fresh'}{challenge}"


KIND: Final = Kind(build=HarborEnvironment)
