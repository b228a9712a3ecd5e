"""The contract of a vendor's batch API, and the calls that each of them is made of."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import aiohttp
import orjson

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.batch.ledger import Wave
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.models.types import ModelReply, ModelRequest

# What the ids of vendors look like; nothing in them means anything in a URL.
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,255}")
# How far a vendor's clock may be behind ours.
SKEW = 600.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How a batch stands: under way while ``end`` is empty; ``code`` and ``why`` of one that failed as a whole."""

    end: str = ""
    code: str = ""
    why: str = ""
    # How many of its requests are done, where the vendor says so.
    done: int | None = None
    # Where its results are.
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one request: an HTTP status with a body, or the reason why it was not asked.

    ``final`` tells that it is not to be put into another batch.
    """

    status: int = 0
    body: JsonDict = field(default_factory=dict)
    why: str = ""
    final: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is an answer."""
        return 0 < self.status < 400


class Vendor:
    """One vendor's way to submit, find, look at, cancel and read batches."""

    most: ClassVar[int]
    largest: ClassVar[int]

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        waits = endpoint.timeouts
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=waits.connect, sock_read=waits.first_byte
        )
        self._http = aiohttp.ClientSession(headers=self.headers(), timeout=timeout, trust_env=True)

    def headers(self) -> dict[str, str]:
        """Who is asking."""
        key = self.endpoint.api_key
        return {
            **({"authorization": f"Bearer {key.reveal()}"} if key else {}),
            **self.endpoint.extra_headers,
        }

    def line(self, custom_id: str, path: str, body: JsonDict) -> bytes:
        """One request as the vendor reads it in a batch. Raises RequestRejectedError when it has no form there."""
        raise NotImplementedError

    async def upload(self, wave: Wave, lines: Sequence[bytes]) -> str | None:
        """Hand the requests over before the batch, where that is a call of its own."""
        return None

    async def submit(self, wave: Wave, path: str, file: str | None, lines: Sequence[bytes]) -> str:
        """Submit a batch; returns its id."""
        raise NotImplementedError

    async def find(self, wave: Wave, taken: Collection[str]) -> str | None:
        """The batch that may have been submitted: its id, empty when there is none, None when that shows later."""
        raise NotImplementedError

    async def look(self, batch: str) -> Standing:
        """How a batch stands."""
        raise NotImplementedError

    async def cancel(self, batch: str) -> None:
        """Ask for the end of a batch."""
        raise NotImplementedError

    def result(self, row: JsonDict) -> Result:
        """What one line of the results says."""
        raise NotImplementedError

    def direct(self, request: ModelRequest) -> ModelRequest:
        """A request outside of batches, as the vendor's own protocol has it."""
        return request

    def read(self, body: JsonDict) -> JsonDict:
        """The answer to it, in the protocol of the service."""
        return body

    async def call(self, method: str, path: str, **options: Any) -> JsonDict:
        """One call; raises the BoundaryError of what came back, or TransportError when nothing did."""
        try:
            async with self._http.request(method, self.endpoint.url + path, **options) as response:
                status = response.status
                raw = await response.read()
                headers = dict(response.headers)
            if raw:
                body = as_dict(orjson.loads(raw))
            else:
                body = {}
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise TransportError(
                f"{self.endpoint.name}: {method} {path}: {error or type(error).__name__}"
            ) from error
        if status >= 400:
            lowered = {name.lower(): value for name, value in headers.items()}
            raise error_of(ModelReply(status, body, lowered, raw=raw), self.endpoint)
        return body

    async def listed(self, path: str, after: str) -> AsyncIterator[JsonDict]:
        """Batches, newest first, over as many pages as are asked for."""
        query = ""
        while True:
            page = await self.call("GET", f"{path}?limit=100{query}")
            for one in page.get("data") or ():
                yield one
            if not page.get("has_more"):
                return
            query = f"&{after}={checked_id(page.get('last_id'))}"

    async def download(self, sources: Iterable[str]) -> AsyncGenerator[bytes, None]:
        """The bytes of the results, one source after another."""
        for path in sources:
            try:
                async with self._http.get(self.endpoint.url + path) as response:
                    if response.status >= 400:
                        raise error_of(
                            ModelReply(response.status, raw=await response.read()), self.endpoint
                        )
                    async for data in response.content.iter_chunked(1 << 20):
                        yield data
            except (aiohttp.ClientError, TimeoutError) as error:
                raise TransportError(
                    f"{self.endpoint.name}: {path}: {error or type(error).__name__}"
                ) from error
            yield b"\n"

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.close()


def checked_id(vendor_id: object) -> str:
    """The id of a batch or a file, which becomes part of URLs. Raises TransportError where it could lead elsewhere."""
    if not isinstance(vendor_id, str) or not _ID.fullmatch(vendor_id) or ".." in vendor_id:
        raise TransportError(f"the vendor's id cannot be part of a URL: {str(vendor_id)[:80]!r}")
    return vendor_id


def never_sent(error: TransportError) -> bool:
    """Whether a call surely did not reach the vendor."""
    return isinstance(error.__cause__, aiohttp.ClientConnectorError)
