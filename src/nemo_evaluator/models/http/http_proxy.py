"""The HTTP proxy on the way to a server, as the environment names it (``HTTPS_PROXY``, ``NO_PROXY`` and so on).

The rules are curl's, with one addition: this machine itself is never asked for through a proxy.
"""

import asyncio
import base64
import os
import re
import ssl
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

from nemo_evaluator.core.errors import AuthError, UsageError
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.models.http.answer import WireError

_LARGEST_HEAD: Final = 64 * 2**10
_PORTS: Final = {"http": 1080, "https": 443}
P = TypeVar("P", bound=asyncio.Protocol)


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """A proxy, the variable that names it, and the login for it."""

    variable: str
    scheme: str
    host: str
    port: int
    login: Secret | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def header(self) -> dict[str, str]:
        """The login as a header."""
        if self.login is None:
            return {}
        return {
            "proxy-authorization": f"Basic {base64.b64encode(self.login.reveal().encode()).decode()}"
        }

    def refusal(self, status: int, reason: str, what: str) -> AuthError:
        """A 4xx of the proxy itself as an error that says what to do."""
        if status in (401, 407) and self.login is None:
            hint = f"it asks for a login: write {self.variable}={self.scheme}://user:password@{self.host}:{self.port}"
        elif status in (401, 407):
            hint = f"check the user and password in {self.variable}; special characters are written as %40 and so on"
        else:
            hint = f"ask its administrator to allow {what}, or name the host in NO_PROXY if it can be reached directly"
        return AuthError(
            f"the proxy {self} refused the way to {what}: HTTP {status} {reason}".rstrip(),
            hint=hint,
        )


def proxy_for(url: str, environment: Mapping[str, str] = os.environ) -> HttpProxy | None:
    """The proxy for a URL, or None. Raises UsageError for one that cannot be used."""
    parts = urlsplit(url)
    scheme = parts.scheme
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if scheme == "https" else 80)
    for variable in _variables(scheme, environment):
        value = environment.get(variable)
        if value is None:
            continue
        value = value.strip()
        if not value or _is_here(host) or _is_exempt(host, port, environment):
            return None
        return _parsed(variable, value)
    return None


def proxy_url(url: str) -> str | None:
    """The proxy for a URL as libraries want it: with the login in it, so never to be shown."""
    proxy = proxy_for(url)
    if proxy is None or proxy.login is None:
        if proxy:
            return str(proxy)
        return None
    user, _, password = proxy.login.reveal().partition(":")
    return str(proxy).replace("://", f"://{quote(user, safe='')}:{quote(password, safe='')}@", 1)


async def open_tunnel(
    proxy: HttpProxy, host: str, port: int, protocol: asyncio.Protocol, context: ssl.SSLContext
) -> None:
    """Connect a protocol to a server by TLS, through a tunnel of the proxy."""
    transport, hello = await reach(proxy, _Hello, lambda: context)
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [
            f"CONNECT {target} HTTP/1.1",
            f"host: {target}",
            *(f"{k}: {v}" for k, v in proxy.header.items()),
        ]
        transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        status, reason = await hello.answer
        if 400 <= status < 500:
            raise proxy.refusal(status, reason, target)
        if not 200 <= status < 300:
            raise _closed(
                f"the proxy {proxy} found no way to {target}: HTTP {status} {reason}".rstrip()
            )
        loop = asyncio.get_running_loop()
        inner = await loop.start_tls(transport, protocol, context, server_hostname=host)
        if inner is None:
            raise _closed(f"the proxy {proxy} closed the connection")
        protocol.connection_made(inner)
    except BaseException:
        transport.abort()
        raise


async def reach(
    proxy: HttpProxy, protocol: Callable[[], P], tls: Callable[[], ssl.SSLContext]
) -> tuple[asyncio.Transport, P]:
    """Connect a protocol to the proxy itself."""
    loop = asyncio.get_running_loop()
    if proxy.scheme == "https":
        outer: ssl.SSLContext | None = tls()
    else:
        outer = None
    try:
        return await loop.create_connection(protocol, proxy.host, proxy.port, ssl=outer)
    except OSError as error:
        text = f"no connection to the proxy {proxy} ({proxy.variable}): {error.strerror or error}"
        raise _closed(text) from error


def _closed(text: str) -> WireError:
    """The proxy did not open a way to the server."""
    return WireError(text, connected=False)


class _Hello(asyncio.Protocol):
    """Reads the answer to CONNECT, and not a byte more."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._got = b""

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, rest = self._got.partition(b"\r\n\r\n")
        if self.answer.done() or not (found or len(self._got) > _LARGEST_HEAD):
            return
        said = re.match(rb"HTTP/1\.[01] (\d{3}) ?([^\r\n]{0,80})", head)
        if said:
            status = int(said[1])
        else:
            status = 0
        if said is None or not found or (status < 300 and rest):
            self.answer.set_exception(_closed("the proxy answered something that is not HTTP"))
        else:
            self.answer.set_result((status, said[2].decode("latin-1")))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(_closed("the proxy closed the connection"))


def _variables(scheme: str, environment: Mapping[str, str]) -> list[str]:
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in environment:
        # In a CGI program HTTP_PROXY is the header `Proxy` of whoever asks.
        return [name for name in names if name != "HTTP_PROXY"]
    return names


def _parsed(variable: str, value: str) -> HttpProxy:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host = parts.hostname
        port = parts.port
    except ValueError:
        parts = urlsplit("")
        host = None
        port = None
    if parts.scheme.startswith("socks"):
        hint = f"name an HTTP proxy (http://host:port) in {variable}, or the service's host in NO_PROXY"
        raise UsageError(f"{variable} names a SOCKS proxy, which is not supported", hint=hint)
    if not host or parts.scheme not in _PORTS:
        raise UsageError(
            f"{variable} is not the URL of an HTTP proxy", hint=f"write {variable}=http://host:port"
        )
    login: Secret | None = None
    if parts.username is not None:
        password = unquote(parts.password or "")
        login = Secret(f"{unquote(parts.username)}:{password}")
        Secret(password)
    return HttpProxy(variable, parts.scheme, host, port=port or _PORTS[parts.scheme], login=login)


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_exempt(host: str, port: int, environment: Mapping[str, str]) -> bool:
    listed = environment.get("no_proxy", environment.get("NO_PROXY", ""))
    return any(_covers(entry.lower(), host, port) for entry in re.split(r"[\s,]+", listed) if entry)


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether a word of NO_PROXY means a host: ``*``, a name and all below it, an address or a network; with a port."""
    if entry == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    with_port = re.fullmatch(r"(\[[^\]]*\]|[^:]*):(\d+)", entry)
    if with_port is not None:
        entry = with_port[1]
        only = int(with_port[2])
        if only != port:
            return False
    entry = entry.strip("[]")
    if address is not None:
        try:
            return address in ip_network(entry, strict=False)
        except ValueError:
            return False
    name = entry.removeprefix("*").strip(".")
    return host == name or host.endswith(f".{name}")
