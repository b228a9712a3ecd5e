"""A run's folder as its readers see it: benchmarks, their bundles, their rows, also while the run writes.

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


@dataclass(frozen=True, slots=True)
class BenchmarkProgress:
    """How far a benchmark has come."""

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
        """The name of the folder, which is the benchmark's with characters that files do not like replaced."""
        return self.path.name

    @property
    def bundle(self) -> Bundle | None:
        """The newest bundle; None before the benchmark has finished."""
        return newest_bundle(self.path)

    def progress(self) -> BenchmarkProgress:
        """Counts of the rows so far, from the index."""
        refuse_foreign_files(self.path)
        db, _ = open_index(TaskPaths(self.path))
        with self._removed_if_damaged(), closing(db):
            sums = ", ".join(
                f"coalesce(sum({name}), 0)" for name in ("rows", "failed", "rewards", "sum", "cost")
            )
            rows, failed, rewards, total, cost = db.execute(f"SELECT {sums} FROM pieces").fetchone()
        return BenchmarkProgress(
            rows - failed, failed, total / rewards if rewards else None, cost_usd=cost or None
        )

    def rows(
        self,
        which: RowFilter | None = None,
        *,
        order: Order = "problem_idx",
        offset: int = 0,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """The rows asked for, read one at a time."""
        refuse_foreign_files(self.path)
        task = TaskPaths(self.path)
        if not which and order == "problem_idx" and not offset and not task.journal.is_file():
            yield from islice(read_rows(task.results), limit)
            return
        with self.reading() as (columns, reader):
            for place in places(columns, which or RowFilter(), order, offset=offset, limit=limit):
                yield reader.row(place)

    @contextmanager
    def reading(self) -> Iterator[tuple[IndexColumns, RowReader]]:
        """The columns of the index, up to date, for the questions of ``runs.query``, and a reader of what it finds."""
        refuse_foreign_files(self.path)
        with self._removed_if_damaged(), index_snapshot(TaskPaths(self.path)) as snapshot:
            yield IndexColumns(snapshot.db), RowReader(snapshot.file, journal=snapshot.journal)

    def count(self, which: RowFilter | None = None) -> int:
        """How many rows there are."""
        with self.reading() as (columns, _):
            return count(columns, which or RowFilter())

    @contextmanager
    def _removed_if_damaged(self) -> Iterator[None]:
        """An index holds nothing that cannot be read again: a damaged one goes, with a word."""
        try:
            yield
        except sqlite3.ProgrammingError:
            # A mistake of the program says nothing about the file.
            raise
        except (sqlite3.DatabaseError, orjson.JSONDecodeError) as error:
            task = TaskPaths(self.path)
            remove_index(task)
            hint = "run the command again: the index is rebuilt from the rows"
            raise UsageError(
                f"{task.index} was damaged ({error}) and has been removed", hint=hint
            ) from error

    def row(self, problem_idx: int, repeat: int = 0) -> Row:
        """One row. Raises UsageError when there is none."""
        found = (
            row for row in self.rows(RowFilter(problem_idx=problem_idx)) if row.repeat == repeat
        )
        row = next(found, None)
        if row is None:
            raise UsageError(f"{self.path} has no row of problem {problem_idx}, repeat {repeat}")
        return row


@dataclass(frozen=True)
class RunFolder:
    """The output folder of a run, or one benchmark's folder of it."""

    path: Path

    @cached_property
    def benchmarks(self) -> dict[str, BenchmarkFolder]:
        """The benchmarks that have rows or a bundle, by the names of their folders."""
        folders = [*task_folders(self.path), *(path.parent for path in self._bundle_files)]
        return {folder.name: BenchmarkFolder(folder) for folder in sorted(set(folders))}

    @property
    def _bundle_files(self) -> list[Path]:
        try:
            return find_bundles(self.path)
        except UsageError:
            return []

    @property
    def bundles(self) -> list[Bundle]:
        """The bundles of the benchmarks that have finished."""
        return [load_bundle(path) for path in self._bundle_files]

    @property
    def bundle(self) -> Bundle:
        """The bundle of the only benchmark. Raises UsageError when there are several, or none."""
        found = self.bundles
        if len(found) != 1:
            names = ", ".join(bundle.name for bundle in found)
            if found:
                hint = f"take one of .bundles: {names}"
            else:
                hint = "`nel eval status` says how far the run is"
            raise UsageError(
                f"{self.path} has {len(found)} finished benchmarks, not one", hint=hint
            )
        return found[0]

    def rows(
        self,
        benchmark: str | None = None,
        *,
        order: Order = "problem_idx",
        offset: int = 0,
        limit: int | None = None,
        **which: Any,
    ) -> Iterator[Row]:
        """The rows of a benchmark, or of all in turn; ``which`` are fields of ``RowFilter``, such as ``status``."""
        wanted = _filter(which)
        if offset and len(self.benchmarks) > 1 and benchmark is None:
            raise UsageError(
                "an offset is for the rows of one benchmark", hint="give its name first"
            )
        found = (
            row
            for one in self._chosen(benchmark)
            for row in one.rows(wanted, order=order, offset=offset, limit=limit)
        )
        return islice(found, limit)

    def count(self, benchmark: str | None = None, **which: Any) -> int:
        """How many rows there are."""
        return sum(one.count(_filter(which)) for one in self._chosen(benchmark))

    def to_pandas(self, benchmark: str | None = None, **which: Any) -> pd.DataFrame:
        """The rows as a table. Raises MissingExtraError without pandas."""
        pandas = optional("pandas", extra="pandas")
        records: list[dict[Any, Any]] = []
        for one in self._chosen(benchmark):
            for row in one.rows(_filter(which)):
                records.append(
                    {"benchmark": one.name} | {name: getattr(row, name) for name in _COLUMNS}
                )
        frame: pd.DataFrame = pandas.DataFrame(records, columns=["benchmark", *_COLUMNS])
        return frame

    def _chosen(self, benchmark: str | None) -> list[BenchmarkFolder]:
        if benchmark is None:
            return list(self.benchmarks.values())
        if benchmark not in self.benchmarks:
            hint = f"it has: {', '.join(self.benchmarks)}"
            raise UsageError(f"{self.path} has no benchmark {benchmark!r}", hint=hint)
        return [self.benchmarks[benchmark]]


def open_run(path: Path | str) -> RunFolder:
    """The run of an output folder, of a benchmark's folder, or of a bundle file; it may still be running.

    Raises UsageError when nothing is there.
    """
    if Path(path).is_file():
        folder = Path(path).parent
    else:
        folder = Path(path)
    run = RunFolder(folder)
    if not folder.is_dir() or not run.benchmarks:
        raise UsageError(
            f"no run is in {folder}",
            hint="give the output folder of a run; `nel eval runs` lists runs",
        )
    return run


def _filter(which: dict[str, Any]) -> RowFilter:
    try:
        return RowFilter(**which)
    except TypeError as error:
        hint = f"known: {', '.join(RowFilter.__slots__)}"
        raise UsageError(f"rows cannot be chosen by that: {error}", hint=hint) from error
