"""The viewer's server: pages and data under a token that is part of every URL, for loopback host names only."""

import asyncio
import getpass
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nemo_evaluator.adapters.guard import LOOPBACK, refusal
from nemo_evaluator.core.errors import NelError
from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.reports import style_sheet
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, append_label, read_labels
from nemo_evaluator.runs.row_filters import DEFINITIONS
from nemo_evaluator.view import page_rows, pages
from nemo_evaluator.view.library import Library, changes
from nemo_evaluator.view.page_rows import KINDS, exported

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
_MOST_HITS: Final = 5_000
_MOST_NOTE: Final = 100_000
CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; style-src-attr 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = {
    "content-security-policy": f"{CONTENT_POLICY}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Accepts requests that name a loopback host and have the token as the first part of their path."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        """Guard ``app`` with ``token``."""
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on with the token removed from the path."""
        token, _, remaining_path = scope["path"].removeprefix("/").partition("/")
        refused = refusal(scope["headers"], LOOPBACK)
        response: PlainTextResponse | None = None
        if refused is not None:
            status, reason = refused
            response = PlainTextResponse(reason, status)
        elif not hmac.compare_digest(token.encode(), self._token):
            response = PlainTextResponse(
                "The token is missing or wrong: open the URL that `nel view` printed.", 403
            )

        async def guarded(message: Message) -> None:
            """Add the security headers to a response."""
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in _HEADERS.items()),
                ]
            await send(message)

        await (response or self._app)(
            {**scope, "path": f"/{remaining_path}", "raw_path": None, "root_path": ""},
            receive,
            guarded,
        )


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
        json_routes: dict[str, Callable[[Request], Any]] = {
            "runs": lambda _: {"runs": self._library.listed(), "who": getpass.getuser()},
            "filters": lambda _: DEFINITIONS,
            "run": lambda request: pages.run_page(self._library, _said(request, "run")),
            "figures": lambda request: {"html": pages.figures(self._folder(request))},
            "facets": lambda request: page_rows.facets(self._folder(request)),
            "rows": self._rows,
            "row": lambda request: pages.row_page(self._folder(request), *_step(request)),
            "labels": lambda request: list(
                map(asdict, read_labels(self._folder(request).path).values())
            ),
        }
        routes: list[BaseRoute] = []
        for name, answer in json_routes.items():
            routes.append(Route(f"/api/{name}", self._answering(answer)))
        streaming = {
            "text": self._text,
            "search": self._search,
            "export": self._export,
            "compare": self._compare,
        }
        for name, respond in (streaming | {"live": self._live}).items():
            routes.append(Route(f"/api/{name}", respond))
        routes += [Route("/api/label", self._label, methods=["POST"]), Route("/report.css", _style)]
        routes.append(Mount("/", StaticFiles(directory=STATIC, html=True)))
        error_handlers = {NelError: _refused, orjson.JSONDecodeError: _refused}
        return Guard(Starlette(routes=routes, exception_handlers=error_handlers), token)

    def _answering(
        self, answer: Callable[[Request], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a route that calls ``answer`` in another thread and responds with JSON."""

        async def respond(request: Request) -> Response:
            """Run ``answer`` in the reading thread."""
            return _json(
                await asyncio.get_running_loop().run_in_executor(self._reading, answer, request)
            )

        return respond

    def _folder(self, request: Request) -> BenchmarkFolder:
        """Return the benchmark that a request names."""
        return self._library.benchmark(_said(request, "run"), _said(request, "bench"))

    def _rows(self, request: Request) -> Any:
        """Return one page of the requested rows."""
        folder = self._folder(request)
        wish = page_rows.read_wish(request.query_params, folder)
        return page_rows.page_of(
            folder, wish, _number(request, "offset"), limit=_number(request, "limit", 100)
        )

    async def _text(self, request: Request) -> Response:
        """Respond with a part of a long text."""
        part = partial(pages.text_part, self._folder(request), *_step(request))
        text = await asyncio.to_thread(part, _said(request, "path"), _number(request, "from"))
        return PlainTextResponse(text.encode("utf-8", "replace"))

    async def _search(self, request: Request) -> Response:
        """Respond with a stream of matching rows and progress messages."""
        folder = self._folder(request)
        wish = page_rows.read_wish(request.query_params, folder)
        labels = read_labels(folder.path)

        def lines() -> Iterator[bytes]:
            """Yield matching rows and progress messages as JSON lines, up to the limit of matches."""
            hits = 0
            for result in page_rows.search(folder, wish):
                if isinstance(result, dict):
                    line = result
                else:
                    line = page_rows.listed(*result, labels)
                yield scrub_json(dumps(line)) + b"\n"
                hits += not isinstance(result, dict)
                if hits == _MOST_HITS:
                    yield b'{"full":true}\n'
                    return

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _export(self, request: Request) -> Response:
        """Respond with the requested rows as a file."""
        folder = self._folder(request)
        kind = request.query_params.get("format", "jsonl")
        if kind not in KINDS:
            raise HTTPException(400, f"the format is one of: {', '.join(KINDS)}")
        wish = page_rows.read_wish(request.query_params, folder)
        headers = {"content-disposition": f'attachment; filename="rows.{kind}"'}
        return StreamingResponse(
            exported(folder, wish, kind), media_type=KINDS[kind], headers=headers
        )

    async def _compare(self, request: Request) -> Response:
        """Respond with a comparison of the requested runs."""
        from nemo_evaluator.view.comparison import compared_apart  # noqa: PLC0415

        paths = [self._library.run(key).path for key in _said(request, "runs").split(",")]
        return _json(
            await compared_apart(paths, {path: key for key, path in self._library.look().items()})
        )

    async def _live(self, request: Request) -> Response:
        """Respond with a stream of the runs that change."""
        keys = [key for key in request.query_params.get("runs", "").split(",") if key]

        async def events() -> AsyncIterator[bytes]:
            """Yield the changes as server-sent events."""
            async for change in changes(self._library, keys):
                yield b"data: " + scrub_json(dumps(change)) + b"\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _label(self, request: Request) -> Response:
        """Store the label of a row and respond with it."""
        folder = self._folder(request)
        body = orjson.loads(await request.body() or b"null")
        if not isinstance(body, dict) or len(str(body.get("note") or "")) > _MOST_NOTE:
            raise HTTPException(400, "a label is an object with label, note and who")
        texts = [str(body.get(name) or "") for name in ("label", "note", "who")]
        label = Label(*_step(request), texts[0], texts[1], texts[2] or getpass.getuser())  # type: ignore[arg-type]
        async with self._labelling:
            return _json(asdict(await asyncio.to_thread(append_label, folder.path, label)))


async def _refused(request: Request, error: Exception) -> Response:
    """Respond with the message and the hint of an error that is meant for people."""
    return _json(
        {"error": getattr(error, "message", str(error)), "hint": getattr(error, "hint", None)}, 400
    )


async def _style(request: Request) -> Response:
    """Respond with the style sheet of reports."""
    return Response(style_sheet(), media_type="text/css")


def _json(value: Any, status: int = 200) -> Response:
    """Return a JSON response without secrets."""
    return Response(scrub_json(dumps(value)), status, media_type="application/json")


def _said(request: Request, name: str) -> str:
    """Return a required parameter of a request."""
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(400, f"the parameter {name} is missing")
    return value


def _number(request: Request, name: str, default: int = 0) -> int:
    """Return a whole number from the parameters of a request."""
    value = request.query_params.get(name, str(default))
    if not value.isdecimal() or len(value) > 15:
        raise HTTPException(400, f"the parameter {name} is not a number")
    return int(value)


def _step(request: Request) -> tuple[int, int]:
    """Return the problem and repeat that a request names."""
    return _number(request, "problem"), _number(request, "repeat")
