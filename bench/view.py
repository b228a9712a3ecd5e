"""``nel view`` and ``nel eval status`` on a large run: the index, filters, the search, the first page, memory.

``NEL_BENCH_ROWS`` sets the number of rows (default 1,000,000 of 4 KB, which need 5 GB of disk for some minutes).
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil

from bench.big_run import make_run
from nemo_evaluator.runs.folder import RunFolder

_ROWS = int(os.environ.get("NEL_BENCH_ROWS", "1000000"))
_FILTERS = ({"status": "failed"}, {"category": "law"}, {"truncated": "1"}, {"min_tokens": "1900"}, {"max_reward": "0"})


def rows() -> list[dict[str, object]]:
    """The limits of the viewer."""
    folder = Path(tempfile.mkdtemp(prefix="nel-bench-view-"))
    try:
        task = make_run(folder / "run", _ROWS)
        started = time.perf_counter()
        with RunFolder(folder / "run").benchmarks[task.name].reading():
            built = time.perf_counter() - started
        found = [_row("index built where it was missing", _ROWS / built / 1000, "1,000 rows/s", 100, at_least=True)]
        status = [sys.executable, "-m", "nemo_evaluator.cli.main", "eval", "status", "-o", str(folder / "run")]
        found.append(_row("nel eval status", _timed(lambda: subprocess.run(status, capture_output=True)), "s", 0.5))
        return [*found, *_served(folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _row(name: str, value: float, unit: str, limit: float, **more: object) -> dict[str, object]:
    return {"name": f"view, {_ROWS:,} rows: {name}", "value": value, "unit": unit, "limit": limit, **more}


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _served(folder: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "nemo_evaluator.cli.main", "view", str(folder), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            url = urlsplit(child.stdout.readline().strip())
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

            page = _timed(lambda: (ask("run"), ask("rows", limit="100")))
            made = max(_timed(lambda one=one: ask("rows", limit="50", **one)) for one in _FILTERS)  # type: ignore[misc]
            again = max(_timed(lambda one=one: ask("rows", limit="50", **one)) for one in _FILTERS)  # type: ignore[misc]
            hit = _timed(lambda: json.loads(ask("search", first=True, text="needle-")))
            return [
                _row("data of the first page", page, "s", 1),
                _row("a filter for the first time, the slowest", made * 1000, "ms", 100),
                _row("the same filters again, the slowest", again * 1000, "ms", 100),
                _row("first hit of a search", hit, "s", 1),
                _row("memory of the server", psutil.Process(child.pid).memory_info().rss / 1e6, "MB", 150),
            ]
        finally:
            child.terminate()
