"""Compares runs for the viewer: the verdict, flips and categories of ``nel compare``, computed in a separate process.

A comparison needs the columns of every row. In a separate process it leaves the server small.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.decisions.compare.compare_set import compare_paths
from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.reports.compare_pages import section_figures
from nemo_evaluator.reports.html import figures_html

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import ComparisonDocument


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run to compare: the key by which pages name it, and its folder."""

    key: str
    path: Path


@dataclass(frozen=True, slots=True)
class ComparedBenchmark:
    """The comparison of one benchmark in two runs.

    Attributes:
        candidate: The folder of the candidate.
        benchmark: The benchmark's name.
        folders: The names of the benchmark's folders in both runs.
        keys: The keys of both runs.
        report: The report of ``nel compare`` as JSON.
        figures: Its plots as HTML.
    """

    candidate: str
    benchmark: str
    folders: list[str]
    keys: list[str]
    report: ComparisonDocument
    figures: str


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """The comparison of the first run with all others."""

    verdict: str
    warnings: list[str]
    entries: list[ComparedBenchmark]


def comparison_page(runs: Sequence[ComparedRun]) -> ComparisonPage:
    """Compare the first run with all others.

    Raises:
        UsageError: The runs have no benchmark in common, or cannot be compared.
    """
    baseline, *candidates = runs
    comparison = compare_paths(baseline.path, [run.path for run in candidates], CompareOptions())
    keys = {str(run.path): run.key for run in candidates}
    benchmarks: list[ComparedBenchmark] = []
    for entry in comparison.entries:
        sides = (entry.report.baseline, entry.report.candidate)
        benchmarks.append(
            ComparedBenchmark(
                candidate=entry.candidate,
                benchmark=entry.benchmark,
                folders=[Path(side.path).parent.name for side in sides],
                keys=[baseline.key, keys[entry.candidate]],
                report=entry.report.to_dict(),
                figures=figures_html(section_figures(entry)),
            )
        )
    return ComparisonPage(str(comparison.verdict), comparison.warnings, benchmarks)


async def compare_in_process(runs: Sequence[ComparedRun]) -> bytes:
    """Compare the first run with all others in a separate process.

    Returns:
        The ``ComparisonPage`` as JSON.

    Raises:
        UsageError: There are fewer than two runs, or the comparison fails.
    """
    if len(runs) < 2:
        raise UsageError("a comparison needs two runs", hint="pick two or more in the list of runs")
    command = [sys.executable, "-m", "nemo_evaluator.view.comparison"]
    for run in runs:
        command += [run.key, str(run.path)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        error_lines = errors.decode(errors="replace").strip().splitlines()
        raise UsageError(error_lines[-1] if error_lines else "the comparison was ended")
    return output


def main() -> None:
    """Compare the runs on the command line, each given by its key and its folder, and print JSON."""
    keys = sys.argv[1::2]
    folders = sys.argv[2::2]
    runs = [ComparedRun(key, Path(folder)) for key, folder in zip(keys, folders, strict=True)]
    try:
        sys.stdout.buffer.write(dumps(comparison_page(runs)))
    except NelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        sys.exit(f"{error.message}{hint}")


if __name__ == "__main__":
    main()
