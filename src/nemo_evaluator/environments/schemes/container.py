"""``container://IMAGE#TASK``: an evaluation harness in its own image, which queries the model and scores the answers.

The image runs in the benchmark's sandbox. Its model calls go through our proxy, so budgets, cache and traffic limits
apply.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from nemo_evaluator.core.errors import SolverError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict, SandboxSpec, SeedResult, VerifyResult
from nemo_evaluator.environments.base import (
    BatchJob,
    BatchRow,
    EnvironmentFacts,
    EvalEnvironment,
    WholeRun,
)
from nemo_evaluator.environments.schemes._container_results import HarnessResults, read_results
from nemo_evaluator.sandbox.base import ExecResult, Sandbox

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import ScoreEntry

_VERSION: Final = "1"
_CONFIG: Final = "/config/run_config.yaml"
_RESULTS: Final = "/results"
_KEY: Final = "NEMO_API_KEY"
_PATHS: Final = {
    "chat": "chat/completions",
    "vlm": "chat/completions",
    "completions": "completions",
}
_PREPARE: Final = f'mkdir -p {_RESULTS}; export {_KEY}="$MODEL_API_KEY"'
_HARNESS: Final = """harness=$(command -v nemo-evaluator || command -v eval-factory) ||
  { echo "the image has neither nemo-evaluator nor eval-factory" >&2; exit 127; }"""
_RUN: Final = f'"$harness" run_eval --run_config {_CONFIG}'
# Standard errors on each side of a score in an interval of 95 %.
_Z: Final = 1.96
_TAIL: Final = 15
_TAIL_WIDTH: Final = 500


class ContainerEnvironment(EvalEnvironment):
    """A harness whose single run produces all rows; nel knows the problems only after it.

    Args:
        uri: ``container://IMAGE#TASK``.
        num_examples: Not used here; nel passes ``max_problems`` to the harness.
        **params: The harness's own parameters (``config.params``).
    """

    def __init__(self, uri: str, num_examples: int | None = None, **params: Any) -> None:
        self._image, _, self._task = uri.partition("://")[2].rpartition("#")
        if not self._image or not self._task:
            raise UsageError(f"{uri} names no image and task", hint="write container://IMAGE#TASK")
        self.name = f"container/{safe_name(self._task)}"
        self._params = params
        self._results: HarnessResults | None = None

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """Declare that the harness runs the whole benchmark at once."""
        return EnvironmentFacts(batch=True)

    async def run_first(self, run: WholeRun) -> None:
        """Run the harness, unless an earlier session of the same run has its results.

        Raises:
            SolverError: The container failed or timed out, or its results are incomplete.
            UsageError: The harness repeated problems more often than configured.
        """
        config = self._config(run)
        digest_file = run.folder / "finished"
        results = run.folder / "results"
        run_digest = digest([self._image, config, run.identity])
        if not (run.resume and digest_file.is_file() and digest_file.read_text() == run_digest):
            digest_file.unlink(missing_ok=True)
            shutil.rmtree(results, ignore_errors=True)
            run.folder.mkdir(parents=True, exist_ok=True)
            await self._run(run, config, results)
        harness_results = read_results(results, f"the harness in {self._image}")
        harness_repeats = _repeats_in(harness_results)
        if harness_repeats > run.repeats:
            raise UsageError(
                f"the harness asked {harness_repeats} times",
                hint=f"set repeats: {harness_repeats}, and use --resume",
            )
        self._results = harness_results
        digest_file.write_text(run_digest)

    def repeats_of_rows(self) -> int:
        """Return how often the harness asked each problem, as far as its rows say."""
        return _repeats_in(self._known)

    def reported_score(self) -> ScoreEntry | None:
        """Return the first score as the harness reported it; None if the harness wrote rows."""
        results = self._known
        if results.has_own_rows:
            return None
        name, value = next(iter(results.scores.items()))
        entry: ScoreEntry = {
            "value": value,
            "ci_lower": None,
            "ci_upper": None,
            "ci_method": "none: the harness reported no standard error",
            "n": int(results.counts.get(name, results.samples)),
        }
        stderr = results.stderrs.get(name)
        if stderr is not None:
            entry["ci_lower"] = round(value - _Z * stderr, 4)
            entry["ci_upper"] = round(value + _Z * stderr, 4)
            entry["ci_method"] = "reported by the harness"
        return entry

    async def dataset_size(self) -> int:
        """Return the expected number of problems: missing rows count as not scored."""
        rows = self._known.rows
        problems_in_rows = max((row.problem_idx for row in rows), default=0) + 1
        expected_problems = 1
        if self._known.has_own_rows:
            expected_problems = self._known.samples
        return max(problems_in_rows, expected_problems)

    async def seed(self, idx: int) -> SeedResult:
        """Return a problem of the harness's rows; an empty one if its row is missing."""
        for row in self._known.rows:
            if row.problem_idx == idx:
                return row.seed
        return SeedResult("", "")

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **_: Any
    ) -> VerifyResult:
        """Refuse: only the harness can score its answers.

        Raises:
            SolverError: Always.
        """
        raise SolverError(
            "a harness container judges by itself; its answers cannot be judged again"
        )

    async def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        """Yield the harness's rows for the requested steps."""
        wanted_steps = set(job.steps)
        for row in self._known.rows:
            if (row.problem_idx, row.repeat) in wanted_steps:
                yield row

    def summarize(self, details: Any) -> dict[str, float]:
        """Return the harness's own scores and their sample counts."""
        if self._results is None:
            return {}
        scores = dict(self._results.scores)
        for name, count in self._results.counts.items():
            scores[f"{name}.count"] = count
        for name, stderr in self._results.stderrs.items():
            scores[f"{name}.stderr"] = stderr
        return scores | self._results.run_metrics

    def scorer_fingerprint(self) -> str:
        """Identify the image and the task that score the answers."""
        return digest(["container", _VERSION, self._image, self._task])

    @property
    def _known(self) -> HarnessResults:
        """The results of the harness; UsageError before it has run."""
        if self._results is None:
            raise UsageError(
                f"{self.name} has no problems before it has run", hint="nel eval run runs it"
            )
        return self._results

    def _config(self, run: WholeRun) -> JsonDict:
        """Return the content of ``run_config.yaml`` without the endpoint's URL, which changes with every session."""
        params = dict(self._params)
        if run.max_problems is not None:
            params.setdefault("limit_samples", run.max_problems)
        if run.repeats > 1:
            params["extra"] = {"num_repeats": run.repeats, **params.get("extra", {})}
        default_type = "completions" if run.protocol == "completions" else "chat"
        endpoint_type = run.settings.get("endpoint_type") or default_type
        if endpoint_type not in _PATHS:
            raise UsageError(
                f"endpoint_type {endpoint_type!r} is unknown", hint=f"one of: {', '.join(_PATHS)}"
            )
        target: JsonDict = {
            "model_id": run.model.model,
            "type": endpoint_type,
            "api_key_name": _KEY,
        }
        if run.settings.get("adapter_config"):
            target["adapter_config"] = run.settings["adapter_config"]
        config: JsonDict = {"type": self._task, "output_dir": _RESULTS}
        if params:
            config["params"] = params
        return {"config": config, "target": {"api_endpoint": target}}

    async def _run(self, run: WholeRun, config: JsonDict, results: Path) -> None:
        """Run the harness in a sandbox and download its results."""
        volumes: list[dict[str, Any]] = []
        for host_path, container_path in run.settings["mounts"].items():
            volumes.append({"host_path": host_path, "container_path": container_path})
        spec = SandboxSpec(image=self._image, env=run.settings["env_vars"], volumes=volumes)
        sandbox = await run.sandboxes.acquire(run.sandboxes.resolve(spec), run.endpoints)
        log = run.folder / "container.log"
        try:
            config_text = _config_text(config, sandbox.resolve_outside_endpoint(run.model.url))
            await sandbox.upload(config_text.encode(), _CONFIG)
            (run.folder / "run_config.yaml").write_text(config_text)
            with log.open("wb") as file:
                exec_result = await sandbox.exec(
                    _command(run.settings), run.timeout, on_output=lambda _, data: file.write(data)
                )
            self._check(exec_result, run.timeout, log)
            results.mkdir()
            await sandbox.download(_RESULTS, results)
        finally:
            await run.sandboxes.release(sandbox)

    def _check(self, ended: ExecResult, timeout: float, log: Path) -> None:
        """Raise SolverError, with the end of the log, if the harness failed."""
        if ended.ok:
            return
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        clean_lines = [scrub(line)[-_TAIL_WIDTH:] for line in lines]
        tail = "\n".join(f"  | {line}" for line in clean_lines)
        if not lines:
            tail = "  (it printed nothing)"
        if ended.timed_out:
            hint = "raise the benchmark's timeout, or lower max_problems"
            raise SolverError(
                f"the container {self._image} did not finish within {timeout:g} s:\n{tail}",
                hint=hint,
            )
        if ended.out_of_memory:
            reason = "ran out of memory"
        else:
            reason = f"failed with exit code {ended.return_code}"
        raise SolverError(f"the container {self._image} {reason}:\n{tail}", hint=f"full log: {log}")


def _repeats_in(results: HarnessResults) -> int:
    return max((row.repeat for row in results.rows), default=0) + 1


def _config_text(config: JsonDict, base_url: str) -> str:
    """Write ``run_config.yaml`` with the URL at which the sandbox reaches the proxy."""
    target = config["target"]["api_endpoint"]
    url = f"{base_url.rstrip('/')}/{_PATHS[target['type']]}"
    reachable_config = {**config, "target": {"api_endpoint": {**target, "url": url}}}
    return yaml.safe_dump(reachable_config, sort_keys=False)


def _command(settings: JsonDict) -> str:
    """Write the script: the user's commands run before and after the harness, whose exit code counts."""
    lines = [_PREPARE]
    if settings.get("pre_cmd"):
        lines.append(settings["pre_cmd"])
    if settings.get("post_cmd"):
        lines += [f"trap {shlex.quote(settings['post_cmd'])} EXIT", _HARNESS, _RUN]
    else:
        lines += [_HARNESS, f"exec {_RUN}"]
    return "\n".join(lines)


KIND: Final = Kind(build=ContainerEnvironment)
