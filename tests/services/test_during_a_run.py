"""Servers that crash while a run goes on: started again, or the run ends with the reason; replicas fill in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Sums, bench, command_lines_with, rows

from nemo_evaluator.core.processes import free_port

# A class as a user would write it beside the config, and its server.
SERVICE = """
import sys
from pathlib import Path
from nemo_evaluator.services import Launch

class Server:
    def __init__(self, port, restarts=0):
        self.port, self.restarts = port, restarts
    def plan(self, name, service, site):
        argv = [sys.executable, str(Path(__file__).with_name("server.py")), str(self.port)]
        return Launch(argv=argv, port=self.port, model=name, restarts=self.restarts, startup_timeout=60, stop_grace=1)
    def identity(self, service):
        return {}
"""
SERVER = """
import http.server, json, os, pathlib, sys, time
pathlib.Path(__file__).with_name(f"{os.getpid()}.pid").write_text("")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def say(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.say(b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.05)
        message = {"role": "assistant", "content": "6"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.say(json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode())
    def log_message(self, *args):
        pass
print("serving until somebody stops me", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def until(condition: Any, seconds: float = 180) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


def answers(folder: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("o/sums/journal*.jsonl"))


@pytest.fixture
def started(nel: Nel, sums: Sums, tmp_path: Path) -> Any:
    """``nel eval run`` against such a server; returns the process once answers have come."""
    (tmp_path / "own.py").write_text(SERVICE)
    (tmp_path / "server.py").write_text(SERVER)

    def start(restarts: int) -> Any:
        own = {
            "type": "custom",
            "class_path": "own.py:Server",
            "config": {"port": free_port(), "restarts": restarts},
        }
        parts = {
            "services": {"model": own},
            "benchmarks": [bench(sums(150), max_concurrent=2)],
            "output": {"dir": "o"},
        }
        run = nel.start("eval", "run", nel.config("c.json", **parts))
        until(lambda: answers(tmp_path) > 20 or run.poll() is not None)
        return run

    return start


def kill_server(folder: Path) -> None:
    (note,) = folder.glob("*.pid")
    os.kill(int(note.stem), signal.SIGKILL)


def test_a_crashed_server_is_started_again(started: Any, tmp_path: Path) -> None:
    run = started(restarts=1)
    kill_server(tmp_path)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert "Starting model again (1 of 1)" in out + err
    assert len(rows(tmp_path / "o" / "sums")) == 150
    assert len(list(tmp_path.glob("*.pid"))) == 2
    assert not command_lines_with(str(tmp_path / "server.py"))


def test_a_server_that_is_lost_ends_the_run_with_the_reason(
    started: Any, nel: Nel, tmp_path: Path
) -> None:
    run = started(restarts=0)
    began = time.monotonic()
    kill_server(tmp_path)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 2, err
    assert "exited with code 137; last lines:\n  | " in out + err
    assert time.monotonic() - began < 60, "a server that cannot come back was waited for"
    # What was answered is kept.
    nel("eval", "run", "c.json", "--resume")
    assert len(rows(tmp_path / "o" / "sums")) == 150


@pytest.mark.queued
@pytest.mark.needs("model", "xllamacpp")
def test_two_replicas_of_the_embedded_model(nel: Nel, sums: Sums, tmp_path: Path) -> None:
    """Both are used, one is killed midway, and the run completes."""
    tiny = {
        "type": "llama_cpp",
        "model": "smollm2-135m",
        "context_size": 512,
        "slots": 2,
        "threads": 1,
    }
    tiny |= {
        "replicas": 2,
        "restarts": 0,
        "backend": "xllamacpp",
        "generation": {"max_tokens": 16, "temperature": 0, "stop": [" "]},
    }
    parts = {
        "services": {"model": tiny},
        "benchmarks": [bench(sums(40), max_concurrent=4)],
        "output": {"dir": "o"},
    }
    run = nel.start("eval", "run", nel.config("c.json", **parts))
    logs = [tmp_path / "o" / "logs" / f"server-model-{number}.log" for number in range(2)]
    until(lambda: answers(tmp_path) > 16 or run.poll() is not None, 120)
    asked = [log.read_text(errors="replace").count("launch_slot_") for log in logs]
    assert all(count > 3 for count in asked), asked
    port = (
        logs[0]
        .read_text(errors="replace")
        .partition("listening at http://127.0.0.1:")[2]
        .split()[0]
        .strip("/")
    )
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if port.encode() in words and b"nemo_evaluator.servers._guard" not in words:
            os.kill(int(process.name), signal.SIGKILL)
    out, err = run.communicate(timeout=240)
    assert run.returncode == 0, err
    assert "'model-0' exited with code 137" in out + err
    scored = rows(tmp_path / "o" / "sums")
    assert len(scored) == 40 and all(row["status"] == "scored" for row in scored)
