"""Real sources of tools: a FastAPI Gym resource server, MCP servers, a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

HERE = Path(__file__).parent
MCP_SERVER = HERE / "mcp_server.py"


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def gym_app() -> Any:
    """A resource server: nested paths, a path with a place in it, a recursive schema, sessions by cookie."""
    from fastapi import FastAPI, Request, Response
    from pydantic import BaseModel

    app = FastAPI()
    app.state.sessions = {}

    class Seed(BaseModel):
        city: str = "nowhere"

    class Query(BaseModel):
        query: str
        limit: int = 3

    class Tree(BaseModel):
        label: str
        title: str = "t"
        children: list[Tree] = []

    Tree.model_rebuild()
    # Annotations of endpoints are looked up in the module, so the local classes are put there.
    globals().update(
        {"Seed": Seed, "Query": Query, "Tree": Tree, "Request": Request, "Response": Response}
    )

    @app.post("/seed_session")
    async def seed_session(body: Seed, response: Response) -> dict[str, str]:
        key = f"s{len(app.state.sessions)}"
        app.state.sessions[key] = {"city": body.city, "calls": 0}
        response.set_cookie("session", key)
        return {"session": key}

    @app.post("/verify")
    async def verify() -> dict[str, float]:
        return {"reward": 1.0}

    @app.get("/health")
    async def health() -> dict[str, bool]:
        return {"ok": True}

    @app.post("/web/search", summary="Search the web.")
    async def search(body: Query, request: Request) -> dict[str, Any]:
        session = app.state.sessions[request.cookies["session"]]
        session["calls"] += 1
        await asyncio.sleep(0.05)
        return {
            "city": session["city"],
            "calls": session["calls"],
            "hits": [body.query] * body.limit,
        }

    @app.post("/items/{item}/count")
    async def count(item: str, body: Query) -> str:
        return f"{item}:{body.query}"

    @app.post("/depth")
    async def depth(body: Tree) -> int:
        def deep(tree: Tree) -> int:
            return 1 + max((deep(child) for child in tree.children), default=0)

        return deep(body)

    @app.post("/broken")
    async def broken() -> None:
        raise RuntimeError("boom")

    @app.post("/slow")
    async def slow() -> str:
        await asyncio.sleep(5)
        return "late"

    return app


class Served:
    """An ASGI application on loopback, in a thread of its own."""

    def __init__(self, app: Any) -> None:
        import uvicorn

        self.app = app
        self.port = free_port()
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_level="critical", lifespan="off"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Served:
        self.thread.start()
        deadline = time.monotonic() + 30
        while not self.server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.should_exit = True
        self.thread.join(10)


@pytest.fixture(scope="session")
def gym() -> Iterator[Served]:
    """The Gym resource server."""
    with Served(gym_app()) as served:
        yield served


@pytest.fixture(scope="session")
def mcp_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The MCP server over HTTP."""
    import subprocess

    port = free_port()
    log = (tmp_path_factory.mktemp("mcp") / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, str(MCP_SERVER), "http", str(port)], stdout=log, stderr=log
    )
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait(10)
    log.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Any]:
    """A real local sandbox, one for a module; its tests run on the module's loop."""
    from nemo_evaluator.core.types import SandboxSpec
    from nemo_evaluator.sandbox.local import LocalSandbox

    async with LocalSandbox(SandboxSpec()) as started:
        yield started
