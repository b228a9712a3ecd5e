"""``inspect view`` itself, in a real browser, shows what was exported."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_evaluator.exporters import export_bundles

pytestmark = [pytest.mark.needs("inspect", "chromium"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def view(run_dir: Path) -> Iterator[str]:
    """The viewer over one log of each form; its address."""
    export_bundles("inspect", [run_dir / "gsm8k"], output_dir=run_dir)
    export_bundles("inspect", [run_dir / "agents"], {"format": "json"}, output_dir=run_dir)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("inspect")),
        "view",
        "start",
        "--log-dir",
        str(run_dir),
    ]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(address, timeout=2).close()
                break
            except OSError:
                assert server.poll() is None, "the viewer ended"
                assert time.monotonic() < deadline, "the viewer did not start"
                time.sleep(0.1)
        yield address
    finally:
        server.kill()
        server.wait()


def test_the_viewer_shows_samples_scores_errors_and_messages(view: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as parts:
        browser = parts.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1800, "height": 900})
        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.goto(f"{view}/#/logs/gsm8k/gsm8k_inspect.eval")
        page.get_by_text("transport: reset").wait_for()
        shown = page.inner_text("body")
        for text in (
            "4 Samples",
            "2 x 2 samples",
            "JUDGE",
            "STRICT",
            "1 min 1 sec",
            "question 1",
            "0.75",
        ):
            assert text in shown, text
        page.goto(f"{view}/#/logs/agents/agents_inspect.json/samples/sample/0/2")
        page.get_by_text("be brief").wait_for()
        shown = page.inner_text("body")
        for text in (
            "how many files?",
            "https://pictures.example/1.png",
            "bash",
            "a b c",
            "counted",
            "three",
        ):
            assert text in shown, text
        assert "NaN" not in shown
        assert broken == []
        browser.close()
