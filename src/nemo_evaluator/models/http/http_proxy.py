"""The HTTP proxy for a server, from the environment (``HTTPS_PROXY``, ``NO_PROXY`` and so on).

The rules are curl's, with one addition: requests to this machine never go through a proxy.
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
    """A proxy.

    Attributes:
        variable: The environment variable that names it.
        scheme: ``http`` or ``https``.
        host: Its host.
        port: Its port.
        login: User and password, as ``user:password``.
    """

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
        encoded_login = base64.b64encode(self.login.reveal().encode()).decode()
        return {"proxy-authorization": f"Basic {encoded_login}"}

    def refusal(self, status: int, reason: str, what: str) -> AuthError:
        """The error for a 4xx of the proxy itself.

        Args:
            status: The status.
            reason: The reason phrase.
            what: The URL or the host and port that it refused.

        Returns:
            An error with a hint that says what to do.
        """
        if status in (401, 407) and self.login is None:
            example = f"{self.scheme}://user:password@{self.host}:{self.port}"
            hint = f"it requires a login: set {self.variable}={example}"
        elif status in (401, 407):
            hint = f"check the user and password in {self.variable}; special characters are written as %40 and so on"
        else:
            hint = f"ask its administrator to allow {what}, or name the host in NO_PROXY if it can be reached directly"
        text = f"the proxy {self} refused to connect to {what}: HTTP {status} {reason}"
        return AuthError(text.rstrip(), hint=hint)


def proxy_for(url: str, environment: Mapping[str, str] = os.environ) -> HttpProxy | None:
    """The proxy for a URL, if there is one.

    Args:
        url: The URL.
        environment: The environment variables.

    Raises:
        UsageError: The proxy is not supported, or its URL is wrong.
    """
    parts = urlsplit(url)
    scheme = parts.scheme
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if scheme == "https" else 80)
    for variable in _variables(scheme, environment):
        value = environment.get(variable)
        if value is None:
            continue
        value = value.strip()
        if not value or _is_loopback(host) or _is_exempt(host, port, environment):
            return None
        return _parsed(variable, value)
    return None


def proxy_url(url: str) -> str | None:
    """The URL of the proxy for a URL, for libraries. It contains the login, so it must not be shown."""
    proxy = proxy_for(url)
    if proxy is None:
        return None
    if proxy.login is None:
        return str(proxy)
    user, _, password = proxy.login.reveal().partition(":")
    return str(proxy).replace("://", f"://{quote(user, safe='')}:{quote(password, safe='')}@", 1)


async def open_tunnel(
    proxy: HttpProxy, host: str, port: int, protocol: asyncio.Protocol, context: ssl.SSLContext
) -> None:
    """Connect a protocol to a server by TLS, through a tunnel of the proxy.

    Args:
        proxy: The proxy.
        host: The host of the server.
        port: The port of the server.
        protocol: The protocol to connect.
        context: The TLS settings.

    Raises:
        AuthError: The proxy refused the connection.
        WireError: The proxy could not be reached, or could not connect to the server.
    """
    transport, hello = await reach(proxy, _Hello, lambda: context)
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"host: {target}"]
        lines += [f"{name}: {value}" for name, value in proxy.header.items()]
        lines += ["", ""]
        transport.write("\r\n".join(lines).encode("latin-1"))
        status, reason = await hello.answer
        if 400 <= status < 500:
            raise proxy.refusal(status, reason, target)
        if not 200 <= status < 300:
            text = f"the proxy {proxy} could not connect to {target}: HTTP {status} {reason}"
            raise _closed(text.rstrip())
        loop = asyncio.get_running_loop()
        tls_transport = await loop.start_tls(transport, protocol, context, server_hostname=host)
        if tls_transport is None:
            raise _closed(f"the proxy {proxy} closed the connection")
        protocol.connection_made(tls_transport)
    except BaseException:
        transport.abort()
        raise


async def reach(
    proxy: HttpProxy, protocol: Callable[[], P], tls: Callable[[], ssl.SSLContext]
) -> tuple[asyncio.Transport, P]:
    """Connect a protocol to the proxy itself.

    Args:
        proxy: The proxy.
        protocol: Builds the protocol.
        tls: Builds the TLS settings, for a proxy with an ``https`` URL.

    Raises:
        WireError: The proxy could not be reached.
    """
    loop = asyncio.get_running_loop()
    context = tls() if proxy.scheme == "https" else None
    try:
        return await loop.create_connection(protocol, proxy.host, proxy.port, ssl=context)
    except OSError as error:
        text = f"no connection to the proxy {proxy} ({proxy.variable}): {error.strerror or error}"
        raise _closed(text) from error


def _closed(text: str) -> WireError:
    """The error of a proxy that did not connect to the server."""
    return WireError(text, connected=False)


class _Hello(asyncio.Protocol):
    """Reads the answer to CONNECT: its status and its reason phrase."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._received = b""

    def data_received(self, data: bytes) -> None:
        """Take the next bytes of the answer."""
        self._received += data
        head, end_of_head, after_head = self._received.partition(b"\r\n\r\n")
        is_too_large = len(self._received) > _LARGEST_HEAD
        if self.answer.done() or not (end_of_head or is_too_large):
            return
        match = re.match(rb"HTTP/1\.[01] (\d{3}) ?([^\r\n]{0,80})", head)
        if match is None or not end_of_head:
            self.answer.set_exception(_closed("the proxy answered something that is not HTTP"))
            return
        status = int(match[1])
        if status < 300 and after_head:
            # The server cannot have sent anything yet.
            self.answer.set_exception(_closed("the proxy answered something that is not HTTP"))
            return
        self.answer.set_result((status, match[2].decode("latin-1")))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the proxy has closed the connection."""
        if not self.answer.done():
            self.answer.set_exception(_closed("the proxy closed the connection"))


def _variables(scheme: str, environment: Mapping[str, str]) -> list[str]:
    """The variables that may name the proxy, the most important one first."""
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in environment:
        # In a CGI program HTTP_PROXY is the header `Proxy` of the client.
        return [name for name in names if name != "HTTP_PROXY"]
    return names


def _parsed(variable: str, value: str) -> HttpProxy:
    """The proxy in a variable."""
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
        text = f"{variable} is not the URL of an HTTP proxy"
        raise UsageError(text, hint=f"write {variable}=http://host:port")
    login: Secret | None = None
    if parts.username is not None:
        password = unquote(parts.password or "")
        login = Secret(f"{unquote(parts.username)}:{password}")
        # The password alone is masked in texts, too.
        Secret(password)
    return HttpProxy(variable, parts.scheme, host, port=port or _PORTS[parts.scheme], login=login)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_exempt(host: str, port: int, environment: Mapping[str, str]) -> bool:
    """Whether NO_PROXY exempts a host."""
    listed = environment.get("no_proxy", environment.get("NO_PROXY", ""))
    entries = [entry.lower() for entry in re.split(r"[\s,]+", listed) if entry]
    return any(_covers(entry, host, port) for entry in entries)


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY covers a host.

    Args:
        entry: ``*``, a name (which covers all names below it), an address or a network; each may have a port.
        host: The host.
        port: The port.
    """
    if entry == "*":
        return True
    with_port = re.fullmatch(r"(\[[^\]]*\]|[^:]*):(\d+)", entry)
    if with_port is not None:
        entry = with_port[1]
        if int(with_port[2]) != port:
            return False
    entry = entry.strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        name = entry.removeprefix("*").strip(".")
        return host == name or host.endswith(f".{name}")
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False
