"""All services of a config: order, failure, and what a SIGKILL leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_evaluator.config import ServiceBase
from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services import RunningService, service_identity, start_services
from nemo_evaluator.services.base import Site

Pids = Callable[[], list[int]]


class StandInKind:
    """Plans whatever launch the test put on the service."""

    def plan(self, name: str, service: Any, site: Site) -> Launch:
        return service.launch

    def identity(self, service: Any) -> JsonDict:
        return {"type": "stand_in"}


@pytest.fixture(autouse=True)
def _stand_in_kind() -> None:
    SERVICES.add("stand_in", Kind(ServiceBase, StandInKind), replace=True)


def service(launch: Launch, *depends_on: str) -> SimpleNamespace:
    return SimpleNamespace(type="stand_in", launch=launch, depends_on=list(depends_on))


def config(**services: Any) -> SimpleNamespace:
    return SimpleNamespace(services=services)


async def test_order_follows_depends_on(stand_in: Callable[..., Launch], tmp_path: Path) -> None:
    said: list[str] = []
    wanted = config(c=service(stand_in(), "b"), b=service(stand_in(), "a"), a=service(stand_in()))
    async with start_services(wanted, tmp_path, say=said.append) as running:
        assert set(running) == {"a", "b", "c"}
        assert running["a"].url == wanted.services["a"].launch.url
    assert [line.split()[2] for line in said if line.startswith("Starting")] == ["a", "b", "c"]
    assert [line.split()[0] for line in said if " ready at " in line] == ["a", "b", "c"]
    assert (tmp_path / "logs" / "server-a.log").is_file()


async def test_independent_services_start_side_by_side(
    stand_in: Callable[..., Launch], tmp_path: Path
) -> None:
    said: list[str] = []
    async with start_services(
        config(a=service(stand_in()), b=service(stand_in())), tmp_path, say=said.append
    ):
        assert [line.split()[0] for line in said[:2]] == ["Starting", "Starting"]


async def test_a_service_that_fails_takes_the_others_down(
    stand_in: Callable[..., Launch], pids: Pids, alive: Pids, tmp_path: Path
) -> None:
    wanted = config(good=service(stand_in()), bad=service(stand_in("dies"), "good"))
    with pytest.raises(TransportError, match="'bad' exited with code 3"):
        async with start_services(wanted, tmp_path, say=lambda _: None):
            pytest.fail("must not get here")
    assert len(pids()) == 2
    assert not alive()


async def test_a_service_of_somebody_else_is_passed_through(tmp_path: Path) -> None:
    api = SimpleNamespace(type="api", url="http://127.0.0.1:9/v1", api_key=None, depends_on=[])
    async with start_services(config(api=api), tmp_path) as running:
        assert running == {"api": RunningService("api", "http://127.0.0.1:9/v1")}
    assert service_identity(api) is None


async def test_the_health_path_of_somebody_elses_server_is_asked(
    stand_in: Callable[..., Launch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_evaluator.servers.life._EXTERNAL_WAIT", 0.3)
    launch = stand_in()
    api = SimpleNamespace(
        type="api", url=f"{launch.url}/chat", api_key=None, depends_on=["m"], health_path="/healthz"
    )
    async with start_services(
        config(m=service(launch), api=api), tmp_path, say=lambda _: None
    ) as running:
        assert running["api"].url == api.url
    api.depends_on = []
    with pytest.raises(
        TransportError, match=rf"http://127.0.0.1:{launch.port}/healthz did not answer"
    ):
        async with start_services(config(api=api), tmp_path):
            pytest.fail("must not get here")


async def test_a_kind_that_is_not_built_is_refused_by_name(tmp_path: Path) -> None:
    SERVICES.add("to_come", Kind(ServiceBase, missing="not supported yet"), replace=True)
    with pytest.raises(UsageError, match=r"service type 'to_come' is not supported yet"):
        async with start_services(
            config(x=SimpleNamespace(type="to_come", depends_on=[])), tmp_path
        ):
            pytest.fail("must not get here")


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_evaluator(
    blow: signal.Signals, stand_in: Callable[..., Launch], alive: Pids, tmp_path: Path
) -> None:
    launch = stand_in("parent")
    script = f"""
        import asyncio
        from pathlib import Path
        from nemo_evaluator.servers.launch import Launch
        from nemo_evaluator.servers.process import ManagedServer
        async def main():
            launch = Launch(argv={list(launch.argv)!r}, port={launch.port}, startup_timeout=20.0, stop_grace=1.0)
            await ManagedServer("m", launch, Path({str(tmp_path / "m.log")!r})).start(print)
            print("up", flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert any(line.strip() == "up" for line in iter(run.stdout.readline, ""))
        assert len(alive()) == 2
        os.kill(run.pid, blow)
    deadline = time.monotonic() + 30
    while alive():
        assert time.monotonic() < deadline, "a server outlived the evaluator"
        time.sleep(0.05)
