"""``inspect://``: an Inspect task from a package (``inspect_evals/gsm8k``) or a file (``tasks.py@name``).

Inspect runs the task itself (solver, tools, sandbox and scorers) in a child process. Its model calls go through our
proxy, and each sample becomes a row when it finishes.
"""

import asyncio
import contextlib
import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import MissingExtraError, ScorerError, SolverError, UsageError
from nemo_evaluator.core.failures import Cause, Failure
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import (
    Failed,
    JsonDict,
    ModelAccess,
    ModelResponse,
    Scored,
    SeedResult,
    SolveResult,
    VerifyResult,
)
from nemo_evaluator.datasets.settings import mirror_dir
from nemo_evaluator.environments.base import (
    BatchJob,
    BatchRow,
    EnvironmentFacts,
    EvalEnvironment,
    RoleAccess,
)
from nemo_evaluator.models import Client
from nemo_evaluator.sandbox.base import Sandbox

_CHILD: Final = (sys.executable, "-m", "nemo_evaluator.environments.schemes._inspect_child")
_SHOWN: Final = 2000
_END_SECONDS: Final = 10
# The cause of an error, by the package that raised it; other errors are the task's own.
_CAUSES: Final = {"openai": Cause.TRANSPORT, "httpx": Cause.TRANSPORT, "docker": Cause.SANDBOX}


class InspectEnvironment(EvalEnvironment):
    """An Inspect task: ``inspect://PACKAGE/TASK`` or ``inspect://FILE.py@TASK``.

    Rows hold the scores of all the task's scorers; Inspect computes the metrics.

    Args:
        uri: The URI of the task.
        num_examples: The number of samples, from the first; None for all.
        args: The task's arguments.
        max_samples: The maximum number of samples that run concurrently.
        roles: The service, or the list of services, that plays each role of the task, such as ``grader``.
        model_roles: Inspect's own name for ``roles``.
        allow_self_judge: Let the model under test play the roles that have no service.

    Raises:
        MissingExtraError: Inspect or its OpenAI client is not installed.
        UsageError: Inspect cannot load the task, or a role of the task has no service.
    """

    def __init__(
        self,
        uri: str,
        num_examples: int | None = None,
        args: dict[str, Any] | None = None,
        max_samples: int = 32,
        roles: dict[str, str | list[str]] | None = None,
        model_roles: dict[str, str | list[str]] | None = None,
        *,
        allow_self_judge: bool = False,
    ) -> None:
        for package in ("inspect_ai", "openai"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(package, extra="inspect")
        self.name = uri
        self._job: JsonDict = {
            "task": uri.partition("://")[2],
            "args": args or {},
            "max_samples": max_samples,
        }
        self._job |= {"mirror": str(mirror_dir() or ""), "generation": {}}
        listing = self._ask({"do": "list"})
        self._dataset = listing["samples"][:num_examples]
        self._epochs: int = listing["epochs"]
        self._least_epochs: int = listing["least_epochs"]
        self._roles = _services_by_role((model_roles or {}) | (roles or {}))
        if not allow_self_judge:
            self._check_roles(listing["roles"])

    def _check_roles(self, names: list[str]) -> None:
        """Raise UsageError if the model under test would play a role of the task, because no service does."""
        for role in names:
            if role not in self._roles:
                raise UsageError(
                    f"{self.name} asks for the role {role!r}: the model under test would play it, "
                    "and so judge its own answers",
                    hint=f"set params.roles: {{{role}: SERVICE}}, or allow_self_judge: true in params",
                )

    @property
    def own_repeats(self) -> int:
        """The epochs of the task."""
        return self._epochs

    @property
    def least_repeats(self) -> int:
        """The fewest epochs that the reducers of the task accept."""
        return self._least_epochs

    @property
    def role_services(self) -> dict[str, list[str]]:
        """The services of the roles."""
        return self._roles

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """Declare that Inspect runs the whole benchmark at once."""
        return EnvironmentFacts(batch=True)

    async def use_model(self, client: Client) -> None:
        """Pass the model's generation settings on to Inspect."""
        self._job["generation"] = client.endpoint.generation

    async def seed(self, idx: int) -> SeedResult:
        """Return a sample as a problem."""
        sample = self._dataset[idx]
        metadata = {"source": "inspect", "id": sample["id"]}
        return SeedResult(
            prompt=sample["input"], expected_answer=sample["target"], metadata=metadata
        )

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **_: Any
    ) -> VerifyResult:
        """Refuse: Inspect scores samples while it runs them.

        Raises:
            ScorerError: Always.
        """
        raise ScorerError(
            f"{self.name} is scored by Inspect while it runs", hint="run it again to score it again"
        )

    async def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        """Run the unfinished samples in the child process, and yield each row when it finishes.

        Raises:
            UsageError: The benchmark has no model.
            SolverError: The child process failed.
        """
        if job.model is None:
            raise UsageError(
                f"{self.name} needs a model", hint="name a service in the benchmark's solver"
            )
        child_request = self._run_request(job, job.model)
        log = job.folder / "inspect.log"
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *_CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, limit=2**28
            )
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(child_request).encode())
            process.stdin.close()
            async for line in process.stdout:
                row = json.loads(line)
                idx = row["problem_idx"]
                repeat = row["repeat"]
                answer, outcome = self._read(row, self._dataset[idx]["id"])
                yield BatchRow(idx, await self.seed(idx), answer, outcome=outcome, repeat=repeat)
            if await process.wait():
                raise SolverError(
                    f"Inspect ended with code {process.returncode}: {_last_line_of(log)}"
                )
        finally:
            await _end(process)

    def _run_request(self, job: BatchJob, model: ModelAccess) -> JsonDict:
        """Return the request to run the unfinished samples of a job."""
        repeats: dict[int, list[int]] = {}
        for step in job.steps:
            repeats.setdefault(step.repeat, []).append(step.problem_idx)
        role_models: dict[str, list[JsonDict]] = {}
        for role, players in job.roles.items():
            role_models[role] = [_player(player) for player in players]
        return {
            **self._job,
            "url": model.url,
            "key": model.api_key.reveal(),
            "model": model.model,
            "do": "run",
            "repeats": repeats,
            "role_models": role_models,
            "log_dir": str(job.folder / "logs"),
        }

    def summarize(self, details: Iterable[JsonDict]) -> Mapping[str, float]:
        """Return the task's metrics over all scored rows, as Inspect computes them."""
        rows = [{"id": detail["id"], "scores": detail["scores"]} for detail in details]
        if not rows:
            return {}
        metrics: JsonDict = self._ask({"do": "metrics", "rows": rows})
        return {name: float(value) for name, value in metrics.items()}

    def scorer_fingerprint(self) -> str:
        """Identify the task, its arguments, and the versions of its code and of Inspect."""
        args = json.dumps(self._job["args"], sort_keys=True)
        task = self._job["task"]
        # The state of the task's code: the content of its file, or the version of its package.
        file = Path(task.partition("@")[0])
        task_state = ""
        with contextlib.suppress(PackageNotFoundError):
            if file.is_file():
                task_state = digest(file.read_text(encoding="utf-8"))
            else:
                task_state = version(task.partition("/")[0])
        return f"inspect {version('inspect_ai')} {self.name} {task_state} {args}"

    def _ask(self, order: JsonDict) -> Any:
        """Send the child process a request that needs no model, and return its reply.

        Raises:
            UsageError: Inspect cannot load the task.
        """
        request_json = json.dumps(self._job | order)
        completed = subprocess.run(
            _CHILD, input=request_json, capture_output=True, text=True, check=False, env=os.environ
        )
        if completed.returncode:
            last_line = completed.stderr.strip().rpartition("\n")[2][:_SHOWN]
            hint = "write inspect://PACKAGE/TASK or inspect://FILE.py@TASK; params.args are the task's arguments"
            raise UsageError(f"Inspect cannot load {self._job['task']!r}: {last_line}", hint=hint)
        return json.loads(completed.stdout)

    def _read(self, row: JsonDict, sample: int | str) -> tuple[SolveResult, Scored | Failed]:
        """Convert a row of the child process to an answer and its outcome."""
        reply = ModelResponse(
            row["response"], finish_reason=row["finish_reason"], latency_ms=row["latency_ms"]
        )
        reply.prompt_tokens = row["usage"]["input_tokens"]
        reply.completion_tokens = row["usage"]["output_tokens"]
        reply.total_tokens = row["usage"]["total_tokens"]
        answer = SolveResult(row["response"], reply)
        if "error" in row:
            return answer, Failed(_failure(row))
        reward = row.get("reward")
        if reward is None or math.isnan(reward):
            return answer, Failed(Failure(Cause.SCORER, "the task gave this sample no score"))
        details = {"id": sample, "scores": row["scores"], "limit": row["limit"]}
        details["scored_by"] = "Inspect"
        if row["role_tokens"]:
            details["role_tokens"] = row["role_tokens"]
        verdict = VerifyResult(reward, row.get("answer"), details)
        return answer, Scored(verdict, Cause.BUDGET if row["limit"] else None)


def _services_by_role(roles: dict[str, str | list[str]]) -> dict[str, list[str]]:
    """Return the services of each role as a list."""
    services_by_role: dict[str, list[str]] = {}
    for role, services in roles.items():
        services_by_role[role] = [services] if isinstance(services, str) else list(services)
    return services_by_role


def _player(player: RoleAccess) -> JsonDict:
    """Return what the child process needs to call the model of a role."""
    return {
        "url": player.model.url,
        "key": player.model.api_key.reveal(),
        "model": player.model.model,
        "generation": player.generation,
    }


def _failure(row: JsonDict) -> Failure:
    """The failure of a sample: the first error in its traceback with a known cause, else its last error."""
    for package, text in row["raised"]:
        if package in _CAUSES:
            return Failure(_CAUSES[package], text)
    return Failure(Cause.SOLVER, row["error"])


def _last_line_of(log: Path) -> str:
    ending = log.read_text(encoding="utf-8", errors="replace").strip()[-_SHOWN:]
    return ending.rpartition("\n")[2]


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the child process if it still runs."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()


KIND: Final = Kind(build=InspectEnvironment)
