"""``container://IMAGE#TASK``: an evaluation harness in its own image, which queries the model and scores the answers.

The image runs in the benchmark's sandbox. Its model calls go through our proxy, so budgets, cache and traffic limits
apply.
"""

import shlex
import shutil
from collections.abc import AsyncIterator, ItemsView, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import SolverError, UsageError
from nemo_evaluator.core.failures import Cause, Failure
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import (
    Failed,
    JsonDict,
    SandboxSpec,
    Scored,
    SeedResult,
    SolveResult,
    VerifyResult,
)
from nemo_evaluator.environments.base import (
    BatchJob,
    BatchRow,
    EnvironmentFacts,
    EvalEnvironment,
    WholeRun,
)
from nemo_evaluator.sandbox.base import ExecResult, Sandbox

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
_TAIL: Final = 15
_FILES: Final = ("results.yml", "results.yaml", "results.json")
_ROWS: Final = "eval-results/**/output*.jsonl"
_REWARDS: Final = (
    "reward",
    "score",
    "symbolic_correct",
    "correct",
    "is_correct",
    "passed",
    "success",
)
_PROMPTS: Final = ("problem", "question", "input", "prompt")
_ANSWERS: Final = ("generation", "response", "output")
_EXPECTED: Final = ("expected_answer", "answer")
_EXTRACTED: Final = ("extracted_answer", "predicted_answer")


@dataclass(slots=True)
class HarnessResults:
    """The results of a harness.

    Attributes:
        scores: The scores by ``task/metric/score``.
        counts: The number of samples of each score, if reported.
        samples: The number of samples of the whole run.
        rows: The rows; a single one with the first score if the harness wrote none.
    """

    scores: dict[str, float]
    counts: dict[str, float]
    samples: int
    rows: list[BatchRow]


def read_results(folder: Path) -> HarnessResults:
    """Read a results folder.

    Raises:
        SolverError: A file is missing or incomplete; the message names it.
    """
    file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if file is None:
        if folder.is_dir():
            file_list = ", ".join(sorted(path.name for path in folder.iterdir())[:10])
        else:
            file_list = ""
        raise SolverError(
            f"the container ended well and wrote no results.yml (it wrote: {file_list or 'nothing'})"
        )
    try:
        document = load_yaml(file.read_bytes())
    except yaml.YAMLError as error:
        raise SolverError(f"{file} is cut off or no YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(document, dict):
        raise SolverError(f"{file} is cut off: it holds no results")
    scores, counts = _scores(document)
    if not scores:
        raise SolverError(
            f"{file} is cut off or holds no scores (results.tasks.TASK.metrics.METRIC.scores)"
        )
    params = as_dict(as_dict(document.get("config")).get("params"))
    reported_samples = (
        document.get("samples"),
        document.get("n_samples"),
        *counts.values(),
        params.get("limit_samples"),
    )
    samples = int(
        next((number for number in reported_samples if isinstance(number, (int, float))), 0)
    )
    rows = [_row(row, number) for number, row in enumerate(_rows(folder))]
    if not rows:
        # The harness wrote no rows: use its first score as the only row.
        name, value = next(iter(scores.items()))
        details = {
            "method": "container",
            "score": name,
            "samples": samples,
            "note": "the harness gave no single rows",
        }
        rows = [
            BatchRow(
                0,
                SeedResult(name, ""),
                SolveResult(""),
                outcome=Scored(VerifyResult(value, None, details)),
            )
        ]
    return HarnessResults(scores, counts, samples, rows=rows)


def _scores(document: JsonDict) -> tuple[dict[str, float], dict[str, float]]:
    """Return the scores of a results document and their sample counts, by ``task/metric/score``."""
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    for section in ("tasks", "groups"):
        for task, entry in _table(document.get("results"), section):
            for metric, group in _table(entry, "metrics"):
                for name, score in _table(group, "scores"):
                    value = as_dict(score).get("value")
                    score_stats = as_dict(as_dict(score).get("stats"))
                    if isinstance(value, (int, float)):
                        scores[f"{task}/{metric}/{name}"] = round(float(value), 4)
                        if isinstance(score_stats.get("count"), (int, float)):
                            counts[f"{task}/{metric}/{name}"] = float(score_stats["count"])
        if scores:
            return scores, counts
    flat = {**as_dict(document.get("metrics")), **as_dict(document.get("scores"))}
    return {
        name: round(float(value), 4)
        for name, value in flat.items()
        if isinstance(value, (int, float))
    }, counts


def _table(value: Any, name: str) -> ItemsView[str, Any]:
    """Return the items of a nested table; none if it is not there."""
    return as_dict(as_dict(value).get(name)).items()


def _rows(folder: Path) -> Iterator[JsonDict]:
    """Yield the rows of the harness's output files.

    Raises:
        SolverError: A line is not a JSON object.
    """
    for file in sorted(folder.glob(_ROWS)):
        for line_number, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise SolverError(f"{file}: line {line_number} is cut off or no JSON") from error
            if not isinstance(row, dict):
                raise SolverError(f"{file}: line {line_number} is no JSON object")
            yield row


def _row(row: JsonDict, number: int) -> BatchRow:
    """Convert a row of the harness; without a reward, the row failed."""
    prompt, expected, response, extracted = (
        next((str(row[name]) for name in names if row.get(name) is not None), None)
        for names in (_PROMPTS, _EXPECTED, _ANSWERS, _EXTRACTED)
    )
    used_columns = {*_PROMPTS, *_ANSWERS, *_EXPECTED, *_EXTRACTED, "problem_idx", "repeat"}
    other_values: dict[str, str | int | float] = {}
    for key, value in row.items():
        if key not in used_columns and isinstance(value, (str, int, float)):
            other_values[key] = value
    reward = next(
        (row[key] for key in _REWARDS if isinstance(row.get(key), (bool, int, float))), None
    )
    outcome: Scored | Failed = Failed(
        Failure(Cause.SCORER, f"the harness gave no reward for its row {number}")
    )
    if reward is not None:
        outcome = Scored(
            VerifyResult(float(reward), extracted, {"method": "container", **other_values})
        )
    seed = SeedResult(prompt or "", expected or "")
    answer = SolveResult(response or "")
    return BatchRow(
        int(row.get("problem_idx", number)),
        seed,
        answer,
        outcome=outcome,
        repeat=int(row.get("repeat", 0)),
    )


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
        harness_results = read_results(results)
        harness_repeats = max((row.repeat for row in harness_results.rows), default=0) + 1
        if harness_repeats > run.repeats:
            raise UsageError(
                f"the harness asked {harness_repeats} times",
                hint=f"set repeats: {harness_repeats}, and use --resume",
            )
        self._results = harness_results
        digest_file.write_text(run_digest)

    async def dataset_size(self) -> int:
        """Return the expected number of problems: missing rows count as not scored."""
        rows = self._known.rows
        problems_in_rows = max((row.problem_idx for row in rows), default=0) + 1
        return max(problems_in_rows, self._known.samples if len(rows) > 1 else 1)

    async def seed(self, idx: int) -> SeedResult:
        """Return a problem of the harness's rows; an empty one if its row is missing."""
        return next(
            (row.seed for row in self._known.rows if row.problem_idx == idx), SeedResult("", "")
        )

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
        return self._results.scores | {
            f"{name}.count": count for name, count in self._results.counts.items()
        }

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
        endpoint_type = run.settings.get("endpoint_type") or (
            "completions" if run.protocol == "completions" else "chat"
        )
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
        config: JsonDict = {"type": self._task, "output_dir": _RESULTS} | (
            {"params": params} if params else {}
        )
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
            target = config["target"]["api_endpoint"]
            url = sandbox.resolve_outside_endpoint(run.model.url).rstrip("/")
            reachable_endpoint = {**target, "url": f"{url}/{_PATHS[target['type']]}"}
            config_text = yaml.safe_dump(
                {**config, "target": {"api_endpoint": reachable_endpoint}}, sort_keys=False
            )
            await sandbox.upload(config_text.encode(), _CONFIG)
            (run.folder / "run_config.yaml").write_text(config_text)
            # The user's commands run before and after the harness; the exit code is the harness's.
            pre_command = run.settings.get("pre_cmd")
            post_command = run.settings.get("post_cmd")
            script_parts = [
                _PREPARE,
                pre_command,
                f"trap {shlex.quote(post_command)} EXIT" if post_command else None,
                _HARNESS,
            ]
            command = "\n".join(
                [*filter(None, script_parts), _RUN if post_command else f"exec {_RUN}"]
            )
            with log.open("wb") as file:
                exec_result = await sandbox.exec(
                    command, run.timeout, on_output=lambda _, data: file.write(data)
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
        tail = "\n".join(f"  | {scrub(line)[-500:]}" for line in lines) or "  (it said nothing)"
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


KIND: Final = Kind(build=ContainerEnvironment)
