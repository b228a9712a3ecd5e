"""Nothing is left behind, whatever ends the evaluator and whenever: processes and containers are listed afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from nel_support import Nel, free_ports, marked
from nel_support import nel as nel

pytestmark = pytest.mark.queued
STAND_IN = Path(__file__).with_name("stand_in_server.py")
IMAGE = "nel-test/python:bookworm"
# Two replicas and a service that waits for them. `linger`: it stays up, `stop`: it does not, `crash`: an error of ours.
RUN = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
import orjson, uvloop
from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.services import start_services
folder, then, settings = Path(sys.argv[1]), sys.argv[2], orjson.loads(sys.argv[3])
async def main():
    services = {name: SERVICES.schema(one["type"]).model_validate(one) for name, one in settings.items()}
    async with start_services(SimpleNamespace(services=services), folder, say=lambda line: print(line, flush=True)):
        print("up", flush=True)
        if then == "crash":
            raise RuntimeError("ours")
        await asyncio.sleep(600 if then == "linger" else 0)
        print("stopping", flush=True)
# As nel does: asyncio's own loop is not woken by a signal that another thread gets.
uvloop.run(main())
"""
PHASES = {
    "starting": "Starting service: victim",
    "starting again": "again (1 of 1)",
    "between two services": "Starting service: after",
    "running": "up",
    "stopping": "stopping",
}


class Bed:
    """Stand-ins for vLLM, as processes or containers, and the evaluator that starts them."""

    def __init__(self, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.kind, self.victim = folder, kind, f"victim-{os.getpid()}-{folder.name}"
        packages = folder / "packages" / "vllm" / "entrypoints" / "cli"
        packages.mkdir(parents=True)
        (packages / "main.py").write_text(STAND_IN.read_text())
        monkeypatch.setenv("PYTHONPATH", str(folder / "packages"))
        for name, value in {
            "STAND_IN_NOTES": str(folder),
            "STAND_IN_FLAGS": "[]",
            "STAND_IN_ENV": "[]",
        }.items():
            monkeypatch.setenv(name, value)

    def service(self, **more: Any) -> dict[str, Any]:
        base = {
            "type": self.kind,
            "model": "org/m",
            "protocol": "chat_completions",
            "port": free_ports(2),
            "gpus": 0,
        }
        base |= {"startup_timeout": 120, "stop_grace": 1.5} | more
        if self.kind == "docker_model":
            env = {"STAND_IN_FLAGS": "[]", "STAND_IN_ENV": "[]", "STAND_IN_NOTES": "/notes"}
            mounts = [f"{STAND_IN}:/serve.py:ro", f"{self.folder}:/notes"]
            base |= {
                "image": IMAGE,
                "command": ["python3", "/serve.py"],
                "container_mounts": mounts,
                "extra_env": env,
            }
        return base

    def start(self, then: str = "linger") -> subprocess.Popen[str]:
        services = {
            self.victim: self.service(replicas=2),
            "after": self.service(depends_on=[self.victim]),
        }
        command = [
            sys.executable,
            "-c",
            RUN,
            str(self.folder / "out"),
            then,
            orjson.dumps(services).decode(),
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def left(self) -> tuple[list[int], str]:
        return marked(str(self.folder)), self.containers()

    def containers(self) -> str:
        if self.kind != "docker_model":
            return ""
        listed = ["docker", "ps", "--all", "--format", "{{.Names}} {{.Mounts}}", "--no-trunc"]
        lines = subprocess.run(
            listed, capture_output=True, text=True, check=True, timeout=60
        ).stdout.splitlines()
        return "\n".join(line for line in lines if str(self.folder) in line or self.victim in line)

    def is_empty(self) -> None:
        deadline = time.monotonic() + 270
        while (left := self.left()) != ([], ""):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.1)


@pytest.fixture(params=["vllm", pytest.param("docker_model", marks=pytest.mark.needs("docker"))])
def bed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    return Bed(tmp_path, request.param, monkeypatch)


def comes_to(run: subprocess.Popen[str], phase: str) -> None:
    assert run.stdout is not None and run.stderr is not None
    assert any(phase in line for line in iter(run.stdout.readline, "")), (
        f"it came not so far: {run.stderr.read()}"
    )


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_behind(blow: signal.Signals, phase: str, bed: Bed) -> None:
    with bed.start("stop" if phase == "stopping" else "linger") as run:
        comes_to(run, PHASES[phase])
        os.kill(run.pid, blow)
        run.communicate(timeout=120)
    bed.is_empty()


def test_an_error_of_ours_leaves_nothing_behind(bed: Bed) -> None:
    with bed.start("crash") as run:
        _, err = run.communicate(timeout=180)
    assert run.returncode == 1 and "RuntimeError: ours" in err
    bed.is_empty()


@pytest.mark.needs("docker")
def test_a_container_that_appears_after_its_client_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine goes on with what it was asked for, when the client is gone."""
    bed, asked, tools = (
        Bed(tmp_path, "docker_model", monkeypatch),
        tmp_path / "asked",
        tmp_path / "bin",
    )
    real = shutil.which("docker")
    tools.mkdir()
    # A client that is still pulling the image.
    script = f'[ "$1" != run ] || {{ echo "$*" >>{asked}; exec sleep 600; }}\nexec {real} "$@"\n'
    (tools / "docker").write_text(f"#!/bin/bash\n{script}")
    (tools / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    with bed.start() as evaluator:
        comes_to(evaluator, "Starting service: victim")
        deadline = time.monotonic() + 180
        while not (asked.exists() and asked.read_text().count("\n") == 2):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(evaluator.pid, signal.SIGKILL)
        evaluator.communicate(timeout=60)
    time.sleep(2.5)
    name = asked.read_text().partition("--name ")[2].split()[0]
    subprocess.run(
        [str(real), "create", "--name", name, IMAGE, "true"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    bed.is_empty()


def guards(marker: str) -> list[int]:
    found = []
    for pid in marked(marker):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        found += [pid] if b"servers._guard" in words else []
    return found


# Any other run on this machine sweeps too.
@pytest.mark.serial
@pytest.mark.parametrize("broom", ["the next run", "nel eval clean"])
def test_what_a_killed_guard_left_is_swept(broom: str, bed: Bed, nel: Nel) -> None:
    with bed.start() as run:
        comes_to(run, "up")
        for pid in [run.pid, *guards(str(bed.folder))]:
            os.kill(pid, signal.SIGKILL)
        run.communicate(timeout=60)
    assert bed.left() != ([], ""), (
        "servers have children, and containers an engine: something is left"
    )
    if broom == "nel eval clean":
        said = nel("eval", "clean", "--all", "--yes").stdout
    else:
        with bed.start("stop") as following:
            said, err = following.communicate(timeout=180)
        assert following.returncode == 0, err
    assert "that a killed run had left behind" in said
    bed.is_empty()
