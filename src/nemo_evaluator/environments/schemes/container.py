"""``container://IMAGE#TASK``: an evaluation harness in an image of its own, which asks the model and judges by itself.

The image runs in the benchmark's sandbox; its model calls come through our proxy, so budgets, cache and traffic hold.
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
    """Scores by ``task/metric/score``, how many samples they are over, and the rows where there are any."""

    scores: dict[str, float]
    counts: dict[str, float]
    samples: int
    rows: list[BatchRow]


def read_results(folder: Path) -> HarnessResults:
    """Read a results folder. Raises SolverError, naming the file, when it is missing or cut off."""
    file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if file is None:
        if folder.is_dir():
            found = ", ".join(sorted(path.name for path in folder.iterdir())[:10])
        else:
            found = ""
        raise SolverError(
            f"the container ended well and wrote no results.yml (it wrote: {found or 'nothing'})"
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
    told = (
        document.get("samples"),
        document.get("n_samples"),
        *counts.values(),
        params.get("limit_samples"),
    )
    samples = int(next((number for number in told if isinstance(number, (int, float))), 0))
    rows = [_row(row, number) for number, row in enumerate(_rows(folder))]
    if not rows:
        # A harness that itemises nothing: its first score, as the one row that there is.
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
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    for part in ("tasks", "groups"):
        for task, entry in _table(document.get("results"), part):
            for metric, group in _table(entry, "metrics"):
                for name, score in _table(group, "scores"):
                    value = as_dict(score).get("value")
                    stats = as_dict(as_dict(score).get("stats"))
                    if isinstance(value, (int, float)):
                        scores[f"{task}/{metric}/{name}"] = round(float(value), 4)
                        if isinstance(stats.get("count"), (int, float)):
                            counts[f"{task}/{metric}/{name}"] = float(stats["count"])
        if scores:
            return scores, counts
    flat = {**as_dict(document.get("metrics")), **as_dict(document.get("scores"))}
    return {
        name: round(float(value), 4)
        for name, value in flat.items()
        if isinstance(value, (int, float))
    }, counts


def _table(value: Any, name: str) -> ItemsView[str, Any]:
    return as_dict(as_dict(value).get(name)).items()


def _rows(folder: Path) -> Iterator[JsonDict]:
    for file in sorted(folder.glob(_ROWS)):
        for at, line in enumerate(file.read_bytes().splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise SolverError(f"{file}: line {at} is cut off or no JSON") from error
            if not isinstance(row, dict):
                raise SolverError(f"{file}: line {at} is no JSON object")
            yield row


def _row(row: JsonDict, number: int) -> BatchRow:
    prompt, expected, response, extracted = (
        next((str(row[name]) for name in names if row.get(name) is not None), None)
        for names in (_PROMPTS, _EXPECTED, _ANSWERS, _EXTRACTED)
    )
    taken = {*_PROMPTS, *_ANSWERS, *_EXPECTED, *_EXTRACTED, "problem_idx", "repeat"}
    rest: dict[str, str | int | float] = {}
    for key, value in row.items():
        if key not in taken and isinstance(value, (str, int, float)):
            rest[key] = value
    reward = next(
        (row[key] for key in _REWARDS if isinstance(row.get(key), (bool, int, float))), None
    )
    outcome: Scored | Failed = Failed(
        Failure(Cause.SCORER, f"the harness gave no reward for its row {number}")
    )
    if reward is not None:
        outcome = Scored(VerifyResult(float(reward), extracted, {"method": "container", **rest}))
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
    """One run of the harness gives all rows; they are known only when it has ended. ``params`` are the harness's own
    (``config.params``)."""

    def __init__(self, uri: str, num_examples: int | None = None, **params: Any) -> None:
        self._image, _, self._task = uri.partition("://")[2].rpartition("#")
        if not self._image or not self._task:
            raise UsageError(f"{uri} names no image and task", hint="write container://IMAGE#TASK")
        self.name = f"container/{safe_name(self._task)}"
        self._params = params
        self._results: HarnessResults | None = None

    @classmethod
    def facts(cls) -> EnvironmentFacts:
        return EnvironmentFacts(batch=True)

    async def run_first(self, run: WholeRun) -> None:
        """Run the harness, unless an earlier session of the same run has its results.

        Raises SolverError when the container fails, when it does not end in time, and when its results are cut off.
        """
        config = self._config(run)
        stamp = run.folder / "finished"
        results = run.folder / "results"
        same = digest([self._image, config, run.identity])
        if not (run.resume and stamp.is_file() and stamp.read_text() == same):
            stamp.unlink(missing_ok=True)
            shutil.rmtree(results, ignore_errors=True)
            run.folder.mkdir(parents=True, exist_ok=True)
            await self._run(run, config, results)
        found = read_results(results)
        most = max((row.repeat for row in found.rows), default=0) + 1
        if most > run.repeats:
            raise UsageError(
                f"the harness asked {most} times", hint=f"set repeats: {most}, and use --resume"
            )
        self._results = found
        stamp.write_text(same)

    async def dataset_size(self) -> int:
        """How many problems there should be: rows that are missing count as not scored."""
        rows = self._known.rows
        known = max((row.problem_idx for row in rows), default=0) + 1
        return max(known, self._known.samples if len(rows) > 1 else 1)

    async def seed(self, idx: int) -> SeedResult:
        return next(
            (row.seed for row in self._known.rows if row.problem_idx == idx), SeedResult("", "")
        )

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **_: Any
    ) -> VerifyResult:
        """Nobody else can judge what the harness has judged."""
        raise SolverError(
            "a harness container judges by itself; its answers cannot be judged again"
        )

    async def run_batch(self, job: BatchJob) -> AsyncIterator[BatchRow]:
        wanted = set(job.steps)
        for row in self._known.rows:
            if (row.problem_idx, row.repeat) in wanted:
                yield row

    def summarize(self, details: Any) -> dict[str, float]:
        """The harness's own scores, and over how many samples they are."""
        if self._results is None:
            return {}
        return self._results.scores | {
            f"{name}.count": count for name, count in self._results.counts.items()
        }

    def scorer_fingerprint(self) -> str:
        return digest(["container", _VERSION, self._image, self._task])

    @property
    def _known(self) -> HarnessResults:
        if self._results is None:
            raise UsageError(
                f"{self.name} has no problems before it has run", hint="nel eval run runs it"
            )
        return self._results

    def _config(self, run: WholeRun) -> JsonDict:
        """``run_config.yaml`` without the address, which is new every time."""
        params = dict(self._params)
        if run.max_problems is not None:
            params.setdefault("limit_samples", run.max_problems)
        if run.repeats > 1:
            params["extra"] = {"num_repeats": run.repeats, **params.get("extra", {})}
        kind = run.settings.get("endpoint_type") or (
            "completions" if run.protocol == "completions" else "chat"
        )
        if kind not in _PATHS:
            raise UsageError(
                f"endpoint_type {kind!r} is unknown", hint=f"one of: {', '.join(_PATHS)}"
            )
        target: JsonDict = {"model_id": run.model.model, "type": kind, "api_key_name": _KEY}
        if run.settings.get("adapter_config"):
            target["adapter_config"] = run.settings["adapter_config"]
        config: JsonDict = {"type": self._task, "output_dir": _RESULTS} | (
            {"params": params} if params else {}
        )
        return {"config": config, "target": {"api_endpoint": target}}

    async def _run(self, run: WholeRun, config: JsonDict, results: Path) -> None:
        volumes: list[dict[str, Any]] = []
        for host, inside in run.settings["mounts"].items():
            volumes.append({"host_path": host, "container_path": inside})
        spec = SandboxSpec(image=self._image, env=run.settings["env_vars"], volumes=volumes)
        sandbox = await run.sandboxes.acquire(run.sandboxes.resolve(spec), run.endpoints)
        log = run.folder / "container.log"
        try:
            target = config["target"]["api_endpoint"]
            url = sandbox.resolve_outside_endpoint(run.model.url).rstrip("/")
            reached = {**target, "url": f"{url}/{_PATHS[target['type']]}"}
            text = yaml.safe_dump({**config, "target": {"api_endpoint": reached}}, sort_keys=False)
            await sandbox.upload(text.encode(), _CONFIG)
            (run.folder / "run_config.yaml").write_text(text)
            # The harness, with the user's shell before and after it; the exit code is that of the harness.
            before = run.settings.get("pre_cmd")
            after = run.settings.get("post_cmd")
            lines = [
                _PREPARE,
                before,
                f"trap {shlex.quote(after)} EXIT" if after else None,
                _HARNESS,
            ]
            command = "\n".join([*filter(None, lines), _RUN if after else f"exec {_RUN}"])
            with log.open("wb") as file:
                ended = await sandbox.exec(
                    command, run.timeout, on_output=lambda _, data: file.write(data)
                )
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
            raise SolverError(
                f"the container {self._image} did not finish within {timeout:g} s:\n{tail}",
                hint=hint,
            )
        if ended.out_of_memory:
            why = "ran out of memory"
        else:
            why = f"failed with exit code {ended.return_code}"
        raise SolverError(f"the container {self._image} {why}:\n{tail}", hint=f"full log: {log}")


KIND: Final = Kind(build=ContainerEnvironment)
