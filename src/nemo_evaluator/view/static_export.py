"""``nel view --export``: runs as a folder that any web server shows, or as one html file; without nel."""

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

# Bytes of rows in one file: a web server that knows no ranges sends such a file for one row.
_CHUNK: Final = 1 << 20
_MOST_IN_A_FILE: Final = 50 << 20
# Runs of which each is compared with each other.
_MOST_COMPARED: Final = 6
_IMPORT: Final = re.compile(r'((?:from|import)\s*)"\./([\w.]+)"')
_LESS: Final = "\\u003c"


def export_runs(library: Library, target: Path) -> int:
    """Write the pages, and the data of all runs of a library; returns how many runs. What is there is not changed."""
    if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
        raise UsageError(f"{target} exists", hint="name a new folder; nothing is overwritten")
    made = _summaries(library)
    for bench, place in made["places"].items():
        _write_rows(library.benchmark(*bench.split("/", 1)), target / "data" / place)
    for keys, found in _comparisons(library, made):
        made["compared"].append(keys)
        (target / "data" / f"compare-{keys}.json").write_bytes(scrub_json(dumps(found)))
    (target / "data" / "export.json").write_bytes(scrub_json(dumps(made)))
    shutil.copytree(STATIC, target, dirs_exist_ok=True)
    (target / "report.css").write_text(style_sheet(), encoding="utf-8")
    page = (
        (STATIC / PAGE)
        .read_text(encoding="utf-8")
        .replace("<title>", f"{_meta(CONTENT_POLICY)}\n<title>", 1)
    )
    (target / PAGE).write_text(page, encoding="utf-8")
    return len(made["runs"])


def export_file(library: Library, target: Path) -> int:
    """Write all of it into one file, which a browser opens as it is; returns how many runs. For small runs only."""
    if target.exists():
        raise UsageError(f"{target} exists", hint="name a new file; nothing is overwritten")
    made = _summaries(library)
    size = 0
    made["whole"] = {}
    for bench, place in made["places"].items():
        rows: list[JsonDict] = []
        for number, (line, page) in enumerate(_pages(library.benchmark(*bench.split("/", 1)))):
            rows.append({"line": line | {"at": [number]}, "page": page})
            size += len(dumps(page))
            if size > _MOST_IN_A_FILE:
                hint = "name a folder (without .html) for pages that a web server shows"
                raise UsageError(
                    f"more than {_MOST_IN_A_FILE >> 20} MB of rows: too much for one file",
                    hint=hint,
                )
        made["whole"][place] = rows
    made["whole"] |= {f"compare-{keys}": found for keys, found in _comparisons(library, made)}
    made["compared"] = [
        name.removeprefix("compare-") for name in made["whole"] if name.startswith("compare-")
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_one_page(scrub_json(dumps(made)).decode()), encoding="utf-8")
    return len(made["runs"])


def _one_page(data: str) -> str:
    """The page with its styles, its scripts as modules by name, and its data; what has no word of ours does not run."""
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
    licences = (STATIC / "vendor" / "LICENSES.txt").read_text(encoding="utf-8")
    parts = [
        _meta(policy),
        f'<style nonce="{word}">{style_sheet()}\n{(STATIC / "view.css").read_text(encoding="utf-8")}</style>',
        f'<script type="application/json" id="nel-data">{data.replace("<", _LESS)}</script>',
        f'<script type="text/plain" id="licences">{licences.replace("<", "&lt;")}</script>',
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
    return f'<meta name="nel-export" content="">\n<meta http-equiv="content-security-policy" content="{policy}">'


def _summaries(library: Library) -> JsonDict:
    """What pages of runs show, and where the rows of each benchmark are to be."""
    runs = library.listed()
    made: JsonDict = {
        "runs": runs,
        "pages": {},
        "figures": {},
        "facets": {},
        "places": {},
        "compared": [],
    }
    made["filters"] = DEFINITIONS
    for number, run in enumerate(runs):
        made["pages"][run["key"]] = pages.run_page(library, run["key"])
        for at, name in enumerate(library.run(run["key"]).benchmarks):
            folder = library.benchmark(run["key"], name)
            place = f"{number}-{at}"
            bench = f"{run['key']}/{name}"
            made["places"][bench] = place
            made["figures"][bench] = pages.figures(folder)
            made["facets"][bench] = page_rows.facets(folder)
    return made


def _comparisons(library: Library, made: JsonDict) -> Iterator[tuple[str, JsonDict]]:
    """Each run against each other, by their keys, where there are not too many; what cannot be compared says why."""
    from nemo_evaluator.view.comparison import compared, with_keys  # noqa: PLC0415

    runs = {run["key"]: library.run(run["key"]).path for run in made["runs"]}
    keys = {path: key for key, path in runs.items()}
    for pair in permutations(runs, 2) if len(runs) <= _MOST_COMPARED else ():
        paths = [runs[key] for key in pair]
        try:
            found = with_keys(compared(paths), paths, keys)
        except NelError as error:
            found = {"error": error.message, "hint": error.hint}
        yield ",".join(pair), found


def _write_rows(folder: BenchmarkFolder, target: Path) -> None:
    """``index.json``, the rows as the table shows them, each with where its page is in ``rows-N.jsonl``."""
    target.mkdir(parents=True)
    chunk = 0
    size = 0
    between = b"["
    with (target / "index.json").open("wb") as index:
        for line, page in _pages(folder):
            if size >= _CHUNK:
                chunk = chunk + 1
                size = 0
            body = scrub_json(dumps(page))
            index.write(between + scrub_json(dumps(line | {"at": [chunk, size, len(body)]})))
            with (target / f"rows-{chunk}.jsonl").open("ab") as file:
                size += file.write(body + b"\n")
            between = b",\n"
        index.write(b"]" if between == b",\n" else b"[]")


def _pages(folder: BenchmarkFolder) -> Iterator[tuple[JsonDict, JsonDict]]:
    """Each row as the table shows it, and its page."""
    labels, under_way, alike = read_labels(folder.path), list[IndexedRow](), list[IndexedRow]()
    drawn = page_rows.drawn_rows(folder)
    with folder.reading() as (columns, reader):

        def rows() -> Iterator[Row]:
            for _, group in groupby(
                places(columns, RowFilter(), "problem_idx"), key=lambda one: one.key[0]
            ):
                alike[:] = group
                for place in alike:
                    under_way[:] = [place]
                    yield reader.row(place)

        for row in with_trajectories(rows(), TaskPaths(folder.path).trajectories):
            (place,) = under_way
            whole = pages.row_facts(place, row, *reader.records(place), row.steps)
            if len(alike) > 1:
                repeats: list[dict[str, Any]] = [
                    page_rows.listed(one, None, labels) for one in alike
                ]
            else:
                repeats = []
            page = pages.page_of_row(folder, whole, labels.get(place.key), repeats=repeats)
            line = page_rows.listed(place, row, labels)
            # The pages have no other way to know it.
            line["drawn"] = place.key in drawn
            yield line, page
