"""Entry points of comparisons: two runs, two folders or two lists of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.compare.comparison import Comparison
from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.compare.report import RegressionReport
from nemo_evaluator.decisions.pairing import PairBy, Pairing, pair
from nemo_evaluator.decisions.usability import rows_of_run
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.row_table import RowTable, read_table, table_of


@dataclass(frozen=True, slots=True)
class PairedRecords:
    """Two runs as columns with their paired problems; iterating gives two mappings from (problem, repeat) to rows."""

    baseline: RowTable
    candidate: RowTable
    pairing: Pairing

    def __iter__(self) -> Iterator[dict[tuple[int, int], JsonDict]]:
        for rows in (self.baseline, self.candidate):
            keys = zip(rows.problem.tolist(), rows.repeat.tolist(), strict=True)
            yield {key: rows.full(position) for position, key in enumerate(keys)}


def load_paired_records(
    baseline: Path | str, candidate: Path | str, *, pair_by: PairBy = "auto"
) -> PairedRecords:
    """Read two runs and pair their problems.

    Args:
        baseline: The folder of the baseline.
        candidate: The folder of the candidate.
        pair_by: Pair problems by content or by index.

    Raises:
        UsageError: A path has no run or several, or the problems cannot be paired as asked.
    """
    baseline_rows = read_table(one_run(baseline).results)
    candidate_rows = read_table(one_run(candidate).results)
    return PairedRecords(
        baseline_rows, candidate_rows, pair(baseline_rows, candidate_rows, pair_by)
    )


def one_run(path: Path | str) -> Bundle:
    """The only run under a path.

    Raises:
        UsageError: The path holds no run, or several.
    """
    runs = find_runs(Path(path))
    if len(runs) != 1:
        names = ", ".join(sorted(run.name for run in runs)) or "none"
        raise UsageError(
            f"{path} holds {len(runs)} benchmarks ({names})", hint="give the folder of one of them"
        )
    return runs[0]


def compare_runs(
    baseline: Bundle | Path | str,
    candidate: Bundle | Path | str,
    options: CompareOptions | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare two finished runs of one benchmark.

    Args:
        baseline: The baseline, or its folder.
        candidate: The candidate, or its folder.
        options: How to compare.
        **changes: Fields of ``CompareOptions``, instead of ``options``: ``compare_runs(a, b, max_drop=0.02)``.

    Raises:
        UsageError: A path holds no run or several, or the problems cannot be paired as asked.
    """
    options = options or CompareOptions(**changes)
    baseline_run = baseline if isinstance(baseline, Bundle) else one_run(baseline)
    candidate_run = candidate if isinstance(candidate, Bundle) else one_run(candidate)
    baseline_rows = rows_of_run(baseline_run, better=options.better)
    candidate_rows = rows_of_run(candidate_run, better=options.better)
    return Comparison(
        baseline_run, candidate_run, baseline_rows, right=candidate_rows, options=options
    ).report()


def compare_results(
    baseline: Sequence[JsonDict],
    candidate: Sequence[JsonDict],
    *,
    baseline_bundle: JsonDict | None = None,
    candidate_bundle: JsonDict | None = None,
    **changes: Any,
) -> RegressionReport:
    """Compare result rows in memory.

    Args:
        baseline: The baseline's rows.
        candidate: The candidate's rows.
        baseline_bundle: The baseline's bundle, for its settings and scores.
        candidate_bundle: The candidate's bundle.
        **changes: Fields of ``CompareOptions``.

    Raises:
        UsageError: The problems cannot be paired as asked.
    """
    baseline_run = Bundle(Path("baseline"), baseline_bundle or {"run_id": "baseline"})
    candidate_run = Bundle(Path("candidate"), candidate_bundle or {"run_id": "candidate"})
    comparison = Comparison(
        baseline_run,
        candidate_run,
        table_of(baseline),
        right=table_of(candidate),
        options=CompareOptions(**changes),
    )
    return comparison.report()
