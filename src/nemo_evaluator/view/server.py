"""The server of the viewer: pages and data under a token that is part of every URL, on loopback names alone."""

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
    """Lets through what names this machine as the host and has the token as the first part of its path."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on with the token taken off the path."""
        given, _, rest = scope["path"].removeprefix("/").partition("/")
        refused = refusal(scope["headers"], LOOPBACK)
        response: PlainTextResponse | None = None
        if refused is not None:
            status, why = refused
            response = PlainTextResponse(why, status)
        elif not hmac.compare_digest(given.encode(), self._token):
            response = PlainTextResponse(
                "The token is missing or wrong: open the URL that `nel view` printed.", 403
            )

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in _HEADERS.items()),
                ]
            await send(message)

        await (response or self._app)(
            {**scope, "path": f"/{rest}", "raw_path": None, "root_path": ""}, receive, guarded
        )


class Viewer:
    """The routes."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._labelling = asyncio.Lock()
        # One page at a time reads columns of a million rows: side by side they would take the memory of all.
        self._reading = ThreadPoolExecutor(1)

    def app(self, token: str) -> ASGIApp:
        answers: dict[str, Callable[[Request], Any]] = {
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
        for name, answer in answers.items():
            routes.append(Route(f"/api/{name}", self._answering(answer)))
        more = {
            "text": self._text,
            "search": self._search,
            "export": self._export,
            "compare": self._compare,
        }
        for name, respond in (more | {"live": self._live}).items():
            routes.append(Route(f"/api/{name}", respond))
        routes += [Route("/api/label", self._label, methods=["POST"]), Route("/report.css", _style)]
        routes.append(Mount("/", StaticFiles(directory=STATIC, html=True)))
        refusals = {NelError: _refused, orjson.JSONDecodeError: _refused}
        return Guard(Starlette(routes=routes, exception_handlers=refusals), token)

    def _answering(
        self, answer: Callable[[Request], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route that reads in another thread and answers JSON."""

        async def respond(request: Request) -> Response:
            return _json(
                await asyncio.get_running_loop().run_in_executor(self._reading, answer, request)
            )

        return respond

    def _folder(self, request: Request) -> BenchmarkFolder:
        return self._library.benchmark(_said(request, "run"), _said(request, "bench"))

    def _rows(self, request: Request) -> Any:
        folder = self._folder(request)
        wish = page_rows.read_wish(request.query_params, folder)
        return page_rows.page_of(
            folder, wish, _number(request, "offset"), limit=_number(request, "limit", 100)
        )

    async def _text(self, request: Request) -> Response:
        part = partial(pages.text_part, self._folder(request), *_step(request))
        text = await asyncio.to_thread(part, _said(request, "path"), _number(request, "from"))
        return PlainTextResponse(text.encode("utf-8", "replace"))

    async def _search(self, request: Request) -> Response:
        folder = self._folder(request)
        wish = page_rows.read_wish(request.query_params, folder)
        labels = read_labels(folder.path)

        def lines() -> Iterator[bytes]:
            hits = 0
            for found in page_rows.search(folder, wish):
                if isinstance(found, dict):
                    said = found
                else:
                    said = page_rows.listed(*found, labels)
                yield scrub_json(dumps(said)) + b"\n"
                hits += not isinstance(found, dict)
                if hits == _MOST_HITS:
                    yield b'{"full":true}\n'
                    return

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _export(self, request: Request) -> Response:
        folder = self._folder(request)
        kind = request.query_params.get("format", "jsonl")
        if kind not in KINDS:
            raise HTTPException(400, f"the format is one of: {', '.join(KINDS)}")
        wish = page_rows.read_wish(request.query_params, folder)
        named = {"content-disposition": f'attachment; filename="rows.{kind}"'}
        return StreamingResponse(
            exported(folder, wish, kind), media_type=KINDS[kind], headers=named
        )

    async def _compare(self, request: Request) -> Response:
        from nemo_evaluator.view.comparison import compared_apart  # noqa: PLC0415

        paths = [self._library.run(key).path for key in _said(request, "runs").split(",")]
        return _json(
            await compared_apart(paths, {path: key for key, path in self._library.look().items()})
        )

    async def _live(self, request: Request) -> Response:
        keys = [key for key in request.query_params.get("runs", "").split(",") if key]

        async def events() -> AsyncIterator[bytes]:
            async for change in changes(self._library, keys):
                yield b"data: " + scrub_json(dumps(change)) + b"\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _label(self, request: Request) -> Response:
        folder = self._folder(request)
        said = orjson.loads(await request.body() or b"null")
        if not isinstance(said, dict) or len(str(said.get("note") or "")) > _MOST_NOTE:
            raise HTTPException(400, "a label is an object with label, note and who")
        texts = [str(said.get(name) or "") for name in ("label", "note", "who")]
        label = Label(*_step(request), texts[0], texts[1], texts[2] or getpass.getuser())  # type: ignore[arg-type]
        async with self._labelling:
            return _json(asdict(await asyncio.to_thread(append_label, folder.path, label)))


async def _refused(request: Request, error: Exception) -> Response:
    """Errors that are for people are answered as such."""
    return _json(
        {"error": getattr(error, "message", str(error)), "hint": getattr(error, "hint", None)}, 400
    )


async def _style(request: Request) -> Response:
    return Response(style_sheet(), media_type="text/css")


def _json(value: Any, status: int = 200) -> Response:
    return Response(scrub_json(dumps(value)), status, media_type="application/json")


def _said(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(400, f"the parameter {name} is missing")
    return value


def _number(request: Request, name: str, default: int = 0) -> int:
    value = request.query_params.get(name, str(default))
    if not value.isdecimal() or len(value) > 15:
        raise HTTPException(400, f"the parameter {name} is not a number")
    return int(value)


def _step(request: Request) -> tuple[int, int]:
    return _number(request, "problem"), _number(request, "repeat")
