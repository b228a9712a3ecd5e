"""Whatever ends a run, wherever and whenever: no server, container or job is left behind."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from executor_bench import Bench
from nel_support import bench, marked
from slurm_support import squeue

from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.processes import free_port

# A class as a user would write it beside the config, and its server, which has a child of its own.
SERVICE = """
import sys
from pathlib import Path
from nemo_evaluator.services import Launch

class Server:
    def __init__(self, port):
        self.port = port
    def plan(self, name, service, site):
        argv = [sys.executable, str(Path(__file__).with_name("server.py")), str(self.port)]
        return Launch(argv=argv, port=self.port, model=name, startup_timeout=120, stop_grace=1)
    def identity(self, service):
        return {}
"""
SERVER = """
import http.server, json, os, pathlib, subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(600)", __file__]
subprocess.Popen(child)
here = pathlib.Path(__file__).parent
(here / "at starting").touch()
while (here / "hold starting").exists():
    time.sleep(0.05)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def say(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.say(b"{}")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "6"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.say(json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode())
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
SUMS = """
import asyncio, time
from pathlib import Path
from nemo_evaluator import ScorerInput, benchmark, reports, scorer


here = Path(__file__).parent
write = reports.write_reports

def write_reports(*words, **more):
    (here / "at reporting").touch()
    while (here / "hold reporting").exists():
        time.sleep(0.05)
    return write(*words, **more)

reports.write_reports = write_reports

def rows():
    return [{"question": f"How much is {n} + {n}?", "target": str(2 * n)} for n in range(6)]

@benchmark(name="sums", dataset=rows, prompt="{question}", target_field="target")
@scorer
async def score(sample: ScorerInput) -> dict:
    (here / "at verifying").touch()
    while (here / "hold verifying").exists():
        await asyncio.sleep(0.05)
    return {"correct": True}
"""
PHASES = ("starting", "verifying", "reporting")
BLOWS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
# Of what takes longer, one blow per phase; the others with all that is large.
CASES = [
    pytest.param(
        word,
        phase,
        blow,
        marks=[*([pytest.mark.needs(word.split()[-1])] if word != "local" else []), *more],
    )
    for word in ("local", "docker", "slurm", "own ray")
    for place, phase in enumerate(PHASES)
    for number, blow in enumerate(BLOWS)
    for more in [
        [pytest.mark.serial, pytest.mark.large]
        if word == "own ray"
        else [pytest.mark.large]
        if word != "local" and number != place
        else []
    ]
]


def hit(on: Bench, blow: signal.Signals) -> None:
    """The blow to the process that runs the evaluation."""
    on.until(lambda: (on.folder / "o" / "nel.lock").exists())
    if on.word == "docker":
        words = ["docker", "kill", f"--signal={blow.name}", on.run().details["container_id"]]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
    else:
        os.kill(read_json(on.folder / "o" / "nel.lock")["pid"], blow)


def left(on: Bench) -> list[Any]:
    """What there still is of a run: processes, containers, jobs."""
    found: list[Any] = [
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in marked(str(on.folder)) if _there(pid)
    ]
    if on.word == "docker":
        words = ["docker", "ps", "-aq", "--filter", f"label=nel.run_id={on.run().run_id}"]
        found += subprocess.run(words, check=True, capture_output=True, timeout=60).stdout.split()
    if on.word == "slurm":
        found += [line for line in squeue("-o", "%A %Z").splitlines() if str(on.folder) in line]
    return found


def is_gone(on: Bench) -> None:
    deadline = time.monotonic() + 360
    while there := left(on):
        assert time.monotonic() < deadline, there
        time.sleep(0.1)


def _there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("on", "phase", "blow"), CASES, indirect=["on"])
def test_nothing_is_left_behind(on: Bench, phase: str, blow: signal.Signals) -> None:
    for name, text in {
        "own.py": SERVICE,
        "server.py": SERVER,
        "sums.py": SUMS,
        f"hold {phase}": "",
    }.items():
        (on.folder / name).write_text(text)
    own = {"type": "custom", "class_path": "own.py:Server", "config": {"port": free_port()}}
    parts = {
        "cluster": on.cluster,
        "services": {"model": own},
        "benchmarks": [bench("sums.py", max_concurrent=2)],
    }
    (on.folder / "c.json").write_text(json.dumps(parts | {"output": {"dir": "o"}}))
    on.start_file("c.json", background=True)
    on.until(lambda: (on.folder / f"at {phase}").exists(), 240)
    assert left(on)
    hit(on, blow)
    if blow != signal.SIGKILL:
        # Told to close, it comes to the end of what it has begun.
        (on.folder / f"hold {phase}").unlink()
    is_gone(on)
    # The kernel lets go of its lock a moment after its memory.
    on.until(lambda: not on.executor.status(on.run()).alive)
    (on.folder / f"hold {phase}").unlink(missing_ok=True)
    on.start_file("c.json", resume=True, background=True)
    on.until(lambda: not on.executor.status(on.run()).alive, 240)
    assert on.executor.status(on.run()).state == "finished" and on.rows() == 6
    is_gone(on)
