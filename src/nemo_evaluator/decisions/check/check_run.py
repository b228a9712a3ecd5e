"""Check whether a finished run is fit to be used: every problem has a name and a class before anyone sees the score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_json
from nemo_evaluator.decisions.check import answer_findings, run_findings
from nemo_evaluator.decisions.check.checked_run import CheckedRun, CheckLimits
from nemo_evaluator.decisions.check.findings import FailureClass, Finding, Level, RunCheck
from nemo_evaluator.runs.answers import Answers
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import WrittenRows, read_table
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.statistics import by_problem
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.sums import update_sums

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import BundleDocument, ValidityEntry

_CHECKS: Final[tuple[Callable[[CheckedRun], Iterator[Finding]], ...]] = (
    run_findings.finished,
    run_findings.coverage,
    run_findings.causes,
    answer_findings.tampering,
    run_findings.accounting,
    answer_findings.repeats,
    answer_findings.clusters,
    answer_findings.score,
    answer_findings.no_answers,
    answer_findings.expected_answers,
    answer_findings.answers,
    answer_findings.finish_reasons,
    answer_findings.latency,
    run_findings.drift,
    run_findings.server_trouble,
)


def check_path(path: Path | str, limits: CheckLimits | None = None) -> list[RunCheck]:
    """Check every run under a path.

    Args:
        path: The folder, or one run.
        limits: The limits to apply; None for the defaults.

    Returns:
        One check per finished run, then one INVALID check for each benchmark that did not produce a bundle.
    """
    checks: list[RunCheck] = []
    for run in find_runs(Path(path)):
        check = check_run(run, limits)
        check.findings += run_findings.damaged_records(run)
        checks.append(check)
    for unfinished in find_unfinished(Path(path)):
        failure_class = FailureClass.INFRA
        if unfinished.cause is not None:
            failure_class = run_findings.class_of(unfinished.cause)
        finding = Finding("finished", Level.INVALID, unfinished.reason, failure_class=failure_class)
        checks.append(
            RunCheck(
                unfinished.name, "", str(unfinished.folder), rows=0, problems=0, findings=[finding]
            )
        )
    return checks


def check_run(
    run: Bundle, limits: CheckLimits | None = None, written: WrittenRows | None = None
) -> RunCheck:
    """Check one run.

    Args:
        run: The run.
        limits: The limits to apply; None for the defaults.
        written: The rows that were just written, to save reading the file again.

    Returns:
        The check. Rows that cannot be read make the run INVALID instead of raising an error.
    """
    answers = Answers() if written is None else written.answers
    try:
        rows = read_table(run.results, answers=answers) if written is None else written.table
    except UsageError as error:
        unreadable = Finding(
            "accounting", Level.INVALID, error.message, failure_class=FailureClass.ACCOUNTING
        )
        return RunCheck(
            run.name, run.run_id, str(run.path), rows=0, problems=0, findings=[unreadable]
        )
    checked_run = CheckedRun(run, rows, limits or CheckLimits(), answers=answers)
    # By message: a problem stated in the bundle is often found again in its rows.
    findings: dict[str, Finding] = {}
    for check in _CHECKS:
        for finding in check(checked_run):
            findings[finding.message] = finding
    return RunCheck(
        run.name,
        run.run_id,
        str(run.path),
        rows=len(rows),
        problems=len(by_problem(rows.problem, rows.reward)),
        findings=list(findings.values()),
    )


def settle_status(
    task: TaskPaths, document: BundleDocument, written: WrittenRows | None = None
) -> BundleDocument:
    """Store the status of the check in a bundle that was just written, so that every reader gets the same status.

    Args:
        task: The task's folder.
        document: The bundle; its ``validity`` is replaced.
        written: The rows that were just written.

    Returns:
        The same document.
    """
    path = task.root / f"{document['run_id']}.json"
    check = check_run(Bundle(path, document), written=written)
    validity: ValidityEntry = {"status": str(check.status), "reasons": check.reasons}
    if validity != document["validity"]:
        document["validity"] = validity
        write_json(path, document)
        update_sums(task.root, [path])
    return document
