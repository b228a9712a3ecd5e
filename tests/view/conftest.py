"""A served viewer, and a browser that notices every error, dialog and request to elsewhere."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest


@dataclass(frozen=True)
class Served:
    """A running ``nel view``."""

    url: str
    pid: int

    @property
    def address(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def token(self) -> str:
        return urlsplit(self.url).path.strip("/")

    def ask(
        self, path: str, method: str = "GET", body: str = "", **headers: str
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        connection.request(method, path, body=body or None, headers=headers)
        reply = connection.getresponse()
        body_read = reply.read()
        connection.close()
        return reply.status, body_read

    def api(self, name: str, **query: Any) -> Any:
        status, body = self.ask(f"/{self.token}/api/{name}?{urlencode(query)}")
        assert status == 200, body
        return json.loads(body)

    def key(self, name: str) -> str:
        found: str = next(
            run["key"] for run in self.api("runs")["runs"] if run["path"].endswith(f"/{name}")
        )
        return found


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Path], Served]]:
    """Starts ``nel view`` on a folder; all are stopped at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path) -> Served:
        command = [
            sys.executable,
            "-m",
            "nemo_evaluator.cli.main",
            "view",
            str(folder),
            "--port",
            "0",
            "--no-open",
        ]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout is not None
        return Served(child.stdout.readline().strip().partition("#")[0], child.pid)

    yield start
    for child in started:
        child.terminate()
        child.communicate(timeout=90)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a module."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as parts:
        browser = parts.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page on which nothing may go wrong: no error, no dialog, no request to anywhere but loopback."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("dialog", lambda dialog: (wrong.append("a dialog opened"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: None if _local(request.url) else wrong.append(f"asked for {request.url}"),
    )
    yield page
    page.close()
    assert wrong == []


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:", "file:"))
