"""The contract of a vendor's batch API, and the HTTP calls behind it."""

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

# The form of vendors' ids; none of these characters has a meaning in a URL.
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,255}")
# How many seconds a vendor's clock may be behind ours.
SKEW = 600.0
_UNREADABLE: Final = "the vendor's result cannot be read"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a batch.

    Attributes:
        end: How it ended; empty while it is running.
        code: The error code of a batch that failed as a whole.
        why: The message of that error.
        done: How many of its requests are done, if the vendor reports it.
        sources: The paths of its results.
    """

    end: str = ""
    code: str = ""
    why: str = ""
    done: int | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one request.

    Attributes:
        status: The HTTP status; 0 if the request was not executed.
        body: The body of the answer.
        why: Why the request was not executed.
        final: The request must not be put into another batch.
        lost: How many answers to the request were paid for and cannot be read.
    """

    status: int = 0
    body: JsonDict = field(default_factory=dict)
    why: str = ""
    final: bool = False
    lost: int = 0

    @property
    def ok(self) -> bool:
        """Whether it is an answer."""
        return 0 < self.status < 400


class Vendor:
    """Submits, finds, checks, cancels and reads the batches of one vendor.

    Attributes:
        most: The largest number of requests in a batch.
        largest: The largest size of a batch, in bytes.
    """

    most: ClassVar[int]
    largest: ClassVar[int]

    def __init__(self, endpoint: Endpoint) -> None:
        """Open an HTTP session for an endpoint."""
        self.endpoint = endpoint
        waits = endpoint.timeouts
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=waits.connect, sock_read=waits.first_byte
        )
        self._http = aiohttp.ClientSession(headers=self.headers(), timeout=timeout, trust_env=True)

    def headers(self) -> dict[str, str]:
        """Return the headers of every call."""
        headers: dict[str, str] = {}
        key = self.endpoint.api_key
        if key:
            headers["authorization"] = f"Bearer {key.reveal()}"
        return {**headers, **self.endpoint.extra_headers}

    def line(self, custom_id: str, path: str, body: JsonDict) -> bytes:
        """Return one request in the form of the vendor's batches.

        Raises:
            RequestRejectedError: The request has no such form.
        """
        raise NotImplementedError

    async def upload(self, wave: Wave, lines: Sequence[bytes]) -> str | None:
        """Upload the requests of a batch, if that is a separate call. Returns the id of the file."""
        return None

    async def submit(self, wave: Wave, path: str, file: str | None, lines: Sequence[bytes]) -> str:
        """Submit a batch. Returns its id."""
        raise NotImplementedError

    async def find(self, wave: Wave, taken: Collection[str]) -> str | None:
        """Find a batch that may have been submitted.

        Args:
            wave: The batch.
            taken: Ids of other known batches.

        Returns:
            Its id; empty if the vendor does not have it; None if that cannot be known yet.
        """
        raise NotImplementedError

    async def look(self, batch: str) -> Standing:
        """Fetch the state of a batch."""
        raise NotImplementedError

    async def cancel(self, batch: str) -> None:
        """Cancel a batch."""
        raise NotImplementedError

    def result(self, row: JsonDict) -> Result:
        """Parse one line of the results; a line without the vendor's form is a lost answer."""
        try:
            return self.parse(row)
        except (KeyError, TypeError, AttributeError) as error:
            return Result(why=f"{_UNREADABLE} ({type(error).__name__}: {error})", lost=1)

    def parse(self, row: JsonDict) -> Result:
        """Parse one line of the results.

        Raises:
            KeyError, TypeError, AttributeError: The line does not have the vendor's form.
        """
        raise NotImplementedError

    def direct(self, request: ModelRequest) -> ModelRequest:
        """Convert a request to the vendor's own protocol, to send it outside of batches."""
        return request

    def read(self, body: JsonDict) -> JsonDict:
        """Convert the answer to such a request to the protocol of the service."""
        return body

    async def call(self, method: str, path: str, **options: Any) -> JsonDict:
        """Make one HTTP call and return the JSON object of the answer.

        Raises:
            TransportError: There was no answer, or it is not JSON.
            BoundaryError: The answer is an error.
        """
        try:
            async with self._http.request(method, self.endpoint.url + path, **options) as response:
                status = response.status
                raw = await response.read()
                headers = dict(response.headers)
            body = as_dict(orjson.loads(raw)) if raw else {}
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            reason = error or type(error).__name__
            raise TransportError(f"{self.endpoint.name}: {method} {path}: {reason}") from error
        if status >= 400:
            lowered = {name.lower(): value for name, value in headers.items()}
            raise error_of(ModelReply(status, body, lowered, raw=raw), self.endpoint)
        return body

    async def listed(self, path: str, after: str) -> AsyncIterator[JsonDict]:
        """Yield all batches, newest first; pages are fetched as needed."""
        query = ""
        while True:
            page = await self.call("GET", f"{path}?limit=100{query}")
            for batch in page.get("data") or ():
                yield batch
            if not page.get("has_more"):
                return
            query = f"&{after}={checked_id(page.get('last_id'))}"

    async def download(self, sources: Iterable[str]) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the results, one source after another."""
        for path in sources:
            try:
                async with self._http.get(self.endpoint.url + path) as response:
                    if response.status >= 400:
                        raw = await response.read()
                        raise error_of(ModelReply(response.status, raw=raw), self.endpoint)
                    async for data in response.content.iter_chunked(1 << 20):
                        yield data
            except (aiohttp.ClientError, TimeoutError) as error:
                reason = error or type(error).__name__
                raise TransportError(f"{self.endpoint.name}: {path}: {reason}") from error
            yield b"\n"

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def checked_id(vendor_id: object) -> str:
    """The id of a batch or a file, checked because it becomes part of URLs.

    Raises:
        TransportError: The id could lead to another URL.
    """
    if not isinstance(vendor_id, str) or not _ID.fullmatch(vendor_id) or ".." in vendor_id:
        raise TransportError(f"the vendor's id cannot be part of a URL: {str(vendor_id)[:80]!r}")
    return vendor_id


def never_sent(error: TransportError) -> bool:
    """Return whether it is certain that a call did not reach the vendor."""
    return isinstance(error.__cause__, aiohttp.ClientConnectorError)
