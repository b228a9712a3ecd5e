"""``nel view --export``: runs as a folder for any web server, or as one HTML file; neither needs nel."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports import style_sheet
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.view.export_data import collect, compare_pairs
from nemo_evaluator.view.exported_rows import exported_rows, write_rows
from nemo_evaluator.view.guard import CONTENT_POLICY
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.page_html import PAGE, STATIC, page_html, with_head
from nemo_evaluator.view.single_file import export_elements, single_file

_MOST_IN_A_FILE: Final = 50 << 20


def export_runs(library: Library, target: Path) -> int:
    """Write the pages and the data of all runs to a folder.

    Returns:
        The number of runs.

    Raises:
        UsageError: The target exists and is not empty.
    """
    if target.is_dir():
        is_free = not any(target.iterdir())
    else:
        is_free = not target.exists()
    if not is_free:
        raise UsageError(f"{target} exists", hint="name a new folder; nothing is overwritten")
    export = collect(library)
    data_folder = target / "data"
    for address, table_name in export.places.items():
        write_rows(_benchmark_at(library, address), data_folder / table_name)
    for comparison in compare_pairs(library, export.runs):
        export.compared.append(comparison.pair)
        _write_json(data_folder / f"{comparison.name}.json", comparison.result)
    _write_json(data_folder / "export.json", export)
    shutil.copytree(STATIC, target, dirs_exist_ok=True)
    (target / "report.css").write_text(style_sheet(), encoding="utf-8")
    page = with_head(page_html(), export_elements(CONTENT_POLICY))
    (target / PAGE).write_text(page, encoding="utf-8")
    return len(export.runs)


def export_file(library: Library, target: Path) -> int:
    """Write the pages and the data of all runs to one HTML file, for small runs.

    Returns:
        The number of runs.

    Raises:
        UsageError: The file exists, or there are too many rows for one file.
    """
    if target.exists():
        raise UsageError(f"{target} exists", hint="name a new file; nothing is overwritten")
    export = collect(library)
    export.whole = {}
    size = 0
    for address, table_name in export.places.items():
        rows: list[JsonDict] = []
        for row in _numbered_rows(_benchmark_at(library, address)):
            rows.append(row)
            size += len(dumps(row["page"]))
            if size > _MOST_IN_A_FILE:
                raise UsageError(
                    f"more than {_MOST_IN_A_FILE >> 20} MB of rows: too much for one file",
                    hint="name a folder (without .html) for pages that a web server shows",
                )
        export.whole[table_name] = rows
    for comparison in compare_pairs(library, export.runs):
        export.compared.append(comparison.pair)
        export.whole[comparison.name] = comparison.result
    target.parent.mkdir(parents=True, exist_ok=True)
    data = scrub_json(dumps(export)).decode()
    target.write_text(single_file(data), encoding="utf-8")
    return len(export.runs)


def _benchmark_at(library: Library, address: str) -> BenchmarkFolder:
    """Return the benchmark of an address, ``RUN/BENCHMARK``."""
    run, _, benchmark = address.partition("/")
    return library.benchmark(run, benchmark)


def _numbered_rows(folder: BenchmarkFolder) -> Iterator[JsonDict]:
    """Yield the line and the page of each row; the line has the row's number."""
    for number, row in enumerate(exported_rows(folder)):
        yield {"line": row.line_at(number), "page": row.page}


def _write_json(path: Path, value: object) -> None:
    """Write a value as JSON, without secrets."""
    path.write_bytes(scrub_json(dumps(value)))
