"""HTTP proxies on the way to a service: which one, and through a real one (tinyproxy, with a login)."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvloop
from nel_support import SUMS, Nel, api, bench, rows

from nemo_evaluator.core.errors import AuthError, TransportError, UsageError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.models.client import Client
from nemo_evaluator.models.endpoint import Endpoint, Timeouts
from nemo_evaluator.models.http import pool as pool_module
from nemo_evaluator.models.http.http_proxy import proxy_for, proxy_url
from nemo_evaluator.models.retry import RetryConfig
from nemo_evaluator.testing import Say, ScriptedServer
from nemo_evaluator.testing._connection import Connection

PASSWORD = "p_ss.word-of-21-chars"
LOGIN = "evaluator:p%5Fss.word-of-21-chars"


@pytest.mark.parametrize(
    ("url", "environment", "found"),
    [
        ("https://api.example.com/v1", {}, None),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        (
            "https://api.example.com/v1",
            {"https_proxy": "p:3128", "HTTPS_PROXY": "http://q"},
            "http://p:3128",
        ),
        ("https://api.example.com/v1", {"https_proxy": "", "HTTPS_PROXY": "http://q"}, None),
        ("https://api.example.com/v1", {"HTTP_PROXY": "http://p"}, None),
        ("http://api.example.com/v1", {"HTTP_PROXY": "http://p"}, "http://p:1080"),
        ("http://api.example.com/v1", {"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}, None),
        ("http://api.example.com/v1", {"ALL_PROXY": "https://p"}, "https://p:443"),
        ("http://127.0.0.1:8000/v1", {"ALL_PROXY": "http://p"}, None),
        ("http://localhost:8000/v1", {"ALL_PROXY": "http://p"}, None),
        ("http://[::1]:8000/v1", {"ALL_PROXY": "http://p"}, None),
        ("http://10.1.2.3/v1", {"ALL_PROXY": "http://[fd00::1]:8"}, "http://[fd00::1]:8"),
    ],
)
def test_which_proxy(url, environment, found):
    proxy = proxy_for(url, environment)
    assert (str(proxy) if proxy else None) == found


@pytest.mark.parametrize(
    ("listed", "url", "exempt"),
    [
        ("*", "https://api.example.com", True),
        ("example.com", "https://api.example.com", True),
        ("example.com", "https://example.com", True),
        (".example.com", "https://api.EXAMPLE.com", True),
        ("*.example.com", "https://api.example.com.", True),
        ("example.com", "https://badexample.com", False),
        ("foo, example.com", "https://api.example.com", True),
        ("foo example.com", "https://api.example.com", True),
        ("example.com:443", "https://api.example.com", True),
        ("example.com:8443", "https://api.example.com", False),
        ("10.0.0.0/8", "https://10.20.30.40", True),
        ("10.0.0.0/8", "https://11.20.30.40", False),
        ("10.20.30.40", "https://10.20.30.40:8000", True),
        ("fd00::/8", "https://[fd00::7]", True),
        ("[fd00::7]:443", "https://[fd00::7]", True),
        ("0.0.10", "https://10.0.0.10", False),
        ("", "https://api.example.com", False),
    ],
)
def test_no_proxy(listed, url, exempt):
    for name in ("no_proxy", "NO_PROXY"):
        assert (proxy_for(url, {"HTTPS_PROXY": "http://p:1", name: listed}) is None) is exempt


def test_unusable_proxies_are_refused_with_the_fix():
    with pytest.raises(UsageError, match="SOCKS") as refused:
        proxy_for("https://api.example.com", {"ALL_PROXY": f"socks5://{LOGIN}@p:1"})
    assert "NO_PROXY" in (refused.value.hint or "") and "word-of" not in str(refused.value)
    with pytest.raises(UsageError, match="HTTPS_PROXY is not the URL") as refused:
        proxy_for("https://api.example.com", {"HTTPS_PROXY": f"http://{LOGIN}@p:port"})
    assert "word-of" not in str(refused.value)


def test_login_is_a_secret(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://evaluator:p%40ss%3Aword-of-21-chars@p:3128")
    proxy = proxy_for("https://api.example.com")
    assert proxy is not None
    assert (
        "word-of"
        not in f"{proxy} {proxy!r} {proxy.refusal(407, '', 'x')} {proxy.refusal(407, '', 'x').hint}"
    )
    assert (
        scrub(f"said p@ss:word-of-21-chars, {proxy.header['proxy-authorization']}").count("***")
        == 2
    )
    assert (
        proxy_url("https://api.example.com") == "http://evaluator:p%40ss%3Aword-of-21-chars@p:3128"
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 0.0.0.0: an address that reaches this machine and that no rule takes for loopback."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    words += ["-addext", "subjectAltName=IP:0.0.0.0", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


class Tiny:
    """A running tinyproxy."""

    def __init__(self, port: int, log: Path) -> None:
        self.port, self._log = port, log

    def url(self, login: str = LOGIN) -> str:
        return f"http://{login}@127.0.0.1:{self.port}" if login else f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        return self._log.read_text()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Iterator[Tiny]:
    folder = tmp_path_factory.mktemp("tinyproxy")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log, settings = folder / "log", folder / "conf"
    lines = [
        f"Port {port}",
        "Listen 127.0.0.1",
        f"BasicAuth evaluator {PASSWORD}",
        f'LogFile "{log}"',
    ]
    settings.write_text("\n".join([*lines, "LogLevel Info", "MaxClients 50", "Timeout 60", ""]))
    process = subprocess.Popen(
        ["tinyproxy", "-d", "-c", settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield Tiny(port, log)
    finally:
        process.terminate()
        process.wait(10)


async def secured(server: ScriptedServer, context: ssl.SSLContext) -> asyncio.Server:
    """The same script behind TLS."""
    return await asyncio.get_running_loop().create_server(
        lambda: Connection(server), "127.0.0.1", 0, ssl=context
    )


def client(url: str) -> Client:
    return Client(Endpoint("m", url, timeouts=Timeouts(connect=5), retry=RetryConfig(0, 0.1, 0.1)))


@pytest.fixture
def trusted(authority, monkeypatch) -> Iterator[ssl.SSLContext]:
    cert, context = authority
    pool_module._tls_context.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    yield context
    pool_module._tls_context.cache_clear()


def at_0(port: int, scheme: str = "https") -> str:
    return f"{scheme}://0.0.0.0:{port}/v1"


@pytest.mark.needs("tinyproxy", "openssl")
async def test_tls_through_a_tunnel_with_a_login(tiny, trusted, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", tiny.url())
    async with ScriptedServer(Say("42")) as server, await secured(server, trusted) as outer:
        port = outer.sockets[0].getsockname()[1]
        one = client(at_0(port))
        for _ in range(3):
            assert (await one.chat([{"role": "user", "content": "6 x 7?"}])).content == "42"
        await one.close()
        outer.close()
    assert server.count == 3
    assert tiny.said().count(f"CONNECT 0.0.0.0:{port}") == 1, "one tunnel, used again"
    assert not any("proxy-authorization" in seen.headers for seen in server.requests), (
        "the login is the proxy's alone"
    )


@pytest.mark.needs("tinyproxy", "openssl")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_proxy_that_speaks_tls_itself(tiny, trusted, monkeypatch, loops, scheme):
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, back = await asyncio.open_connection("127.0.0.1", tiny.port)
        await asyncio.gather(relay(reader, back), relay(inner, writer), return_exceptions=True)

    async def ask() -> str:
        async with ScriptedServer(Say("42")) as server, await secured(server, trusted) as outer:
            front = await asyncio.start_server(join, "127.0.0.1", 0, ssl=trusted)
            monkeypatch.setenv(
                "ALL_PROXY", f"https://{LOGIN}@0.0.0.0:{front.sockets[0].getsockname()[1]}"
            )
            port = (
                outer.sockets[0].getsockname()[1]
                if scheme == "https"
                else urlsplit(server.url).port
            )
            one = client(at_0(port, scheme))
            answer = await one.chat([{"role": "user", "content": "?"}])
            await one.close()
            front.close()
            outer.close()
            await asyncio.sleep(0.1)
            return answer.content

    with asyncio.Runner(loop_factory=loops) as runner:
        assert runner.run(ask()) == "42"


@pytest.mark.needs("tinyproxy", "openssl")
async def test_server_behind_the_tunnel_must_prove_itself(tiny, authority, monkeypatch):
    pool_module._tls_context.cache_clear()
    monkeypatch.setenv("HTTPS_PROXY", tiny.url())
    async with ScriptedServer("42") as server, await secured(server, authority[1]) as outer:
        one = client(at_0(outer.sockets[0].getsockname()[1]))
        with pytest.raises(TransportError, match="certificate"):
            await one.chat([{"role": "user", "content": "?"}])
        await one.close()
        outer.close()
    assert server.count == 0


@pytest.mark.needs("tinyproxy")
async def test_plain_http_goes_in_absolute_form(tiny, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", tiny.url())
    async with ScriptedServer(Say("42")) as server:
        port = urlsplit(server.url).port
        one = client(at_0(port, "http"))
        assert (await one.chat([{"role": "user", "content": "?"}])).content == "42"
        await one.close()
    assert f"POST http://0.0.0.0:{port}/v1/chat/completions" in tiny.said()


# For a wrong password tinyproxy says 401 where the standard says 407.
@pytest.mark.needs("tinyproxy")
@pytest.mark.parametrize(
    ("scheme", "login", "fix"),
    [
        ("http", "", "user:password@"),
        ("https", "", "user:password@"),
        ("https", "evaluator:wrong-password-1", "check the user"),
    ],
)
async def test_refused_login_says_the_fix_and_is_not_tried_again(
    tiny, monkeypatch, scheme, login, fix
):
    monkeypatch.setenv("ALL_PROXY", tiny.url(login))
    async with ScriptedServer("42") as server:
        one = Client(
            Endpoint("m", at_0(urlsplit(server.url).port, scheme), retry=RetryConfig(5, 0.01, 0.1))
        )
        with pytest.raises(
            AuthError, match=rf"the proxy http://127.0.0.1:{tiny.port} refused .* HTTP 40[17]"
        ) as refused:
            await one.chat([{"role": "user", "content": "?"}])
        await one.close()
    assert fix in (refused.value.hint or "")
    assert "wrong-password" not in f"{refused.value} {refused.value.hint}"
    assert server.count == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxy_that_is_down_is_named_without_its_password(monkeypatch, scheme):
    monkeypatch.setenv("ALL_PROXY", f"http://{LOGIN}@127.0.0.1:9")
    one = client(at_0(7, scheme))
    with pytest.raises(
        TransportError, match=r"no connection to the proxy http://127.0.0.1:9 \(ALL_PROXY\)"
    ) as failed:
        await one.chat([{"role": "user", "content": "?"}])
    await one.close()
    assert "word-of" not in str(failed.value)


@pytest.mark.needs("tinyproxy", "openssl")
def test_run_through_a_proxy_leaves_no_password(tiny, authority, tmp_path):
    cert, context = authority
    nel = Nel(tmp_path)
    nel.env |= {"https_proxy": tiny.url(), "SSL_CERT_FILE": str(cert)}
    (tmp_path / "sums.py").write_text(SUMS.format(size=6))
    with ScriptedServer("6", api_key="sk-0123456789abcdef") as server:
        nel.env["MODEL_KEY"] = "sk-0123456789abcdef"
        outer = asyncio.run_coroutine_threadsafe(secured(server, context), server.loop).result(10)
        port = outer.sockets[0].getsockname()[1]
        service = api(at_0(port), api_key="${MODEL_KEY}")
        config = nel.config("c.yaml", services={"model": service}, benchmarks=[bench("sums.py")])
        done = nel("eval", "run", config)
        server.loop.call_soon_threadsafe(outer.close)
    assert len(rows(tmp_path / "eval_results" / "sums")) == server.count == 6
    assert f"CONNECT 0.0.0.0:{port}" in tiny.said()
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    token = base64.b64encode(f"evaluator:{PASSWORD}".encode())
    for text in [*texts, done.stdout.encode(), done.stderr.encode()]:
        assert PASSWORD.encode() not in text and token not in text
