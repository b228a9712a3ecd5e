"""The head of a request: everything before the body, encoded once per path."""

from typing import Final
from urllib.parse import quote, urlsplit

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.http.http_proxy import HttpProxy
from nemo_evaluator.models.types import ModelRequest

#: Headers that belong to one connection.
HOP_BY_HOP: Final = frozenset(
    {
        "host",
        "content-length",
        "connection",
        "transfer-encoding",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "proxy-authorization",
        "proxy-connection",
    }
)
# Headers that only the endpoint's settings may set.
_OURS: Final = frozenset({"authorization", "x-api-key"})


class RequestHeads:
    """The request heads of one endpoint. They contain its key, so they must not be shown."""

    __slots__ = ("_base", "_fixed", "_host", "_origin", "_own", "_query", "_ready")

    def __init__(self, endpoint: Endpoint, proxy: HttpProxy | None = None) -> None:
        """Encode the headers that all requests share."""
        parts = urlsplit(endpoint.url)
        # A proxy needs the whole URL, except for TLS, which goes through a tunnel.
        http_proxy = proxy if parts.scheme == "http" else None
        self._base = parts.path
        self._query = f"?{parts.query}" if parts.query else ""
        host = parts.netloc.rpartition("@")[2]
        # The IDNA codec loads tables of Unicode, which an ASCII name does not need.
        self._host = host.encode("ascii" if host.isascii() else "idna")
        self._origin = b"http://" + self._host if http_proxy else b""
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
        if http_proxy:
            headers.update(http_proxy.header)
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
        """The headers of one request, without those that the endpoint sets itself."""
        refused_names = HOP_BY_HOP | _OURS | self._own
        further_headers: dict[str, str] = {}
        for name, value in headers.items():
            lower_name = name.lower()
            if lower_name not in refused_names:
                further_headers[lower_name] = value
        return _lines(further_headers)


def _lines(headers: dict[str, str]) -> bytes:
    """Headers as bytes; a line break inside one raises UsageError."""
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise UsageError(
            "a header contains a line break", hint="check extra_headers and headers_to_add"
        )
    return text.encode("latin-1", "replace")
