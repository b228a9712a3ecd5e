"""Stand-in servers (real processes) and who of them is alive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nel_support import nel as nel
from nel_support import sums as sums

from nemo_evaluator.core.processes import free_port
from nemo_evaluator.servers.launch import Launch

SERVER = """
import http.server, os, pathlib, signal, subprocess, sys, time
port, mode, notes = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
(notes / f"{port}.pid").write_text(str(os.getpid()))
key = open(sys.argv[4]).read().strip() if len(sys.argv) > 4 else None
if mode == "chatty":
    print("x" * 1_000_000)
if mode == "dies":
    print("no such weights", file=sys.stderr); sys.exit(3)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "parent":
    # A grandchild in a session of its own whose parent has ended.
    orphan = subprocess.run(["sh", "-c", "sleep 600 >/dev/null & echo $!"], stdout=-1, start_new_session=True)
    (notes / f"{port}.child.pid").write_text(orphan.stdout.decode())
if mode == "silent":
    time.sleep(600)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        allowed = key is None or self.headers.get("Authorization") == f"Bearer {key}"
        self.send_response(200 if allowed else 401)
        self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *args):
        pass

http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[..., Launch]:
    """A launch plan of the stand-in server in one of its modes."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)

    def plan(mode: str = "good", **settings: object) -> Launch:
        port = settings.pop("port", None) or free_port()
        argv = [sys.executable, str(script), str(port), mode, str(tmp_path)]
        if "api_key" in settings:
            argv.append("/dev/fd/{secret_fd}")
        return Launch(
            argv=argv, port=port, **{"startup_timeout": 20.0, "stop_grace": 2.0, **settings}
        )

    return plan


@pytest.fixture
def pids(tmp_path: Path) -> Callable[[], list[int]]:
    """The processes that stand-in servers noted."""
    return lambda: [int(pid) for note in tmp_path.glob("*.pid") if (pid := note.read_text())]


@pytest.fixture
def alive(pids: Callable[[], list[int]]) -> Callable[[], list[int]]:
    """Those of them that live. A zombie is dead: only its entry waits for a parent."""

    def lives(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"

    return lambda: [pid for pid in pids() if lives(pid)]
