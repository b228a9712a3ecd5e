"""The data of the pages, by name. The server sends an entry on request; an export writes it for every run or benchmark.

A page calls ``source.data(NAME, {run})`` or ``source.data(NAME, {run, bench})``, whatever its source is. To give a page
new data, add a function to one of the tables below.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.view import page_rows, run_page
from nemo_evaluator.view.library import Library


@dataclass(frozen=True, slots=True)
class Plots:
    """The plots of a benchmark as HTML."""

    html: str


def _plots(folder: BenchmarkFolder) -> Plots:
    """Return the plots of a benchmark."""
    return Plots(run_page.benchmark_figures(folder))


# The server and the export encode the result of each function as JSON.
OF_A_RUN: Final[Mapping[str, Callable[[Library, str], Any]]] = {"run": run_page.run_page}
OF_A_BENCHMARK: Final[Mapping[str, Callable[[BenchmarkFolder], Any]]] = {
    "figures": _plots,
    "facets": page_rows.facets,
}


def page_data(library: Library, name: str, run: str, benchmark: str | None) -> Any:
    """Return the data of one name.

    Args:
        library: The runs.
        name: The name of the data, in one of the tables.
        run: The key of a run.
        benchmark: A benchmark of the run; data of a run ignores it.

    Raises:
        UsageError: There is no such run or benchmark, or no benchmark is named.
    """
    if name in OF_A_RUN:
        return OF_A_RUN[name](library, run)
    if not benchmark:
        raise UsageError(f"{name} needs the name of a benchmark", hint="add the parameter bench")
    return OF_A_BENCHMARK[name](library.benchmark(run, benchmark))
