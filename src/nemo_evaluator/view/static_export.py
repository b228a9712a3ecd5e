"""``nel view --export``: runs as a folder of pages and data that any web server shows, without nel."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports import style_sheet
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.runs.query import Place, RowFilter, places
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import with_trajectories
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view import page_row, page_rows, page_run
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.server import CONTENT_POLICY, PAGE, STATIC

# Bytes of rows in one file: a web server that knows no ranges sends such a file for one row.
_CHUNK: Final = 1 << 20


def export_runs(library: Library, target: Path) -> int:
    """Write the pages, and the data of all runs of a library; returns how many runs. What is there is not changed."""
    if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
        raise UsageError(f"{target} exists", hint="name a new folder; nothing is overwritten")
    runs = library.listed()
    made: JsonDict = {"runs": runs, "pages": {}, "figures": {}, "facets": {}, "places": {}}
    for number, run in enumerate(runs):
        made["pages"][run["key"]] = page_run.run_page(library, run["key"])
        for at, name in enumerate(library.run(run["key"]).benchmarks):
            folder, place, bench = library.benchmark(run["key"], name), f"{number}-{at}", f"{run['key']}/{name}"
            made["places"][bench] = place
            made["figures"][bench] = page_run.figures(folder)
            made["facets"][bench] = page_rows.facets(folder)
            _write_rows(folder, target / "data" / place)
    (target / "data" / "export.json").write_bytes(scrub_json(dumps(made)))
    shutil.copytree(STATIC, target, dirs_exist_ok=True)
    (target / "report.css").write_text(style_sheet(), encoding="utf-8")
    meta = (
        f'<meta name="nel-export" content="">\n<meta http-equiv="content-security-policy" content="{CONTENT_POLICY}">'
    )
    page = (STATIC / PAGE).read_text(encoding="utf-8").replace("<title>", f"{meta}\n<title>", 1)
    (target / PAGE).write_text(page, encoding="utf-8")
    return len(runs)


def _write_rows(folder: BenchmarkFolder, target: Path) -> None:
    """``index.json``, the rows as the table shows them, each with where its page is in ``rows-N.jsonl``."""
    target.mkdir(parents=True)
    chunk, size, file = -1, _CHUNK, None
    with (target / "index.json").open("wb") as index:
        for number, (line, page) in enumerate(_pages(folder)):
            if size >= _CHUNK:
                chunk, size, file = chunk + 1, 0, _next(target / f"rows-{chunk + 1}.jsonl", file)
            assert file is not None
            body = scrub_json(dumps(page))
            index.write(b",\n" if number else b"[")
            index.write(scrub_json(dumps(line | {"at": [chunk, size, len(body)]})))
            size += file.write(body + b"\n")
        index.write(b"]" if file else b"[]")
    if file is not None:
        file.close()


def _next(path: Path, file: BinaryIO | None) -> BinaryIO:
    if file is not None:
        file.close()
    return path.open("wb")


def _pages(folder: BenchmarkFolder) -> Iterator[tuple[JsonDict, JsonDict]]:
    """Each row as the table shows it, and its page."""
    labels, under_way = read_labels(folder.path), list[Place]()
    with folder.reading() as (columns, reader):

        def rows() -> Iterator[Row]:
            for place in places(columns, RowFilter(), "problem_idx", 0, None):
                under_way[:] = [place]
                yield reader.row(place)

        for row in with_trajectories(rows(), TaskPaths(folder.path).trajectories):
            (place,) = under_way
            whole = page_row.row_facts(place, row, *reader.records(place), row.steps)
            label = labels.get(place.key)
            yield page_rows.listed(place, row, labels), page_row.page_of_row(folder, whole, label, [])
