"""Servers that a job's script started: waited for, watched, never stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nemo_evaluator.config import LlamaCppService
from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.services import start_services
from nemo_evaluator.services.base import Launch
from nemo_evaluator.services.elsewhere import STARTED

KEY = "token-of-the-job-0123456789"


@pytest.fixture
def config(tmp_path: Path) -> SimpleNamespace:
    weights = tmp_path / "a.gguf"
    weights.write_bytes(b"weights")
    settings = {"type": "llama_cpp", "model": str(weights), "startup_timeout": 20}
    return SimpleNamespace(services={"model": LlamaCppService.model_validate(settings)})


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Launch], None]:
    def tell(launch: Launch) -> None:
        server = {"host": "127.0.0.1", "port": launch.port, "log": str(tmp_path / "server.log")}
        server["exit_code_file"] = str(tmp_path / "exit")
        (tmp_path / "started.json").write_text(json.dumps({"model": {"api_key_env": "KEY_1", "servers": [server]}}))
        monkeypatch.setenv(STARTED, str(tmp_path / "started.json"))
        monkeypatch.setenv("KEY_1", KEY)

    return tell


async def test_it_is_waited_for_and_left_running(
    stand_in: Callable[..., Launch], told: Callable[[Launch], None], config: SimpleNamespace, tmp_path: Path
) -> None:
    launch = stand_in()
    told(launch)
    script = await asyncio.create_subprocess_exec(*launch.argv)
    try:
        async with start_services(config, tmp_path, say=lambda _: None) as running:
            assert running["model"].url == launch.url
            assert running["model"].api_key is not None and running["model"].api_key.reveal() == KEY
        assert script.returncode is None
    finally:
        script.kill()
        await script.wait()


async def test_its_end_is_noticed_by_its_exit_code(
    stand_in: Callable[..., Launch], told: Callable[[Launch], None], config: SimpleNamespace, tmp_path: Path
) -> None:
    told(stand_in())
    (tmp_path / "server.log").write_text("no such weights\n")
    (tmp_path / "exit").write_text("3\n")
    with pytest.raises(TransportError, match=r"exited with code 3(.|\n)*no such weights"):
        async with start_services(config, tmp_path, say=lambda _: None):
            pytest.fail("must not get here")


async def test_a_key_that_is_not_there_is_said(
    stand_in: Callable[..., Launch],
    told: Callable[[Launch], None],
    config: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told(stand_in())
    monkeypatch.delenv("KEY_1")
    with pytest.raises(UsageError, match="KEY_1"):
        async with start_services(config, tmp_path):
            pytest.fail("must not get here")
