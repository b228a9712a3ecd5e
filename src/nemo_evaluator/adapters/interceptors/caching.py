"""``caching``: answers a repeated request from the store, and stores new answers."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters._streams import replay
from nemo_evaluator.adapters.cache_store import AnswerStore
from nemo_evaluator.core.files import cache_folder
from nemo_evaluator.core.hashing import canonical
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.types import ModelReply, ModelRequest, Stream

_NOTE = "cache_key"
# So many sessions are remembered.
_SESSIONS = 4096
# Fields that change how an answer is delivered or accounted for, not its content.
_DELIVERY: Final = frozenset(
    {
        "stream",
        "stream_options",
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
    }
)


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Runs next to the endpoint and stores its raw answers, so the other stages may change later.

    ``mode``: ``read`` uses stored answers, ``write`` also stores new ones, ``off`` (or ``bypass``) does neither. A
    request that is repeated within one session is sent again: its number among its repetitions is part of the key.
    """

    place = base.Place.CACHE
    observes = True
    counted = ("hits", "misses")
    hits = 0
    misses = 0
    cache_dir: str | None = None
    bypass: bool = False
    mode: Literal["read", "write", "off"] = "write"

    def __post_init__(self) -> None:
        self._dir = Path(self.cache_dir).expanduser() if self.cache_dir else cache_folder()
        self._store: AnswerStore | None = None
        self._extra: JsonDict = {}
        self._identity: Any = None
        self._occurrences: OrderedDict[str, Counter[str]] = OrderedDict()

    def bind(self, endpoint: Endpoint) -> None:
        """Remember the fields that the endpoint adds to every request: they are part of the key."""
        self._extra = endpoint.extra_body
        self._identity = endpoint.describe()["service"]

    def on_request(self, request: ModelRequest) -> ModelReply | None:
        """Answer a request from the store, if it has the answer."""
        if self.bypass or self.mode == "off" or request.path.endswith("/embeddings"):
            return None
        if self._store is None:
            self._store = AnswerStore(self._dir)
        body = {**request.body, **self._extra} if self._extra else request.body
        repeat = request.scope.repeat if request.scope is not None else 0
        request_key = cache_key(request.path, body, repeat=repeat, service=self._identity)
        key = self._numbered(request.session, request_key)
        stored = self._store.get(key)
        if stored is None:
            self.misses += 1
            request.notes[_NOTE] = key
            return None
        self.hits += 1
        reply = ModelReply(200, stored, sent=body, from_cache=True, attempts=0)
        if request.stream and not request.whole:
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            reply.stream = Stream(_stream(request.path, stored, usage))
            reply.headers = {"content-type": "text/event-stream"}
            reply.body = {}
        return reply

    async def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Store a new answer."""
        key = request.notes.pop(_NOTE, None)
        if key is None or self.mode != "write" or self._store is None:
            return
        if reply.status == 200 and reply.body and not reply.from_cache:
            await self._store.put(key, reply.body, model=str(request.body.get("model", "")))

    async def close(self) -> None:
        """Close the store."""
        store = self._store
        self._store = None
        if store is not None:
            await store.close()

    def _numbered(self, session: str | None, key: str) -> str:
        """The key with the number of its repetition in the session; the first one has no number."""
        if session is None:
            return key
        counts = self._occurrences.get(session)
        if counts is None:
            counts = self._occurrences[session] = Counter()
            if len(self._occurrences) > _SESSIONS:
                self._occurrences.popitem(last=False)
        number = counts[key]
        counts[key] += 1
        return f"{key}.{number}" if number else key


async def _stream(path: str, body: JsonDict, usage: bool) -> AsyncIterator[bytes]:
    for data in replay(path, body, usage=usage):
        yield data


def cache_key(path: str, body: JsonDict, *, repeat: int = 0, service: Any = None) -> str:
    """The key of a request.

    Args:
        path: Its path.
        body: Its body; fields that do not change the content of the answer are ignored.
        repeat: The number of the repeat of its problem.
        service: What identifies the model.

    Returns:
        64 hex digits.
    """
    fields: JsonDict = {}
    for key, value in body.items():
        if value is None or key in _DELIVERY:
            continue
        # 0 and 0.0 are the same temperature.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        fields[key] = value
    return hashlib.sha256(canonical([path, fields, repeat, service])).hexdigest()
