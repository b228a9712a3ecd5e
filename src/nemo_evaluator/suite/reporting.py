"""Writes the reports of a suite when it has ended, unless nothing that they show has changed."""

from pathlib import Path

from nemo_evaluator.config import EvalConfig, OutputConfig
from nemo_evaluator.reports.names import SUFFIXES
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.store.checkpoint import Checkpoint
from nemo_evaluator.suite.results import SuiteOptions, SuiteResult


def write_all_reports(output: OutputConfig, folder: Path) -> list[Path]:
    """Write the reports that a config asks for.

    Returns:
        Their paths.
    """
    from nemo_evaluator.reports import write_reports, write_trajectories_report  # noqa: PLC0415 - needed with work only

    reports = write_reports(folder, output.report)
    if output.enriched:
        write_trajectories_report(folder)
    return reports


def report_suite(
    result: SuiteResult, config: EvalConfig, options: SuiteOptions, checkpoint: Checkpoint
) -> list[Path]:
    """Write the reports of a suite, unless those of an earlier session are still current.

    Args:
        result: The results of its benchmarks.
        config: Names the report formats.
        options: The folder, and which of its files are unchanged.
        checkpoint: Records which bundles the reports show.

    Returns:
        The paths of the reports.
    """
    folder = options.output_dir
    bundles = [str(path.relative_to(folder)) for path in find_bundles(folder)]
    reports = [folder / f"report.{SUFFIXES[name]}" for name in config.output.report]
    if checkpoint.reported_of == bundles and _nothing_changed(
        reports, result, config.output, options=options
    ):
        return reports
    reports = write_all_reports(config.output, folder)
    checkpoint.reported(bundles)
    return reports


def _nothing_changed(
    reports: list[Path], result: SuiteResult, output: OutputConfig, *, options: SuiteOptions
) -> bool:
    """Whether every benchmark was kept as it was, and the reports of an earlier session show it as it is."""
    for benchmark in result.benchmarks:
        if not benchmark.kept:
            return False
    files = list(reports)
    trajectories_report = options.output_dir / "trajectories_report.json"
    if output.enriched and trajectories_report.is_file():
        files.append(trajectories_report)
    return _are_current(files, result, options.untouched)


def _are_current(files: list[Path], result: SuiteResult, untouched: frozenset[Path]) -> bool:
    """Whether reports are unmodified, and newer than all that they show."""
    if not untouched.issuperset(files):
        return False
    last_change = _last_change(result)
    return all(path.stat().st_mtime_ns >= last_change for path in files)


def _last_change(result: SuiteResult) -> int:
    """Return when a file next to a bundle last changed: labels, calibrations and notes are also part of a report."""
    last_change = 0
    for benchmark in result.benchmarks:
        if benchmark.task_dir is None:
            continue
        for path in benchmark.task_dir.iterdir():
            if path.is_file():
                last_change = max(last_change, path.stat().st_mtime_ns)
    return last_change
