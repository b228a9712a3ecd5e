"""What the stand-ins for vendors' batch APIs share: batches with a fate, answered by a script, over real HTTP."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, Self

import orjson
from aiohttp import web

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.testing.script import Playbook, Script, Seen
from nemo_evaluator.testing.scripted import Threaded
from nemo_evaluator.testing.wire import answer_body

End = Literal["completed", "expired", "cancelled", "failed", "never", "stuck"]
WINDOW: Final = 24 * 3600
_LARGEST: Final = 300 << 20


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a batch: how it ends after ``polls`` looks at it, and which share of it is done by then.
    ``never`` ends only when it is cancelled, ``stuck`` not even then. The last ``missing`` requests have no result at
    all; ``code`` is the reason of a batch that failed."""

    end: End = "completed"
    polls: int = 0
    done: float = 1.0
    missing: int = 0
    code: str = "invalid_json_line"


@dataclass(slots=True)
class Row:
    """One request of a batch; without an answer when the batch ended before it was asked."""

    custom_id: str
    path: str
    body: JsonDict
    status: int = 0
    answer: Any = None


@dataclass(slots=True)
class Batch:
    """One batch as the vendor knows it."""

    id: str
    requests: list[Row]
    fate: Fate
    head: JsonDict = field(default_factory=dict)
    created: float = field(default_factory=time.time)
    looks: int = 0
    cancel_asked: float | None = None
    ended: float | None = None
    end: End | None = None
    results: list[Row] = field(default_factory=list)


class Refused(Exception):
    """A call that the vendor refuses."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class BatchServer(Threaded):
    """A vendor with a batch API, on loopback, in a thread of its own.

    ::

        with OpenAIBatches("42", fates=[Fate("expired", done=0.5), Fate()]) as server:
            subprocess.run(["nel", "eval", "run", ...])

    ``batches`` holds what was submitted, ``answered`` how often each prompt was answered (and so paid for), ``direct``
    how many requests were asked outside of batches. ``on_call`` is told each call's name, ``before`` it takes effect
    and ``after`` it has, before the reply is sent; raising Refused in it refuses the call. ``damage`` changes the bytes
    of a download; it also gets the number of the download, from 0 on.
    """

    routes: ClassVar[dict[str, tuple[str, str]]] = {}

    def __init__(
        self,
        script: Script = "ok",
        *,
        fates: Sequence[Fate] = (Fate(),),
        on_call: Callable[[str, str], None] | None = None,
    ) -> None:
        self._book, self._fates, self.on_call = Playbook(script), fates, on_call
        self.batches: dict[str, Batch] = {}
        self.answered: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.direct = 0
        self.url = ""
        self.damage: Callable[[bytes, int], bytes] | None = None
        self.downloads = 0
        self._numbers, self._seen = itertools.count(1), itertools.count()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_LARGEST)
        for name, (method, path) in self.routes.items():
            app.router.add_route(method, path, partial(self._call, name))
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _call(self, name: str, request: web.Request) -> web.Response:
        body = await request.read() if request.content_type == "application/json" else b""
        self.calls[name] += 1
        try:
            if self.on_call is not None:
                self.on_call(name, "before")
            reply = await getattr(self, name)(request, orjson.loads(body) if body else {})
            if self.on_call is not None:
                self.on_call(name, "after")
        except Refused as error:
            said = {"type": "invalid_request_error", "message": error.message}
            reply = web.json_response({"type": "error", "error": said}, status=error.status)
        return reply if isinstance(reply, web.Response) else web.json_response(reply)

    async def ask(self, request: web.Request, body: JsonDict) -> web.Response:
        self.direct += 1
        row = self._answer(Row("", request.path, body))
        return web.json_response(row.answer, status=row.status)

    async def poll(self, request: web.Request, _body: JsonDict) -> JsonDict:
        return self._looked_at(self.named(request))

    def _looked_at(self, batch: Batch) -> JsonDict:
        """A batch as it is shown; it moves on with each look."""
        if batch.end is None:
            if batch.cancel_asked is not None and batch.fate.end != "stuck":
                self._finish(batch, "cancelled")
            elif batch.looks >= batch.fate.polls and batch.fate.end not in ("never", "stuck"):
                self._finish(batch, batch.fate.end)
            batch.looks += 1
        return self.shown(batch)

    async def cancel(self, request: web.Request, _body: JsonDict) -> JsonDict:
        batch = self.named(request)
        if batch.end is None and batch.cancel_asked is None:
            batch.cancel_asked = time.time()
        return self.shown(batch)

    async def listed(self, request: web.Request, _body: JsonDict) -> JsonDict:
        """Batches, newest first, from the one on that ``after`` (or ``after_id``) names."""
        newest = list(self.batches.values())[::-1]
        after, limit = (
            request.query.get("after", request.query.get("after_id")),
            int(request.query.get("limit", "20")),
        )
        if after is not None:
            newest = newest[[one.id for one in newest].index(after) + 1 :]
        some = [self._looked_at(one) for one in newest[:limit]]
        ends = (
            {"first_id": some[0]["id"], "last_id": some[-1]["id"]}
            if some
            else {"first_id": None, "last_id": None}
        )
        return {"object": "list", "data": some, "has_more": len(newest) > limit, **ends}

    def shown(self, batch: Batch) -> JsonDict:
        """A batch as the vendor shows it."""
        raise NotImplementedError

    def sent(self, data: bytes) -> bytes:
        """The bytes of a download as they arrive."""
        self.downloads += 1
        if self.damage is None:
            return data
        return self.damage(data, self.downloads - 1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):08d}"

    def add(self, prefix: str, requests: list[Row], head: JsonDict) -> JsonDict:
        """Take a batch; returns it as the vendor shows it."""
        if not requests or len({row.custom_id for row in requests}) < len(requests):
            raise Refused(400, "every request needs a custom_id of its own")
        fate = self._fates[min(len(self.batches), len(self._fates) - 1)]
        batch = Batch(self.new_id(prefix), requests, fate, head)
        self.batches[batch.id] = batch
        return self.shown(batch)

    def named(self, request: web.Request) -> Batch:
        batch = self.batches.get(request.match_info["batch"])
        if batch is None:
            raise Refused(404, "no such batch")
        return batch

    def _finish(self, batch: Batch, end: End) -> None:
        share = 1.0 if end == "completed" else batch.fate.done
        asked, kept = round(share * len(batch.requests)), len(batch.requests) - batch.fate.missing
        for number, row in enumerate(batch.requests[:kept] if end != "failed" else ()):
            batch.results.append(self._answer(row) if number < asked else row)
        batch.end, batch.ended = end, time.time()

    def _answer(self, row: Row) -> Row:
        raw = orjson.dumps(row.body)
        seen = Seen(next(self._seen), "POST", row.path, {}, raw)
        say = self._book.answer(seen)
        self.answered[seen.prompt] += say.status < 400
        row.status, row.answer = (
            say.status,
            answer_body(row.path, say, str(row.body.get("model", "")), len(raw)),
        )
        return row


def lines(rows: Sequence[JsonDict]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)
