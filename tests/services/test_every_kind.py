"""Every kind of service with a stand-in for its program: slow, talkative, crashing once, deaf to SIGTERM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import orjson
import pytest
from nel_support import containers_of, marked

from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.services import Launch, start_services

STAND_IN = Path(__file__).with_name("stand_in_server.py")
IMAGE = "nel-test/python:bookworm"
MODULES = {
    "vllm": "vllm/entrypoints/cli/main.py",
    "sglang": "sglang/launch_server.py",
    "dynamo": "dynamo/frontend.py",
}
PROGRAMS = ("trtllm-serve", "nat", "llama-server")
# What dynamo needs beside its frontend: two programs that listen, and a worker that stays.
LISTENER = """#!{python}
import socket, time
with socket.create_server(("0.0.0.0", {port})):
    time.sleep(600)
"""
PARALLEL = {"tensor_parallel_size": 2, "gpus": 0, "extra_args": ["--further", "yes"]}
# The settings of each kind, and the words that its program must be told.
KINDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "vllm": (
        PARALLEL,
        ["serve", "org/model", "--tensor-parallel-size", "--served-model-name", "m", "--further"],
    ),
    "sglang": (
        PARALLEL,
        ["--model-path", "org/model", "--tp-size", "2", "--served-model-name", "m", "--further"],
    ),
    "trt_llm": (PARALLEL, ["serve", "org/model", "--tp_size", "2", "--further"]),
    "dynamo": ({"gpus": 0}, ["--http-port"]),
    "nim": ({"image": IMAGE, "gpus": 0, "extra_args": ["--further"]}, ["--further"]),
    "docker_model": ({"image": IMAGE, "gpus": 0, "extra_args": ["--further"]}, ["--further"]),
    "llama_cpp": ({"extra_args": ["--further"]}, ["--alias", "m", "--api-key-file", "--further"]),
    "gym": ({}, []),
    "nat": ({}, ["serve", "--config_file"]),
    "custom": ({}, []),
}
NEEDS_DOCKER = ("nim", "docker_model")


class CustomKind:
    """What a user would write for ``type: custom``."""

    def plan(self, name: str, service: Any, site: Any) -> Any:
        port = free_port()
        return Launch(
            argv=[sys.executable, str(STAND_IN), "--port", str(port)],
            port=port,
            restarts=1,
            stop_grace=0.3,
        )

    def identity(self, service: Any) -> dict[str, Any]:
        return {}


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every program under its own name, all of them the stand-in."""
    tools, packages = tmp_path / "bin", tmp_path / "packages"
    for name in PROGRAMS:
        executable(tools / name, f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    for file in MODULES.values():
        executable(packages / file, STAND_IN.read_text())
    executable(packages / "dynamo/sglang.py", "import time; time.sleep(600)")
    for name, port in (("nats-server", 4222), ("etcd", 2379)):
        executable(tools / name, LISTENER.format(python=sys.executable, port=port))
    executable(tools / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "flow.yml").write_text("workflow: {}")
    (tmp_path / "m.gguf").write_bytes(b"weights")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.delenv("NEL_LLAMA_SERVER", raising=False)
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("STAND_IN_NOTES", str(tmp_path))
    return tmp_path


def settings_of(kind: str, folder: Path) -> dict[str, Any]:
    own, told = KINDS[kind]
    env = {
        "STAND_IN_FLAGS": orjson.dumps(told).decode(),
        "STAND_IN_ENV": "[]",
        "STAND_IN_NOTES": "/notes",
    }
    base: dict[str, Any] = {"type": kind, "startup_timeout": 90, "stop_grace": 0.3}
    if kind == "custom":
        return {"type": kind, "class_path": f"{__name__}:CustomKind"}
    if kind != "llama_cpp":
        base["port"] = free_port()
    if kind == "gym":
        return {**base, "server_cmd": f"{sys.executable} {STAND_IN} --port $PORT"}
    if kind == "nat":
        return {**base, "nat_config_file": str(folder / "flow.yml")}
    base |= {
        "protocol": "chat_completions",
        "model": str(folder / "m.gguf") if kind == "llama_cpp" else "org/model",
    }
    if kind in NEEDS_DOCKER:
        mounts = [f"{STAND_IN}:/serve.py:ro", f"{folder}:/notes"]
        base |= {"container_mounts": mounts, "extra_env": env}
        own = {**own, "extra_args": ["python3", "/serve.py", *own["extra_args"]]}
    return {**base, **own}


def each_kind() -> list[Any]:
    return [
        pytest.param(kind, marks=[pytest.mark.needs("docker")] if kind in NEEDS_DOCKER else [])
        for kind in KINDS
    ]


@pytest.mark.queued
@pytest.mark.parametrize("kind", each_kind())
async def test_a_difficult_server_is_brought_up_and_down(
    kind: str, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(kind, programs)
    monkeypatch.setenv("STAND_IN_FLAGS", orjson.dumps(KINDS[kind][1]).decode())
    monkeypatch.setenv("STAND_IN_ENV", "[]")
    service = SERVICES.schema(kind).model_validate(settings)
    said: list[str] = []
    config = SimpleNamespace(services={"m": service})
    async with start_services(config, programs / "out", say=said.append) as running:
        where = running["m"]
        headers = {"Authorization": f"Bearer {where.api_key.reveal()}"} if where.api_key else {}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{where.url}/anything", json={}) as answer,
        ):
            # A model was asked for a token before: once in vain, then with success.
            wanted = (503, 1) if kind in ("gym", "nat", "custom") else (200, 3)
            assert (answer.status, orjson.loads(await answer.read())["asked"]) == wanted
        assert marked(str(programs)) or kind in NEEDS_DOCKER
    assert any(
        "Starting m again (1 of 1)" in line and "the first start goes wrong" in line
        for line in said
    ), said
    assert (programs / "out" / "logs" / "server-m.log").stat().st_size > 2_000_000
    assert marked(str(programs)) == []
    if kind in NEEDS_DOCKER:
        assert containers_of("m") == ""


def test_the_list_of_processes_finds_what_it_looks_for(
    tmp_path: Path, programs: Callable[..., Path]
) -> None:
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "MARK": str(tmp_path)}) as sleeper:
        assert marked(str(tmp_path)) == [sleeper.pid]
        sleeper.kill()
