"""The server touches files in other threads only, so that a slow disk delays no other request."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from made_runs import write_run

from nemo_evaluator.runs.folder import BenchmarkFolder, RunFolder
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.server import Viewer

_ROUTES = {
    "runs": "",
    "run": "run={key}",
    "figures": "run={key}&bench=sums",
    "facets": "run={key}&bench=sums",
    "rows": "run={key}&bench=sums&label=any",
    "row": "run={key}&bench=sums&problem=1",
    "labels": "run={key}&bench=sums",
    "text": "run={key}&bench=sums&problem=1&path=row/prompt",
    "search": "run={key}&bench=sums&text=a&label=any",
    "export": "run={key}&bench=sums&label=any",
    "compare": "runs={key}",
}


class _WatchedLibrary(Library):
    """Notes the threads in which it is used."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths, registry=False)
        self.threads: set[int] = set()

    def look(self) -> dict[str, Path]:
        self.threads.add(threading.get_ident())
        return super().look()

    def run(self, key: str) -> RunFolder:
        self.threads.add(threading.get_ident())
        return super().run(key)

    def benchmark(self, key: str, name: str) -> BenchmarkFolder:
        self.threads.add(threading.get_ident())
        return super().benchmark(key, name)


async def _request(library: Library, method: str, path: str, **options: Any) -> httpx.Response:
    transport = httpx.ASGITransport(app=Viewer(library).app("token"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.request(method, f"/token/api/{path}", **options)


@pytest.fixture
def library(tmp_path: Path) -> _WatchedLibrary:
    write_run(tmp_path / "base", 3)
    return _WatchedLibrary([tmp_path])


@pytest.mark.parametrize("name", _ROUTES)
def test_no_route_reads_folders_in_the_thread_of_the_event_loop(
    library: _WatchedLibrary, name: str
) -> None:
    (key,) = library.look()
    library.threads.clear()
    path = f"{name}?{_ROUTES[name].format(key=key)}"
    response = asyncio.run(_request(library, "GET", path))
    # One run cannot be compared with itself alone; the server found it before it refused.
    assert response.status_code == (400 if name == "compare" else 200), response.text
    assert library.threads and threading.get_ident() not in library.threads


def test_a_label_is_stored_by_another_thread(library: _WatchedLibrary, tmp_path: Path) -> None:
    (key,) = library.look()
    library.threads.clear()
    path = f"label?run={key}&bench=sums&problem=1"
    response = asyncio.run(_request(library, "POST", path, json={"label": "right"}))
    assert response.status_code == 200, response.text
    assert (tmp_path / "base" / "sums" / "labels.jsonl").is_file()
    assert library.threads and threading.get_ident() not in library.threads
