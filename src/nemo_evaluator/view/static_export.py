"""``nel view --export``: runs as a folder for any web server, or as one HTML file; neither needs nel."""

import re
import secrets
import shutil
from base64 import b64encode
from collections.abc import Iterator
from itertools import groupby, permutations
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports import style_sheet
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.runs.query import IndexedRow, RowFilter, places
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import with_trajectories
from nemo_evaluator.runs.row_filters import DEFINITIONS
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view import page_rows, pages
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.server import CONTENT_POLICY, PAGE, STATIC

# The size of a file of rows: a web server without range requests sends the whole file for one row.
_CHUNK: Final = 1 << 20
_MOST_IN_A_FILE: Final = 50 << 20
# The largest number of runs for which every pair is compared.
_MOST_COMPARED: Final = 6
_IMPORT: Final = re.compile(r'((?:from|import)\s*)"\./([\w.]+)"')
_LESS: Final = "\\u003c"


def export_runs(library: Library, target: Path) -> int:
    """Write the pages and the data of all runs to a folder.

    Returns:
        The number of runs.

    Raises:
        UsageError: The target exists and is not empty.
    """
    if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
        raise UsageError(f"{target} exists", hint="name a new folder; nothing is overwritten")
    export = _summaries(library)
    for benchmark_key, data_name in export["places"].items():
        _write_rows(library.benchmark(*benchmark_key.split("/", 1)), target / "data" / data_name)
    for keys, comparison in _comparisons(library, export):
        export["compared"].append(keys)
        (target / "data" / f"compare-{keys}.json").write_bytes(scrub_json(dumps(comparison)))
    (target / "data" / "export.json").write_bytes(scrub_json(dumps(export)))
    shutil.copytree(STATIC, target, dirs_exist_ok=True)
    (target / "report.css").write_text(style_sheet(), encoding="utf-8")
    page = (
        (STATIC / PAGE)
        .read_text(encoding="utf-8")
        .replace("<title>", f"{_meta(CONTENT_POLICY)}\n<title>", 1)
    )
    (target / PAGE).write_text(page, encoding="utf-8")
    return len(export["runs"])


def export_file(library: Library, target: Path) -> int:
    """Write the pages and the data of all runs to one HTML file, for small runs.

    Returns:
        The number of runs.

    Raises:
        UsageError: The file exists, or there are too many rows for one file.
    """
    if target.exists():
        raise UsageError(f"{target} exists", hint="name a new file; nothing is overwritten")
    export = _summaries(library)
    size = 0
    export["whole"] = {}
    for benchmark_key, data_name in export["places"].items():
        rows: list[JsonDict] = []
        for number, (line, page) in enumerate(
            _pages(library.benchmark(*benchmark_key.split("/", 1)))
        ):
            rows.append({"line": line | {"at": [number]}, "page": page})
            size += len(dumps(page))
            if size > _MOST_IN_A_FILE:
                hint = "name a folder (without .html) for pages that a web server shows"
                raise UsageError(
                    f"more than {_MOST_IN_A_FILE >> 20} MB of rows: too much for one file",
                    hint=hint,
                )
        export["whole"][data_name] = rows
    export["whole"] |= {
        f"compare-{keys}": comparison for keys, comparison in _comparisons(library, export)
    }
    export["compared"] = [
        name.removeprefix("compare-") for name in export["whole"] if name.startswith("compare-")
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_one_page(scrub_json(dumps(export)).decode()), encoding="utf-8")
    return len(export["runs"])


def _one_page(data: str) -> str:
    """Return the page with its styles, scripts and data; a content policy with a nonce blocks any other script."""
    word = secrets.token_urlsafe(16)
    scripts = {
        path.relative_to(STATIC).as_posix(): path.read_text(encoding="utf-8")
        for path in STATIC.rglob("*.js")
    }
    modules: dict[str, str] = {}
    for name, text in scripts.items():
        modules[name] = _IMPORT.sub(r'\1"nel/\2"', text.replace('"./vendor/', '"./'))
    imports: dict[str, str] = {}
    for name, text in modules.items():
        imports[f"nel/{name.removeprefix('vendor/')}"] = (
            f"data:text/javascript;base64,{b64encode(text.encode()).decode()}"
        )
    policy = (
        f"default-src 'none'; script-src 'nonce-{word}' 'strict-dynamic'; style-src 'nonce-{word}'; img-src data:; "
        "style-src-attr 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    license_texts = (STATIC / "vendor" / "LICENSES.txt").read_text(encoding="utf-8")
    parts = [
        _meta(policy),
        f'<style nonce="{word}">{style_sheet()}\n{(STATIC / "view.css").read_text(encoding="utf-8")}</style>',
        f'<script type="application/json" id="nel-data">{data.replace("<", _LESS)}</script>',
        f'<script type="text/plain" id="licences">{license_texts.replace("<", "&lt;")}</script>',
        f'<script type="importmap" nonce="{word}">{dumps({"imports": imports}).decode()}</script>',
        f'<script type="module" nonce="{word}">import "nel/app.js";</script>',
    ]
    page = (STATIC / PAGE).read_text(encoding="utf-8")
    linked = ("app.js", 'rel="stylesheet"', 'rel="modulepreload"')
    kept: list[str] = []
    for line in page.splitlines():
        if not any(word in line for word in linked):
            kept.append(line)
    return "\n".join(kept).replace("<title>", "\n".join([*parts, "<title>"]), 1)


def _meta(policy: str) -> str:
    """Return the elements that mark a page as an export and set its content policy."""
    return f'<meta name="nel-export" content="">\n<meta http-equiv="content-security-policy" content="{policy}">'


def _summaries(library: Library) -> JsonDict:
    """Return the data of the runs' pages, and the names under which the rows of each benchmark are stored."""
    runs = library.listed()
    export: JsonDict = {
        "runs": runs,
        "pages": {},
        "figures": {},
        "facets": {},
        "places": {},
        "compared": [],
    }
    export["filters"] = DEFINITIONS
    for number, run in enumerate(runs):
        export["pages"][run["key"]] = pages.run_page(library, run["key"])
        for position, name in enumerate(library.run(run["key"]).benchmarks):
            folder = library.benchmark(run["key"], name)
            data_name = f"{number}-{position}"
            benchmark_key = f"{run['key']}/{name}"
            export["places"][benchmark_key] = data_name
            export["figures"][benchmark_key] = pages.figures(folder)
            export["facets"][benchmark_key] = page_rows.facets(folder)
    return export


def _comparisons(library: Library, made: JsonDict) -> Iterator[tuple[str, JsonDict]]:
    """Yield the comparison of every pair of runs with their keys, or its error; none if there are too many runs."""
    from nemo_evaluator.view.comparison import compared, with_keys  # noqa: PLC0415

    runs = {run["key"]: library.run(run["key"]).path for run in made["runs"]}
    keys = {path: key for key, path in runs.items()}
    for pair in permutations(runs, 2) if len(runs) <= _MOST_COMPARED else ():
        paths = [runs[key] for key in pair]
        try:
            comparison = with_keys(compared(paths), paths, keys)
        except NelError as error:
            comparison = {"error": error.message, "hint": error.hint}
        yield ",".join(pair), comparison


def _write_rows(folder: BenchmarkFolder, target: Path) -> None:
    """Write ``index.json`` with the rows of the table, each with the position of its page in ``rows-N.jsonl``."""
    target.mkdir(parents=True)
    file_number = 0
    size = 0
    separator = b"["
    with (target / "index.json").open("wb") as index:
        for line, page in _pages(folder):
            if size >= _CHUNK:
                file_number = file_number + 1
                size = 0
            body = scrub_json(dumps(page))
            index.write(
                separator + scrub_json(dumps(line | {"at": [file_number, size, len(body)]}))
            )
            with (target / f"rows-{file_number}.jsonl").open("ab") as file:
                size += file.write(body + b"\n")
            separator = b",\n"
        index.write(b"]" if separator == b",\n" else b"[]")


def _pages(folder: BenchmarkFolder) -> Iterator[tuple[JsonDict, JsonDict]]:
    """Yield each row as the table shows it, together with its page."""
    labels, current_row, problem_rows = (
        read_labels(folder.path),
        list[IndexedRow](),
        list[IndexedRow](),
    )
    drawn = page_rows.drawn_rows(folder)
    with folder.reading() as (columns, reader):

        def rows() -> Iterator[Row]:
            """Yield the rows, and keep the current row and those of its problem for the loop below."""
            for _, group in groupby(
                places(columns, RowFilter(), "problem_idx"),
                key=lambda candidate: candidate.key[0],
            ):
                problem_rows[:] = group
                for indexed_row in problem_rows:
                    current_row[:] = [indexed_row]
                    yield reader.row(indexed_row)

        for row in with_trajectories(rows(), TaskPaths(folder.path).trajectories):
            (indexed_row,) = current_row
            facts = pages.row_facts(indexed_row, row, *reader.records(indexed_row), row.steps)
            if len(problem_rows) > 1:
                repeats: list[dict[str, Any]] = [
                    page_rows.listed(repeat_row, None, labels) for repeat_row in problem_rows
                ]
            else:
                repeats = []
            page = pages.page_of_row(folder, facts, labels.get(indexed_row.key), repeats=repeats)
            line = page_rows.listed(indexed_row, row, labels)
            # The exported pages have no other way to know this.
            line["drawn"] = indexed_row.key in drawn
            yield line, page
