"""The rows of an export: a line of the table and a page for each row."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.runs.query import IndexedRow, RowFilter, places
from nemo_evaluator.runs.row_file import TrajectoryReader
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.page_rows import listed_row
from nemo_evaluator.view.row_page import RowPage, page_of_row, row_detail
from nemo_evaluator.view.row_query import drawn_rows

# The size of a file of rows: a web server without range requests sends the whole file for one row.
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ExportedRow:
    """A row of an export.

    Attributes:
        line: The row of the table (``ListedRow``) with ``drawn``; the writer adds ``at``, where its page is.
        page: The page of the row.
    """

    line: JsonDict
    page: RowPage

    def line_at(self, *position: int) -> JsonDict:
        """Return the line with the position of its page."""
        return self.line | {"at": position}


def exported_rows(folder: BenchmarkFolder) -> Iterator[ExportedRow]:
    """Yield all rows of a benchmark in order of problems."""
    labels = read_labels(folder.path)
    drawn = drawn_rows(folder)
    trajectories = TrajectoryReader(TaskPaths(folder.path).trajectories)
    with folder.reading() as (columns, reader):
        indexed_rows = places(columns, RowFilter(), "problem_idx")
        for _, rows_of_problem in groupby(indexed_rows, key=_problem):
            problem_rows = list(rows_of_problem)
            for indexed_row in problem_rows:
                row = trajectories.complete(reader.row(indexed_row))
                answer, outcome = reader.records(indexed_row)
                detail = row_detail(indexed_row, row, answer, outcome=outcome, steps=row.steps)
                page = page_of_row(
                    folder, detail, labels, key=indexed_row.key, problem_rows=problem_rows
                )
                line = asdict(listed_row(indexed_row, row, labels))
                # The exported pages have no other way to know this.
                line["drawn"] = indexed_row.key in drawn
                yield ExportedRow(line, page)


def _problem(indexed_row: IndexedRow) -> int:
    """Return the problem of a row."""
    problem, _ = indexed_row.key
    return problem


def write_rows(folder: BenchmarkFolder, target: Path) -> None:
    """Write ``index.json`` with the rows of the table, each with the position of its page in ``rows-N.jsonl``."""
    target.mkdir(parents=True)
    file_number = 0
    file_size = 0
    separator = b"["
    with (target / "index.json").open("wb") as index:
        for row in exported_rows(folder):
            if file_size >= _CHUNK:
                file_number += 1
                file_size = 0
            page = scrub_json(dumps(row.page))
            line = row.line_at(file_number, file_size, len(page))
            index.write(separator + scrub_json(dumps(line)))
            separator = b",\n"
            with (target / f"rows-{file_number}.jsonl").open("ab") as file:
                file_size += file.write(page + b"\n")
        has_rows = separator != b"["
        index.write(b"]" if has_rows else b"[]")
