"""The viewer's server: the page, its data and labels, all behind ``Guard``.

Routes only parse requests and write responses. Everything that touches files runs in other threads, so that a slow disk
or a large run does not delay other requests.
"""

import asyncio
import getpass
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.reports import style_sheet
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, append_label, read_labels
from nemo_evaluator.runs.row_filters import DEFINITIONS
from nemo_evaluator.view import row_page
from nemo_evaluator.view.changes import changes
from nemo_evaluator.view.guard import Guard
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.listed_run import ListedRun
from nemo_evaluator.view.page_data import OF_A_BENCHMARK, OF_A_RUN, page_data
from nemo_evaluator.view.page_html import PAGE, STATIC, page_html
from nemo_evaluator.view.page_rows import RowMatch, TablePage, listed_row, search, table_page
from nemo_evaluator.view.row_download import FORMATS, download
from nemo_evaluator.view.row_query import RowQuery, parse_row_query

_MOST_MATCHES: Final = 5_000
_MOST_NOTE: Final = 100_000
_DEFAULT_LIMIT: Final = 100
_MOST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class RunList:
    """The page of all runs, and the name of the person who labels."""

    runs: list[ListedRun]
    who: str


@dataclass(frozen=True, slots=True)
class _RowsRequest:
    """A benchmark, and the rows of it that a request names."""

    folder: BenchmarkFolder
    query: RowQuery


class Viewer:
    """The routes of the viewer."""

    def __init__(self, library: Library) -> None:
        """Serve the runs of a library."""
        self._library = library
        self._labelling = asyncio.Lock()
        # One thread only: several pages that read columns of a million rows would need the memory for all of them.
        self._reading = ThreadPoolExecutor(1)

    def app(self, token: str) -> ASGIApp:
        """Return the ASGI application, which requires ``token`` in every URL."""
        json_endpoints: dict[str, Callable[[Request], Any]] = {
            "runs": self._runs,
            "filters": _filters,
            "rows": self._rows,
            "row": self._row,
            "labels": self._labels,
        }
        for name in (*OF_A_RUN, *OF_A_BENCHMARK):
            json_endpoints[name] = partial(self._page_data, name)
        routes: list[BaseRoute] = []
        for name, answer in json_endpoints.items():
            routes.append(Route(f"/api/{name}", self._json_route(answer)))
        routes += [
            Route("/api/text", self._text),
            Route("/api/search", self._search),
            Route("/api/export", self._export),
            Route("/api/compare", self._compare),
            Route("/api/live", self._live),
            Route("/api/label", self._label, methods=["POST"]),
            Route("/report.css", _style),
            Route("/", _page),
            Route(f"/{PAGE}", _page),
            Mount("/", StaticFiles(directory=STATIC)),
        ]
        error_handlers = {NelError: _error, orjson.JSONDecodeError: _error}
        return Guard(Starlette(routes=routes, exception_handlers=error_handlers), token)

    def _json_route(
        self, answer: Callable[[Request], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a route that calls ``answer`` in the reading thread and responds with its result as JSON."""

        async def respond(request: Request) -> Response:
            """Run ``answer`` in the reading thread."""
            loop = asyncio.get_running_loop()
            return _json(await loop.run_in_executor(self._reading, answer, request))

        return respond

    # These functions run in the reading thread.

    def _runs(self, _request: Request) -> RunList:
        """Return all runs."""
        return RunList(self._library.listed_runs(), getpass.getuser())

    def _page_data(self, name: str, request: Request) -> Any:
        """Return the data that a page requests by name."""
        run = _parameter(request, "run")
        return page_data(self._library, name, run, request.query_params.get("bench"))

    def _rows(self, request: Request) -> TablePage:
        """Return one page of the requested rows."""
        requested = self._rows_request(request)
        offset = _number(request, "offset")
        limit = _number(request, "limit", _DEFAULT_LIMIT)
        return table_page(requested.folder, requested.query, offset, limit)

    def _row(self, request: Request) -> row_page.RowPage:
        """Return the page of the requested row."""
        folder = self._folder(request)
        problem, repeat = _row_key(request)
        return row_page.row_page(folder, problem, repeat)

    def _labels(self, request: Request) -> list[Label]:
        """Return all labels of the requested benchmark."""
        return list(read_labels(self._folder(request).path).values())

    def _folder(self, request: Request) -> BenchmarkFolder:
        """Return the benchmark that a request names."""
        return self._library.benchmark(_parameter(request, "run"), _parameter(request, "bench"))

    def _rows_request(self, request: Request) -> _RowsRequest:
        """Return the benchmark and the rows that a request names."""
        folder = self._folder(request)
        return _RowsRequest(folder, parse_row_query(request.query_params, folder))

    # These routes respond with something else than one JSON value.

    async def _text(self, request: Request) -> Response:
        """Respond with a part of a long text."""
        text = await asyncio.to_thread(self._text_part, request)
        return PlainTextResponse(text.encode("utf-8", "replace"))

    def _text_part(self, request: Request) -> str:
        """Return the requested part of a long text."""
        folder = self._folder(request)
        problem, repeat = _row_key(request)
        path = _parameter(request, "path")
        start = _number(request, "from")
        return row_page.text_part(folder, problem, repeat, path=path, start=start)

    async def _search(self, request: Request) -> Response:
        """Respond with a stream of matching rows and progress messages."""
        requested = await asyncio.to_thread(self._rows_request, request)
        return StreamingResponse(_search_lines(requested), media_type="application/x-ndjson")

    async def _export(self, request: Request) -> Response:
        """Respond with the requested rows as a file."""
        file_format = request.query_params.get("format", "jsonl")
        if file_format not in FORMATS:
            raise HTTPException(400, f"the format is one of: {', '.join(FORMATS)}")
        requested = await asyncio.to_thread(self._rows_request, request)
        return StreamingResponse(
            download(requested.folder, requested.query, file_format),
            media_type=FORMATS[file_format],
            headers={"content-disposition": f'attachment; filename="rows.{file_format}"'},
        )

    async def _compare(self, request: Request) -> Response:
        """Respond with a comparison of the requested runs."""
        # The reports' code loads slowly; a viewer that compares nothing does not need it.
        from nemo_evaluator.view.comparison import ComparedRun, compare_in_process  # noqa: PLC0415

        keys = _parameter(request, "runs").split(",")
        runs: list[ComparedRun] = []
        for key in keys:
            run = await asyncio.to_thread(self._library.run, key)
            runs.append(ComparedRun(key, run.path))
        return _json_response(await compare_in_process(runs))

    async def _live(self, request: Request) -> Response:
        """Respond with a stream of the runs that change."""
        keys = [key for key in request.query_params.get("runs", "").split(",") if key]

        async def events() -> AsyncIterator[bytes]:
            """Yield the changes as server-sent events."""
            async for runs in changes(self._library, keys):
                yield b"data: " + scrub_json(dumps({"runs": runs})) + b"\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _label(self, request: Request) -> Response:
        """Store the label of a row and respond with it."""
        label = _parse_label(request, await request.body())
        folder = await asyncio.to_thread(self._folder, request)
        async with self._labelling:
            return _json(await asyncio.to_thread(append_label, folder.path, label))


def _search_lines(requested: _RowsRequest) -> Iterator[bytes]:
    """Yield matching rows and progress messages as JSON lines, up to the limit of matches."""
    labels = read_labels(requested.folder.path)
    matches = 0
    for result in search(requested.folder, requested.query):
        if not isinstance(result, RowMatch):
            yield _json_line(result)
            continue
        yield _json_line(listed_row(result.indexed_row, result.row, labels))
        matches += 1
        if matches == _MOST_MATCHES:
            yield b'{"full":true}\n'
            return


def _parse_label(request: Request, body: bytes) -> Label:
    """Return the label in a request.

    Raises:
        HTTPException: The body is not a label, or its note is too long.
        JSONDecodeError: The body is not JSON.
    """
    content = orjson.loads(body or b"null")
    if not isinstance(content, dict) or len(str(content.get("note") or "")) > _MOST_NOTE:
        raise HTTPException(400, "a label is an object with label, note and who")
    problem, repeat = _row_key(request)
    return Label(
        problem_idx=problem,
        repeat=repeat,
        # `append_label` refuses an unknown one.
        label=str(content.get("label") or ""),  # type: ignore[arg-type]
        note=str(content.get("note") or ""),
        who=str(content.get("who") or "") or getpass.getuser(),
    )


async def _error(request: Request, error: Exception) -> Response:
    """Respond with the message and the hint of an error that is meant for people."""
    message = getattr(error, "message", str(error))
    return _json({"error": message, "hint": getattr(error, "hint", None)}, status=400)


async def _page(request: Request) -> Response:
    """Respond with the page."""
    return HTMLResponse(await asyncio.to_thread(page_html))


async def _style(request: Request) -> Response:
    """Respond with the style sheet of reports."""
    return Response(style_sheet(), media_type="text/css")


def _filters(_request: Request) -> Any:
    """Return the definitions of the filters."""
    return DEFINITIONS


def _json(value: Any, status: int = 200) -> Response:
    """Return a JSON response without secrets."""
    return _json_response(dumps(value), status)


def _json_response(data: bytes, status: int = 200) -> Response:
    """Return a response with encoded JSON, without secrets."""
    return Response(scrub_json(data), status, media_type="application/json")


def _json_line(value: Any) -> bytes:
    """Return a value as a line of JSON, without secrets."""
    return scrub_json(dumps(value)) + b"\n"


def _parameter(request: Request, name: str) -> str:
    """Return a required parameter of a request."""
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(400, f"the parameter {name} is missing")
    return value


def _number(request: Request, name: str, default: int = 0) -> int:
    """Return a whole number from the parameters of a request."""
    value = request.query_params.get(name, str(default))
    if not value.isdecimal() or len(value) > _MOST_DIGITS:
        raise HTTPException(400, f"the parameter {name} is not a number")
    return int(value)


def _row_key(request: Request) -> tuple[int, int]:
    """Return the problem and repeat that a request names."""
    return _number(request, "problem"), _number(request, "repeat")
