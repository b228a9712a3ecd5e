"""Score the stored answers of a finished run again, with other scorers or judges; the model is never asked."""

import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.errors import NelError, TransportError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, SeedResult, SolveResult
from nemo_evaluator.decisions.check.runs import settle_status
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import Evaluation, fingerprints_of
from nemo_evaluator.engine.progress import Progress, SilentProgress
from nemo_evaluator.reports import write_reports
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.sessions import sessions
from nemo_evaluator.services import start_services
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.build import Builder
from nemo_evaluator.suite.clients import not_started
from nemo_evaluator.suite.run import BenchmarkResult, Say, SuiteResult, use_datasets

_SETTINGS: Final = ("service", "solver", "template")


@dataclass(slots=True)
class RescoreOptions:
    """Whose answers, and where the new verdicts go."""

    source: Path
    output_dir: Path
    run_id: str
    source_run_id: str = ""
    progress: Progress = field(default_factory=SilentProgress)
    say: Say = print


async def rescore(config: EvalConfig, options: RescoreOptions) -> SuiteResult:
    """Verify every stored answer anew where its scorer's fingerprint differs; one new bundle a benchmark.

    Raises UsageError when the config asks the model something else than the run did: such answers are not there.
    """
    use_datasets(config.datasets)
    journals = _journals(config, options)
    result = SuiteResult(strict_export=False)
    metrics = [metric for bench in config.benchmarks for metric in bench.scoring.metrics]
    needed = config.only(name for metric in metrics for name in metric.asked())
    async with start_services(needed, options.output_dir, say=options.say) as running:
        idle = {name: not_started(name, service) for name, service in config.services.items()}
        builder = Builder(config, {**idle, **running}, options.run_id)
        for key in builder.keys:
            result.benchmarks.append(await _rescore_one(key, journals[key], builder, options))
    if any(one.bundle is not None for one in result.benchmarks):
        result.reports = write_reports(options.output_dir, config.output.report)
    return result


async def _rescore_one(key: str, journal: Path, builder: Builder, options: RescoreOptions) -> BenchmarkResult:
    result = BenchmarkResult(key)
    try:
        async with AsyncExitStack() as stack:
            job = await builder.build(key, options.output_dir, stack, resume=True, shard=None)
            result.task_dir = job.task_dir
            _same_question(job, key, journal)
            # A copy: the old run stays as it is.
            job.task_dir.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(journal, TaskPaths(job.task_dir).journal)
            if (work := TaskPaths(journal.parent).workspaces).is_dir():
                shutil.copytree(work, TaskPaths(job.task_dir).workspaces, dirs_exist_ok=True)
            job.solver, job.progress, job.stop_rule, job.say = _Silent(), options.progress, None, options.say
            job.stopped_before = _rule_of(options.source / safe_name(key))
            job.config["rescored_from"] = _origin(options, key)
            finished = await evaluate(job)
        result.bundle = settle_status(finished.task, finished.bundle, finished.written)
        result.stopped = finished.halt.kind
    except NelError as error:
        result.error = error
        options.say(f"{key}: failed: {error.message}" + (f"\n  fix: {error.hint}" if error.hint else ""))
    return result


class _Silent:
    """Stands where the model would be asked."""

    async def solve(self, task: SeedResult) -> SolveResult:
        """There is no stored answer to this problem as it is asked now, and rescoring asks nobody."""
        raise TransportError("no stored answer fits this problem, and rescoring does not ask the model", attempts=1000)


def _journals(config: EvalConfig, options: RescoreOptions) -> dict[str, Path]:
    """The stored answers of every benchmark. Raises UsageError when some are not there, or would be written over."""
    journals = {bench.key: TaskPaths(options.source / safe_name(bench.key)).journal for bench in config.benchmarks}
    absent = [key for key, journal in journals.items() if not journal.is_file()]
    if absent:
        hint = "rescore takes the folder of a run, and only benchmarks that it ran"
        raise UsageError(f"{options.source} has no answers of {', '.join(absent)}", hint=hint)
    for key in journals:
        if TaskPaths(options.output_dir / safe_name(key)).journal.exists():
            raise UsageError(f"{options.output_dir} holds a run already", hint="give another --output-dir")
    return journals


def _same_question(job: Evaluation, key: str, journal: Path) -> None:
    """Refuse a config that would ask something else: its answers would not be those that are stored."""
    begun = sessions(journal)
    old = as_dict(begun[-1].get("fingerprints")) if begun else {}
    new = fingerprints_of(job).parts
    changed = [part for part in _SETTINGS if old.get(part) != new[part]]
    if changed:
        why = f"the config differs from the run in its {' and '.join(changed)}, so the stored answers do not fit"
        hint = "rescore changes only `scoring:`; use `nel eval run --resume` to ask anew"
        raise UsageError(f"{key}: {why}", hint=hint)


def _rule_of(task_dir: Path) -> JsonDict | None:
    """The stop rule of the run, without what it said of the scores of that time: what it left out stays out."""
    bundle = newest_bundle(task_dir)
    stopped = bundle.stopped if bundle else {}
    if "rule" not in stopped:
        return None
    rule = {key: value for key, value in stopped["rule"].items() if key not in ("score", "difference", "decision")}
    return dict(stopped) | {"rule": rule} if stopped.get("kind") in (None, HaltKind.RULE) else {"rule": rule}


def _origin(options: RescoreOptions, key: str) -> JsonDict:
    bundle = newest_bundle(options.source / safe_name(key))
    named = bundle.path.name if bundle else None
    return {"run_id": options.source_run_id, "output_dir": str(options.source), "bundle": named}
