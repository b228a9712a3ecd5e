"""Run a task's own tests once, and read the reward that they leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import SandboxError, ScorerError, TamperError
from nemo_evaluator.core.json_coerce import as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.schemes._harbor_task import LOGS, TESTS, HarborTask, expand
from nemo_evaluator.sandbox.base import ExecResult, Sandbox

VERIFIER: Final = f"{LOGS}/verifier"
_OUTPUT: Final = 50_000
_REWARD_BYTES: Final = 65_536
# Files that an agent left there must not count as a verdict. The folders that carried the work look the same in every
# run, so that the work cannot recognize a challenge.
_CLEAR: Final = f"""\
touch /input /output 2>/dev/null
[ ! -L {VERIFIER} ] || rm -f {VERIFIER}
for d in {TESTS} {VERIFIER}; do mkdir -p "$d" && find "$d" -mindepth 1 -delete || exit 1; done"""
# Read only a plain file, and only once: a pipe or a device may never end, and a link may point anywhere.
_READ: Final = f"""\
for name in reward.json reward.txt; do
  path={VERIFIER}/$name
  [ -e "$path" ] || [ -L "$path" ] || continue
  [ ! -L {VERIFIER} ] && [ ! -L "$path" ] && [ -f "$path" ] || {{ echo special; exit 0; }}
  echo "$name"
  exec head -c {_REWARD_BYTES + 1} "$path"
done
echo none"""
# The user's site-packages belong to the verifier only if the image provides them.
_USER_SITE: Final = (
    'for path in "$HOME"/.local/lib/python*/site-packages; do [ ! -d "$path" ] || echo yes; done'
)


class UnusableRewardError(ScorerError):
    """The tests left a reward that the task cannot give."""


@dataclass(slots=True)
class TestRun:
    """The outcome of one run of the tests.

    Attributes:
        reward: The reward; None if the run failed.
        details: Exit code, output and named rewards, for the result row.
        failure: Why there is no reward; None if there is one.
    """

    reward: float | None
    details: JsonDict = field(default_factory=dict)
    failure: Exception | None = None

    __test__ = False

    @property
    def output(self) -> str:
        """The standard output and standard error of the tests."""
        return f"{self.details.get('test_stdout', '')}\n{self.details.get('test_stderr', '')}"


@dataclass(frozen=True, slots=True)
class TaskTests:
    """The tests of a task, ready to run in a sandbox.

    Attributes:
        task: The task.
        host: The variables of this machine that the tests' environment may use.
    """

    __test__ = False

    task: HarborTask
    host: dict[str, str]

    @property
    def user(self) -> str | None:
        """The user that runs the tests; None for the sandbox's default."""
        user = self.task.table("verifier").get("user")
        if user is None:
            return None
        return str(user)

    async def run(self, sandbox: Sandbox, folder: Path, home: str | None = None) -> TestRun:
        """Upload a folder of tests, run them, and read the reward.

        Args:
            sandbox: The sandbox with the work.
            folder: The task's tests, or a copy of them.
            home: The verifier's home directory; None for the sandbox's own.

        Returns:
            The run. A timeout or an unusable reward is its ``failure``.

        Raises:
            SandboxError: The sandbox, not the tests, failed.
        """
        clear_result = await sandbox.exec(_CLEAR, user=self.user)
        if not clear_result.ok:
            raise SandboxError(
                f"cannot prepare the verifier's folders: {clear_result.stderr.strip()[-300:]}"
            )
        await sandbox.upload(folder, TESTS)
        settings = self.task.table("verifier")
        command = f"bash {TESTS}/test.sh"
        if settings.get("setup_script"):
            command = f"bash {settings['setup_script']} && {command}"
        time_limit = self.task.verifier_seconds
        environment = await self._environment(sandbox, home)
        test_result = await sandbox.exec(
            command, time_limit, env=environment, user=self.user, max_output_bytes=_OUTPUT
        )
        details: JsonDict = {"test_exit_code": test_result.exit_code}
        details["test_stdout"] = test_result.stdout[-_OUTPUT:]
        details["test_stderr"] = test_result.stderr[-_OUTPUT:]
        if test_result.timed_out:
            timeout_error = ScorerError(
                f"the tests of {self.task.name} did not end within {time_limit:g} s"
            )
            return TestRun(None, details, timeout_error)
        try:
            rewards = await self._rewards(sandbox, test_result)
        except (ScorerError, TamperError) as error:
            return TestRun(None, details, error)
        if len(rewards) > 1:
            details["rewards"] = rewards
        reward = rewards.get("reward", sum(rewards.values()) / len(rewards))
        return TestRun(reward, details)

    async def _environment(self, sandbox: Sandbox, home: str | None) -> dict[str, str]:
        """Return the environment variables for the tests, besides those of the image."""
        variables = {} if home is None else {"HOME": home}
        user_site_result = await sandbox.exec(_USER_SITE, env=variables, user=self.user)
        if user_site_result.ok and not user_site_result.stdout.strip():
            variables["PYTHONNOUSERSITE"] = "1"
        return variables | expand(self.task.table("verifier").get("env"), self.host, self.task.name)

    async def _rewards(self, sandbox: Sandbox, result: ExecResult) -> dict[str, float]:
        """Read the rewards by name from ``reward.json`` (a number, or several by name), else from ``reward.txt``.

        Raises:
            ScorerError: The tests left no reward.
            TamperError: The reward file is not a plain file.
            UnusableRewardError: The reward is not a finite number in the task's range.
        """
        file_name, content = await self._reward_file(sandbox, result)
        rewards = self._parsed_rewards(file_name, content)
        self._check_range(rewards)
        return rewards

    async def _reward_file(self, sandbox: Sandbox, result: ExecResult) -> tuple[str, str]:
        """Return the name and the content of the reward file.

        Raises:
            ScorerError: The tests left no reward.
            TamperError: The reward file is not a plain file.
            UnusableRewardError: The file is too long.
        """
        name = self.task.name
        read_result = await sandbox.exec(["sh", "-c", _READ], cwd="/")
        file_name, _, content = read_result.stdout.partition("\n")
        if file_name == "special":
            raise TamperError(f"the reward of {name} is not a plain file")
        if file_name not in ("reward.json", "reward.txt"):
            tail = (result.stderr or result.stdout).strip()[-300:]
            raise ScorerError(
                f"the tests of {name} left no reward (exit code {result.exit_code}): {tail}"
            )
        if len(content) > _REWARD_BYTES:
            raise UnusableRewardError(
                f"the tests of {name} wrote a {file_name} of more than {_REWARD_BYTES:,} bytes"
            )
        return file_name, content

    def _parsed_rewards(self, file_name: str, content: str) -> dict[str, float]:
        """Parse the rewards by name; a single number is named ``reward``.

        Raises:
            UnusableRewardError: The file cannot be parsed, or a reward is not a finite number.
        """
        name = self.task.name
        try:
            if file_name == "reward.json":
                value: Any = orjson.loads(content)
            else:
                value = float(content)
        except ValueError as error:
            raise UnusableRewardError(
                f"the tests of {name} wrote a {file_name} that cannot be read: {error}"
            ) from error
        if isinstance(value, dict):
            named_values: dict[Any, Any] = value
        else:
            named_values = {"reward": value}
        rewards = {str(key): as_number(number) for key, number in named_values.items()}
        if not rewards or None in rewards.values():
            raise UnusableRewardError(
                f"the tests of {name} wrote a reward that is not a finite number: {content[:200]}"
            )
        return {key: float(number) for key, number in rewards.items() if number is not None}

    def _check_range(self, rewards: dict[str, float]) -> None:
        """Raise UnusableRewardError for a reward outside the task's range."""
        low, high = self.task.reward_range
        if "reward" in rewards:
            checked_rewards = {"reward": rewards["reward"]}
        else:
            checked_rewards = rewards
        for value in checked_rewards.values():
            if not low <= value <= high:
                hint = "a task with other rewards says so in task.toml: [verifier] reward_range = [low, high]"
                text = f"the tests of {self.task.name} left a reward of {value:g}, which is not in {low:g} to {high:g}"
                raise UnusableRewardError(text, hint=hint)
