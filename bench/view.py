"""``nel view`` and ``nel eval status`` on a large run: the index, filters, the search, what a browser paints, memory.

``NEL_BENCH_ROWS`` sets the number of rows (default 1,000,000 of 4 KB, which need 5 GB of disk for some minutes). What
needs Chromium with playwright, or Inspect, is left out with a word where these are absent.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

import psutil

from bench.big_run import make_journal, make_run
from nemo_evaluator.core.files import write_json
from nemo_evaluator.runs.folder import RunFolder
from nemo_evaluator.store.lock import folder_lock

_ROWS = int(os.environ.get("NEL_BENCH_ROWS", "1000000"))
_BESIDE = min(_ROWS, 10_000)
_FILTERS = (
    {"status": "failed"},
    {"category": "law"},
    {"truncated": "1"},
    {"min_tokens": "1900"},
    {"max_reward": "0"},
)
_NEL = (sys.executable, "-m", "nemo_evaluator.cli.main")


def rows() -> list[dict[str, object]]:
    """The limits of the viewer."""
    folder = Path(tempfile.mkdtemp(prefix="nel-bench-view-"))
    try:
        task = make_run(folder / "run", _ROWS)
        started = time.perf_counter()
        with RunFolder(folder / "run").benchmarks[task.name].reading():
            built = time.perf_counter() - started
        found = [
            _row(
                "index built where it was missing",
                _ROWS / built / 1000,
                "1,000 rows/s",
                100,
                at_least=True,
            )
        ]
        found.append(_row("nel eval status while it runs", _status(folder / "running"), "s", 0.5))
        found += _served(folder / "run")
        shutil.rmtree(folder / "run")
        return [*found, *_beside_inspect(folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _row(
    name: str, value: float, unit: str, limit: float | None, **more: object
) -> dict[str, object]:
    rows = more.pop("rows", _ROWS)
    return {
        "name": f"view, {rows:,} rows: {name}",
        "value": value,
        "unit": unit,
        "limit": limit,
        **more,
    }


def _status(run: Path) -> float:
    """The time of ``nel eval status`` on a run that has a journal and its index, while somebody holds its folder."""
    task = make_journal(run, _ROWS)
    facts = {
        "run_id": "20261117_000000_00000000",
        "executor": "local",
        "output_dir": str(run),
        "config_summary": "",
    }
    write_json(
        run / "nel_run.json", facts | {"started_at": "2026-11-17T00:00:00+00:00", "details": {}}
    )
    write_json(
        run / "checkpoint.json",
        {"sessions": {task.name: {"planned": 2 * _ROWS, "done": 0, "at": time.time()}}},
    )
    with folder_lock(run), RunFolder(run).benchmarks[task.name].reading():
        words = [*_NEL, "eval", "status", "-o", str(run)]
        started = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True)
        taken = time.perf_counter() - started
    assert f"{_ROWS}/{2 * _ROWS} done" in done.stdout and "Running:  yes" in done.stdout, done
    return taken


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextlib.contextmanager
def _viewer(folder: Path) -> Iterator[tuple[int, SplitResult]]:
    """``nel view`` on a folder: its process and its URL."""
    command = [*_NEL, "view", str(folder), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child.pid, urlsplit(child.stdout.readline().strip())
        finally:
            child.terminate()


def _served(folder: Path) -> list[dict[str, object]]:
    with _viewer(folder) as (pid, url):
        token, key = url.path.strip("/"), url.fragment.rpartition("/")[2]
        where = {"run": key, "bench": "made_up"}

        def ask(name: str, first: bool = False, **query: str) -> bytes:
            connection = http.client.HTTPConnection(url.netloc, timeout=600)
            connection.request("GET", f"/{token}/api/{name}?{urlencode(where | query)}")
            reply = connection.getresponse()
            got = reply.readline() if first else reply.read()
            assert reply.status == 200, got
            connection.close()
            return got

        painted = _painted(url, key)
        filters = [_timed(lambda one=one: ask("rows", limit="50", **one)) for one in _FILTERS]  # type: ignore[misc]
        hit = _timed(lambda: json.loads(ask("search", first=True, text="needle-")))
        return [
            *painted,
            _row("a filter for the first time, the slowest", max(filters) * 1000, "ms", 100),
            _row("first hit of a search", hit, "s", 1),
            _row("memory of the server", psutil.Process(pid).memory_info().rss / 1e6, "MB", 150),
        ]


def _painted(url: SplitResult, key: str) -> list[dict[str, object]]:
    """From asking for a page to its content in the browser; each page in a browser of its own."""
    root = f"{url.scheme}://{url.netloc}{url.path}"
    pages = {
        "run": (f"{root}#/run/{key}", ".benchmark .facts"),
        "rows": (f"{root}#/rows/{key}/made_up", ".grid-row .chip"),
    }
    found = []
    for name, (address, content) in pages.items():
        taken = _first_paint(address, content)
        if taken is not None:
            found.append(_row(f"first paint of the page of the {name}", taken, "s", 1))
    return found


@functools.cache
def _browser() -> str | None:
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None or importlib.util.find_spec("playwright") is None:
        print(
            "left out: what a browser paints, since Chromium or playwright is absent (`make parts` gets both)"
        )
        return None
    return found


def _first_paint(address: str, content: str) -> float | None:
    browser = _browser()
    if browser is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as parts:
        window = parts.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page: Any = window.new_page(viewport={"width": 1280, "height": 900})
        page.goto("about:blank")
        taken = _timed(
            lambda: (
                page.goto(address, wait_until="commit"),
                page.wait_for_selector(content, timeout=120_000),
            )
        )
        window.close()
    return taken


def _beside_inspect(folder: Path) -> list[dict[str, object]]:
    """The rows of a smaller run on their pages: ours, and that of Inspect's viewer on a log of the same rows."""
    command = shutil.which("inspect", path=str(Path(sys.executable).parent)) or shutil.which(
        "inspect"
    )
    if command is None:
        print("left out: Inspect's viewer on the same rows, since inspect_ai is absent")
        return []
    run = make_run(folder / "beside", _BESIDE).parent
    with _viewer(run) as (_, url):
        ours = _first_paint(
            f"{url.scheme}://{url.netloc}{url.path}#/rows/{url.fragment.rpartition('/')[2]}/made_up",
            ".chip",
        )
    if ours is None:
        return []
    logs = folder / "logs"
    export = [*_NEL, "export", str(run), "--dest", "inspect", "--output-dir", str(logs)]
    subprocess.run(export, check=True, capture_output=True)
    (log,) = logs.rglob("*.eval")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    view = [command, "view", "start", "--log-dir", str(log.parent), "--port", str(port)]
    with subprocess.Popen(view, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            _answers(port)
            theirs = _first_paint(
                f"http://127.0.0.1:{port}/#/logs/{log.name}/samples", "text=Question"
            )
        finally:
            child.terminate()
    assert theirs is not None
    return [
        _row("rows in the browser, index and all", ours, "s", None, rows=_BESIDE),
        _row("rows in Inspect's viewer, on a log of them", theirs, "s", None, rows=_BESIDE),
    ]


def _answers(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError("Inspect's viewer did not start")
