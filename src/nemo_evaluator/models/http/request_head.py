"""The head of a request: everything before the body, put together once per path."""

from typing import Final
from urllib.parse import quote, urlsplit

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.http.http_proxy import HttpProxy
from nemo_evaluator.models.types import ModelRequest

HOP_BY_HOP: Final = frozenset(
    {
        *(
            "host",
            "content-length",
            "connection",
            "transfer-encoding",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
        ),
        *("expect", "proxy-authorization", "proxy-connection"),
    }
)
_OURS: Final = frozenset({"authorization", "x-api-key"})


class RequestHeads:
    """Request heads of one endpoint. They hold its key, so they are never shown."""

    __slots__ = ("_base", "_fixed", "_host", "_origin", "_own", "_query", "_ready")

    def __init__(self, endpoint: Endpoint, proxy: HttpProxy | None = None) -> None:
        parts = urlsplit(endpoint.url)
        # A proxy is told the whole URL, unless it only holds a tunnel open.
        asked = proxy if parts.scheme == "http" else None
        self._base = parts.path
        self._query = f"?{parts.query}" if parts.query else ""
        self._host = parts.netloc.rpartition("@")[2].encode("idna")
        self._origin = b"http://" + self._host if asked else b""
        headers = {
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "nemo-evaluator",
        }
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key.reveal()}"
        for name, value in endpoint.extra_headers.items():
            if name.lower() not in HOP_BY_HOP:
                headers[name.lower()] = str(value)
        if asked:
            headers.update(asked.header)
        self._own = frozenset(headers)
        self._fixed = _lines(headers)
        self._ready: dict[str, bytes] = {}

    def request(self, request: ModelRequest, data: bytes) -> bytes:
        """The whole request as bytes."""
        head = self._ready.get(request.path)
        if head is None:
            target = quote(f"{self._base}{request.path}{self._query}", safe="%/?:@!$&'()*+,;=~")
            line = b"POST %b%b HTTP/1.1" % (self._origin, target.encode())
            head = b"%b\r\nhost: %b\r\n%b" % (line, self._host, self._fixed)
            self._ready[request.path] = head
        if request.headers:
            head += self._further(request.headers)
        return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(data), data)

    def _further(self, headers: dict[str, str]) -> bytes:
        given = {name.lower(): value for name, value in headers.items()}
        refused = HOP_BY_HOP | _OURS | self._own
        return _lines({name: value for name, value in given.items() if name not in refused})


def _lines(headers: dict[str, str]) -> bytes:
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise UsageError(
            "a header contains a line break", hint="check extra_headers and headers_to_add"
        )
    return text.encode("latin-1", "replace")
