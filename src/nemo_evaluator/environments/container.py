"""``container://IMAGE#TASK``: an evaluation harness in an image of its own, which asks the model and judges by itself.

The image runs in the benchmark's sandbox; its model calls come through our proxy, so budgets, cache and traffic hold.
"""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import yaml

from nemo_evaluator.core.errors import SolverError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict, SandboxSpec, SeedResult, VerifyResult
from nemo_evaluator.environments._harness_results import HarnessResults, read_results
from nemo_evaluator.environments.base import BatchJob, BatchRow, EnvironmentFacts, EvalEnvironment, WholeRun
from nemo_evaluator.sandbox.base import ExecResult, Sandbox

_VERSION: Final = "1"
_CONFIG: Final = "/config/run_config.yaml"
_RESULTS: Final = "/results"
_KEY: Final = "NEMO_API_KEY"
_PATHS: Final = {"chat": "chat/completions", "vlm": "chat/completions", "completions": "completions"}
_COMMAND: Final = f"""mkdir -p {_RESULTS}; export {_KEY}="$MODEL_API_KEY"
harness=$(command -v nemo-evaluator || command -v eval-factory) ||
  {{ echo "the image has neither nemo-evaluator nor eval-factory" >&2; exit 127; }}
exec "$harness" run_eval --run_config {_CONFIG}"""
_TAIL: Final = 15


def open_container(uri: str, num_examples: int | None = None, **params: Any) -> EvalEnvironment:
    """The environment of a ``container://`` URI; ``params`` are the harness's own (``config.params``)."""
    image, _, task = uri.partition("://")[2].rpartition("#")
    if not image or not task:
        raise UsageError(f"{uri} names no image and task", hint="write container://IMAGE#TASK")
    return ContainerEnvironment(image, task, params)


class ContainerEnvironment(EvalEnvironment):
    """One run of the harness gives all rows; they are known only when it has ended."""

    def __init__(self, image: str, task: str, params: JsonDict) -> None:
        self.name, self._image, self._task, self._params = f"container/{safe_name(task)}", image, task, params
        self._results: HarnessResults | None = None

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        """It runs itself."""
        return EnvironmentFacts(batch=True)

    async def run_first(self, run: WholeRun) -> None:
        """Run the harness, unless an earlier session of the same run has its results.

        Raises SolverError when the container fails, when it does not end in time, and when its results are cut off.
        """
        config = self._config(run)
        stamp, results = run.folder / "finished", run.folder / "results"
        same = digest([self._image, config, run.identity])
        if not (run.resume and stamp.is_file() and stamp.read_text() == same):
            stamp.unlink(missing_ok=True)
            shutil.rmtree(results, ignore_errors=True)
            run.folder.mkdir(parents=True, exist_ok=True)
            await self._run(run, config, results)
            self._results = self._read(results, run.repeats)
            stamp.write_text(same)
            return
        self._results = self._read(results, run.repeats)

    async def dataset_size(self) -> int:
        """As many as the harness has asked."""
        return self._known.problems

    async def seed(self, idx: int) -> SeedResult:
        """A problem, as the harness's rows tell it."""
        return next((row.seed for row in self._known.rows if row.problem_idx == idx), SeedResult("", ""))

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Nobody else can judge what the harness has judged."""
        raise SolverError("a harness container judges by itself; its answers cannot be judged again")

    async def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        """The rows that are wanted."""
        wanted = set(job.steps)
        for row in self._known.rows:
            if (row.problem_idx, row.repeat) in wanted:
                yield row

    def summarize(self, details: Any) -> dict[str, float]:
        """The harness's own scores, and over how many samples they are."""
        if self._results is None:
            return {}
        return self._results.scores | {f"{name}.count": count for name, count in self._results.counts.items()}

    def scorer_fingerprint(self) -> str:
        """The image and its task."""
        return digest(["container", _VERSION, self._image, self._task])

    @property
    def _known(self) -> HarnessResults:
        if self._results is None:
            raise UsageError(f"{self.name} has no problems before it has run", hint="nel eval run runs it")
        return self._results

    def _config(self, run: WholeRun) -> JsonDict:
        """``run_config.yaml`` without the address, which is new every time."""
        params = dict(self._params)
        if run.max_problems is not None:
            params.setdefault("limit_samples", run.max_problems)
        if run.repeats > 1:
            params["extra"] = {"num_repeats": run.repeats, **params.get("extra", {})}
        kind = run.settings.get("endpoint_type") or ("completions" if run.protocol == "completions" else "chat")
        if kind not in _PATHS:
            raise UsageError(f"endpoint_type {kind!r} is unknown", hint=f"one of: {', '.join(_PATHS)}")
        target: JsonDict = {"model_id": run.model.model, "type": kind, "api_key_name": _KEY}
        if run.settings.get("adapter_config"):
            target["adapter_config"] = run.settings["adapter_config"]
        config: JsonDict = {"type": self._task, "output_dir": _RESULTS} | ({"params": params} if params else {})
        return {"config": config, "target": {"api_endpoint": target}}

    async def _run(self, run: WholeRun, config: JsonDict, results: Path) -> None:
        volumes = [{"host_path": host, "container_path": inside} for host, inside in run.settings["mounts"].items()]
        sandbox = await run.sandboxes.acquire(
            run.sandboxes.resolve(SandboxSpec(image=self._image, env=run.settings["env_vars"], volumes=volumes)),
            run.endpoints,
        )
        log = run.folder / "container.log"
        try:
            target = config["target"]["api_endpoint"]
            url = sandbox.resolve_outside_endpoint(run.model.url).rstrip("/")
            whole = {**config, "target": {"api_endpoint": {**target, "url": f"{url}/{_PATHS[target['type']]}"}}}
            await sandbox.upload(yaml.safe_dump(whole, sort_keys=False).encode(), _CONFIG)
            (run.folder / "run_config.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
            with log.open("wb") as file:
                ended = await sandbox.exec(_COMMAND, run.timeout, on_output=lambda _, data: file.write(data))
            self._check(ended, run.timeout, log)
            results.mkdir()
            await sandbox.download(_RESULTS, results)
        finally:
            await run.sandboxes.release(sandbox)

    def _check(self, ended: ExecResult, timeout: float, log: Path) -> None:
        if ended.ok:
            return
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        tail = "\n".join(f"  | {scrub(line)[-500:]}" for line in lines) or "  (it said nothing)"
        if ended.timed_out:
            hint = "raise the benchmark's timeout, or lower max_problems"
            raise SolverError(f"the container {self._image} did not finish within {timeout:g} s:\n{tail}", hint=hint)
        why = "ran out of memory" if ended.out_of_memory else f"failed with exit code {ended.return_code}"
        raise SolverError(f"the container {self._image} {why}:\n{tail}", hint=f"full log: {log}")

    def _read(self, results: Path, repeats: int) -> HarnessResults:
        found = read_results(results)
        most = max((row.repeat for row in found.rows), default=0) + 1
        if most > repeats:
            raise UsageError(f"the harness asked {most} times", hint=f"set repeats: {most}, and use --resume")
        return found


KIND: Final = Kind(build=open_container)
