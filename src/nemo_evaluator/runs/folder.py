"""A run's folder for readers: its benchmarks, bundles and rows, also while the run is writing.

::

    run = open_run("eval_results")
    for row in run.rows(status="failed", limit=10):
        print(row.problem_idx, row.cause, row.error)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.lazy import optional
from nemo_evaluator.runs.bundle import Bundle, load_bundle, newest_bundle
from nemo_evaluator.runs.find import find_bundles, task_folders
from nemo_evaluator.runs.index import open_index, remove_index
from nemo_evaluator.runs.index_snapshot import index_snapshot
from nemo_evaluator.runs.own_files import refuse_foreign_files
from nemo_evaluator.runs.query import IndexColumns, Order, RowFilter, count, places
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import RowReader, read_rows
from nemo_evaluator.store.layout import TaskPaths

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_COLUMNS: Final = (
    "problem_idx",
    "repeat",
    "status",
    "reward",
    "cause",
    "category",
    "finish_reason",
    "tokens",
    "latency_ms",
    "cost_usd",
    "truncated",
    "unparsed",
    "refused",
    "prompt",
    "response",
    "expected",
    "extracted",
)


# The index keeps sums for each piece of the rows, so that this reads few lines.
_TOTALS: Final = """
    SELECT coalesce(sum(rows), 0), coalesce(sum(failed), 0), coalesce(sum(rewards), 0),
        coalesce(sum(sum), 0), coalesce(sum(cost), 0)
    FROM pieces
"""


@dataclass(frozen=True, slots=True)
class BenchmarkProgress:
    """The rows of a benchmark so far: counts, mean reward and cost."""

    scored: int
    failed: int
    mean_reward: float | None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class BenchmarkFolder:
    """The folder of one benchmark."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the folder: the benchmark's name, with characters replaced that file names should not have."""
        return self.path.name

    @property
    def bundle(self) -> Bundle | None:
        """The newest bundle; None before the benchmark has finished."""
        return newest_bundle(self.path)

    def progress(self) -> BenchmarkProgress:
        """Return counts of the rows so far, from the index."""
        refuse_foreign_files(self.path)
        db, _ = open_index(TaskPaths(self.path))
        with self._removed_if_damaged(), closing(db):
            totals = db.execute(_TOTALS).fetchone()
        row_count, failed, reward_count, reward_sum, cost = totals
        return BenchmarkProgress(
            scored=row_count - failed,
            failed=failed,
            mean_reward=reward_sum / reward_count if reward_count else None,
            cost_usd=cost or None,
        )

    def rows(
        self,
        which: RowFilter | None = None,
        *,
        order: Order = "problem_idx",
        offset: int = 0,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Yield the matching rows, read one at a time.

        Args:
            which: The filter; all rows without one.
            order: The field to sort by, with ``-`` in front for descending order.
            offset: How many matching rows to skip.
            limit: How many rows to yield at most.
        """
        refuse_foreign_files(self.path)
        task = TaskPaths(self.path)
        all_in_order = not which and order == "problem_idx" and not offset
        if all_in_order and not task.journal.is_file():
            # The results are already in this order, so no index is needed.
            yield from islice(read_rows(task.results), limit)
            return
        row_filter = which or RowFilter()
        with self.reading() as (columns, reader):
            for indexed_row in places(columns, row_filter, order, offset=offset, limit=limit):
                yield reader.row(indexed_row)

    @contextmanager
    def reading(self) -> Iterator[tuple[IndexColumns, RowReader]]:
        """Open the current index for the queries of ``runs.query``, and a reader for the rows that they return."""
        refuse_foreign_files(self.path)
        with self._removed_if_damaged(), index_snapshot(TaskPaths(self.path)) as snapshot:
            yield IndexColumns(snapshot.db), RowReader(snapshot.file, journal=snapshot.journal)

    def count(self, which: RowFilter | None = None) -> int:
        """Return the number of matching rows."""
        with self.reading() as (columns, _):
            return count(columns, which or RowFilter())

    @contextmanager
    def _removed_if_damaged(self) -> Iterator[None]:
        """Remove a damaged index and report it; it can be rebuilt from the rows.

        Raises:
            UsageError: The index was damaged.
        """
        try:
            yield
        except sqlite3.ProgrammingError:
            # A bug in nel says nothing about the file.
            raise
        except (sqlite3.DatabaseError, orjson.JSONDecodeError) as error:
            task = TaskPaths(self.path)
            remove_index(task)
            hint = "run the command again: the index is rebuilt from the rows"
            raise UsageError(
                f"{task.index} was damaged ({error}) and has been removed", hint=hint
            ) from error

    def row(self, problem_idx: int, repeat: int = 0) -> Row:
        """Return one row.

        Raises:
            UsageError: There is no such row.
        """
        for row in self.rows(RowFilter(problem_idx=problem_idx)):
            if row.repeat == repeat:
                return row
        raise UsageError(f"{self.path} has no row of problem {problem_idx}, repeat {repeat}")


@dataclass(frozen=True)
class RunFolder:
    """The output folder of a run, or the folder of one of its benchmarks."""

    path: Path

    @cached_property
    def benchmarks(self) -> dict[str, BenchmarkFolder]:
        """The benchmarks that have rows or a bundle, by folder name."""
        folders = set(task_folders(self.path))
        folders.update(bundle_file.parent for bundle_file in self._bundle_files)
        return {folder.name: BenchmarkFolder(folder) for folder in sorted(folders)}

    @property
    def _bundle_files(self) -> list[Path]:
        """The bundle files of the run; empty before the first benchmark has finished."""
        try:
            return find_bundles(self.path)
        except UsageError:
            return []

    @property
    def bundles(self) -> list[Bundle]:
        """The bundles of the finished benchmarks."""
        return [load_bundle(path) for path in self._bundle_files]

    @property
    def bundle(self) -> Bundle:
        """The bundle of the only finished benchmark.

        Raises:
            UsageError: There are several, or none.
        """
        bundles = self.bundles
        if len(bundles) != 1:
            names = ", ".join(bundle.name for bundle in bundles)
            if bundles:
                hint = f"take one of .bundles: {names}"
            else:
                hint = "`nel eval status` says how far the run is"
            raise UsageError(
                f"{self.path} has {len(bundles)} finished benchmarks, not one", hint=hint
            )
        return bundles[0]

    def rows(
        self,
        benchmark: str | None = None,
        *,
        order: Order = "problem_idx",
        offset: int = 0,
        limit: int | None = None,
        **which: Any,
    ) -> Iterator[Row]:
        """Return the matching rows of one benchmark, or of all benchmarks in turn.

        Args:
            benchmark: The name of the benchmark's folder.
            order: The field to sort by, with ``-`` in front for descending order.
            offset: How many matching rows to skip; only for a single benchmark.
            limit: How many rows to return at most.
            **which: Fields of ``RowFilter``, such as ``status``.

        Raises:
            UsageError: The benchmark or a filter is unknown, or an offset is given for several benchmarks.
        """
        row_filter = _filter(which)
        if offset and len(self.benchmarks) > 1 and benchmark is None:
            raise UsageError(
                "an offset is for the rows of one benchmark", hint="give its name first"
            )
        matching_rows = (
            row
            for folder in self._chosen(benchmark)
            for row in folder.rows(row_filter, order=order, offset=offset, limit=limit)
        )
        return islice(matching_rows, limit)

    def count(self, benchmark: str | None = None, **which: Any) -> int:
        """Return the number of matching rows; the arguments are those of ``rows``."""
        return sum(folder.count(_filter(which)) for folder in self._chosen(benchmark))

    def to_pandas(self, benchmark: str | None = None, **which: Any) -> pd.DataFrame:
        """Return the matching rows as a table; the arguments are those of ``rows``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        pandas = optional("pandas", extra="pandas")
        records: list[dict[Any, Any]] = []
        for folder in self._chosen(benchmark):
            for row in folder.rows(_filter(which)):
                record: dict[Any, Any] = {"benchmark": folder.name}
                for column in _COLUMNS:
                    record[column] = getattr(row, column)
                records.append(record)
        frame: pd.DataFrame = pandas.DataFrame(records, columns=["benchmark", *_COLUMNS])
        return frame

    def _chosen(self, benchmark: str | None) -> list[BenchmarkFolder]:
        """Return one benchmark, or all of them.

        Raises:
            UsageError: There is no benchmark of that name.
        """
        if benchmark is None:
            return list(self.benchmarks.values())
        if benchmark not in self.benchmarks:
            hint = f"it has: {', '.join(self.benchmarks)}"
            raise UsageError(f"{self.path} has no benchmark {benchmark!r}", hint=hint)
        return [self.benchmarks[benchmark]]


def open_run(path: Path | str) -> RunFolder:
    """Open a run by its output folder, the folder of a benchmark, or a bundle file; it may still be running.

    Raises:
        UsageError: There is no run.
    """
    folder = Path(path)
    if folder.is_file():
        folder = folder.parent
    run = RunFolder(folder)
    if not folder.is_dir() or not run.benchmarks:
        raise UsageError(
            f"no run is in {folder}",
            hint="give the output folder of a run; `nel eval runs` lists runs",
        )
    return run


def _filter(which: dict[str, Any]) -> RowFilter:
    """Return a filter from its fields.

    Raises:
        UsageError: A field is unknown.
    """
    try:
        return RowFilter(**which)
    except TypeError as error:
        hint = f"known: {', '.join(RowFilter.__slots__)}"
        raise UsageError(f"rows cannot be chosen by that: {error}", hint=hint) from error
