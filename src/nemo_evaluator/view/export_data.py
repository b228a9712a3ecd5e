"""The data that an export of the viewer holds, in the form that ``static/export_source.js`` reads."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final

from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row_filters import DEFINITIONS
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.listed_run import ListedRun
from nemo_evaluator.view.page_data import OF_A_BENCHMARK, OF_A_RUN

# The largest number of runs for which every pair is compared.
_MOST_COMPARED: Final = 6


@dataclass(slots=True)
class ExportData:
    """Everything but the rows of an export to a folder.

    Attributes:
        runs: The list of runs.
        filters: The definitions of the filters.
        data: The data of the pages by name, then by ``RUN`` or ``RUN/BENCHMARK``.
        places: The name of each benchmark's table of rows, by ``RUN/BENCHMARK``.
        compared: The pairs of runs that were compared.
        whole: The tables of rows and the comparisons, by name, for an export to one file; else None.
    """

    runs: list[ListedRun]
    filters: JsonDict
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    compared: list[str] = field(default_factory=list)
    whole: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PairComparison:
    """The comparison of two runs, or the reason why they cannot be compared.

    Attributes:
        pair: The keys of both runs, with a comma between them.
        result: A ``ComparisonPage``, or ``error`` and ``hint``.
    """

    pair: str
    result: Any

    @property
    def name(self) -> str:
        """The name of the comparison among the exported data."""
        return f"compare-{self.pair}"


def collect(library: Library) -> ExportData:
    """Collect the list of runs and the data of the pages, without rows and comparisons."""
    export = ExportData(runs=library.listed_runs(), filters=DEFINITIONS)
    for name in (*OF_A_RUN, *OF_A_BENCHMARK):
        export.data[name] = {}
    for number, run in enumerate(export.runs):
        for name, read_run in OF_A_RUN.items():
            export.data[name][run.key] = read_run(library, run.key)
        for position, benchmark in enumerate(library.run(run.key).benchmarks):
            address = f"{run.key}/{benchmark}"
            export.places[address] = f"{number}-{position}"
            folder = library.benchmark(run.key, benchmark)
            for name, read_benchmark in OF_A_BENCHMARK.items():
                export.data[name][address] = read_benchmark(folder)
    return export


def compare_pairs(library: Library, runs: list[ListedRun]) -> Iterator[PairComparison]:
    """Yield the comparison of every pair of runs; none if there are too many runs."""
    # The reports' code loads slowly; an export without comparisons does not need it.
    from nemo_evaluator.view.comparison import ComparedRun, comparison_page  # noqa: PLC0415

    if len(runs) > _MOST_COMPARED:
        return
    for baseline, candidate in permutations(runs, 2):
        pair = []
        for run in (baseline, candidate):
            pair.append(ComparedRun(run.key, library.run(run.key).path))
        result: Any
        try:
            result = comparison_page(pair)
        except NelError as error:
            result = {"error": error.message, "hint": error.hint}
        yield PairComparison(f"{baseline.key},{candidate.key}", result)
