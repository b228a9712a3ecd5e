"""Scores the stored answers of a finished run again with other scorers or judges, without calling the model."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from nemo_evaluator.config import EvalConfig
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, SeedResult, SolveResult
from nemo_evaluator.datasets.settings import use_datasets
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.job import Evaluation, fingerprints_of
from nemo_evaluator.reports import write_reports
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.runs.sessions import sessions
from nemo_evaluator.services import RunningService, start_services
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.suite.build import Builder
from nemo_evaluator.suite.clients import not_started
from nemo_evaluator.suite.interrupts import Interrupts
from nemo_evaluator.suite.results import SuiteOptions, SuiteResult
from nemo_evaluator.suite.run import failed_line, run_one

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import StoppedEntry

_SETTINGS: Final = ("service", "solver", "template")


async def rescore(
    config: EvalConfig, options: SuiteOptions, source: Path, source_run_id: str = ""
) -> SuiteResult:
    """Score the answers of a run whose scorer's fingerprint differs, and write one new bundle per benchmark.

    Args:
        config: The config with the new scorers.
        options: How to run it, and the new output folder.
        source: The folder of the finished run.
        source_run_id: Its id.

    Raises:
        UsageError: If the config would send the model other requests than the run did.
    """
    use_datasets(config.datasets)
    journals = _journals(config, source, options.output_dir)
    result = SuiteResult()
    interrupts = Interrupts(options.say)
    scoring_config = config.only(_scoring_services(config))
    async with start_services(scoring_config, options.output_dir, say=options.say) as running:
        # The services of the solvers are described, but not started.
        services: dict[str, RunningService] = {}
        for name, service in config.services.items():
            services[name] = running.get(name) or not_started(name, service)
        builder = Builder(config, services, options.run_id)
        for key, journal in journals.items():
            prepare = partial(
                _take_answers, journal=journal, source=source, source_run_id=source_run_id
            )
            benchmark = await run_one(
                key,
                builder,
                options,
                interrupts=interrupts,
                progress=options.progress(),
                prepare=prepare,
            )
            if benchmark.error is not None:
                options.say(failed_line(key, benchmark.error))
            result.benchmarks.append(benchmark)
    if any(benchmark.bundle is not None for benchmark in result.benchmarks):
        result.reports = write_reports(options.output_dir, config.output.report)
    return result


def _scoring_services(config: EvalConfig) -> list[str]:
    """Return the names of the services that the scorers of a config use."""
    names: list[str] = []
    for bench in config.benchmarks:
        for metric in bench.scoring.metrics:
            names += metric.asked()
    return names


def _take_answers(job: Evaluation, journal: Path, source: Path, source_run_id: str) -> None:
    """Prepare an evaluation that scores a copy of a run's answers; the run itself is not changed."""
    _same_question(job, journal)
    task = TaskPaths(job.task_dir)
    job.task_dir.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(journal, task.journal)
    workspaces = TaskPaths(journal.parent).workspaces
    if workspaces.is_dir():
        shutil.copytree(workspaces, task.workspaces, dirs_exist_ok=True)
    job.solver = _NoModel()
    job.stop_rule = None
    job.stopped_before = None
    bundle_name = None
    bundle = newest_bundle(journal.parent)
    if bundle is not None:
        job.stopped_before = cast("StoppedEntry | None", _rule_of(bundle.stopped))
        bundle_name = bundle.path.name
    job.config["rescored_from"] = {
        "run_id": source_run_id,
        "output_dir": str(source),
        "bundle": bundle_name,
    }


class _NoModel:
    """The solver of an evaluation that has only stored answers."""

    async def solve(self, task: SeedResult) -> SolveResult:
        """Raise TransportError: there is no stored answer to the problem, and rescoring does not call the model."""
        error = TransportError(
            "no stored answer fits this problem, and rescoring does not ask the model"
        )
        error.final = True
        raise error


def _journals(config: EvalConfig, source: Path, target: Path) -> dict[str, Path]:
    """Return the journal of every benchmark.

    Raises:
        UsageError: If one is missing, or would be overwritten.
    """
    journals: dict[str, Path] = {}
    for bench in config.benchmarks:
        journals[bench.key] = TaskPaths(source / safe_name(bench.key)).journal
    missing_keys = [key for key, journal in journals.items() if not journal.is_file()]
    if missing_keys:
        hint = "rescore takes the folder of a run, and only benchmarks that it ran"
        raise UsageError(f"{source} has no answers of {', '.join(missing_keys)}", hint=hint)
    for key in journals:
        if TaskPaths(target / safe_name(key)).journal.exists():
            raise UsageError(f"{target} holds a run already", hint="give another --output-dir")
    return journals


def _same_question(job: Evaluation, journal: Path) -> None:
    """Raise UsageError if the config would send other requests than the run did: the stored answers would not fit."""
    old_fingerprints: JsonDict = {}
    earlier_sessions = sessions(journal)
    if earlier_sessions:
        old_fingerprints = as_dict(earlier_sessions[-1].get("fingerprints"))
    new_fingerprints = fingerprints_of(job).parts
    changed = [part for part in _SETTINGS if old_fingerprints.get(part) != new_fingerprints[part]]
    if changed:
        reason = f"the config differs from the run in its {' and '.join(changed)}, so the stored answers do not fit"
        hint = "rescore changes only `scoring:`; use `nel eval run --resume` for new answers"
        raise UsageError(f"{job.task_dir.name}: {reason}", hint=hint)


def _rule_of(stopped: JsonDict) -> JsonDict | None:
    """Return the stop facts of the run without remarks on scores; problems that its rule excluded stay excluded."""
    if "rule" not in stopped:
        return None
    rule: JsonDict = {}
    for key, value in stopped["rule"].items():
        if key not in ("score", "difference", "decision"):
            rule[key] = value
    if stopped.get("kind") in (None, HaltKind.RULE):
        return dict(stopped) | {"rule": rule}
    return {"rule": rule}
