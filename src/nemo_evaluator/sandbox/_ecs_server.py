"""The exec server that runs inside a Fargate task: standard library only, for any Python from 3.7 on.

POST /exec runs a command once per request id: a request that is sent again, because its answer was lost, gets the
answer of the first.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = os.environ.pop("NEL_EXEC_TOKEN", "")
KEPT = 200
lock = threading.Lock()
answers: dict[str, dict[str, Any]] = {}


def kill_marked(mark: str) -> None:
    """Kill what carries the number of a command."""
    wanted = ("NEL_EXEC=" + mark).encode()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/" + name + "/environ", "rb") as file:  # noqa: PTH123
                if wanted in file.read().split(b"\0"):
                    os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one command to its end or its deadline."""
    env = dict(os.environ, **request.get("env", {}))
    env["NEL_EXEC"] = request["id"]
    stdin = base64.b64decode(request.get("stdin") or "")
    argv = request["argv"]
    if request.get("user"):
        argv = ["su", "-s", "/bin/sh", request["user"], "-c", 'exec "$@"', "--", "sh", *argv]
    try:
        process = subprocess.Popen(
            argv, cwd=request["cwd"], env=env, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            code = 127
        else:
            code = 126
        return {
            "code": code,
            "stdout": "",
            "stderr": base64.b64encode(str(error).encode()).decode(),
        }
    parts = {1: bytearray(), 2: bytearray()}

    def read(number: int, pipe: Any) -> None:
        for data in iter(lambda: pipe.read1(65536), b""):
            parts[number] += data[: max(0, request["max_bytes"] - len(parts[number]))]

    def feed() -> None:
        try:
            pipe: Any = process.stdin
            pipe.write(stdin)
            pipe.close()
        except OSError:
            pass

    threads = [threading.Thread(target=feed, daemon=True)]
    for pair in ((1, process.stdout), (2, process.stderr)):
        threads.append(threading.Thread(target=read, args=pair, daemon=True))
    for thread in threads:
        thread.start()
    timed_out = False
    try:
        code = process.wait(request["timeout"])
    except subprocess.TimeoutExpired:
        timed_out = True
        code = 137
    if timed_out or not request.get("background"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        kill_marked(request["id"])
    for thread in threads[1:]:
        thread.join(0.2 if timed_out or request.get("background") else 5)
    return {
        "code": 128 - code if code < 0 else code,
        "timed_out": timed_out,
        "stdout": base64.b64encode(bytes(parts[1])).decode(),
        "stderr": base64.b64encode(bytes(parts[2])).decode(),
    }


def once(request: dict[str, Any]) -> Any:
    """The answer to a request, however often it is sent."""
    with lock:
        first = request["id"] not in answers
        entry = answers.setdefault(request["id"], {"done": threading.Event(), "at": time.time()})
        if first:
            for old in sorted(answers, key=lambda key: answers[key]["at"])[:-KEPT]:
                if answers[old]["done"].is_set():
                    del answers[old]
    if first:
        entry["answer"] = run(request)
        entry["done"].set()
    entry["done"].wait()
    return entry["answer"]


class Handler(BaseHTTPRequestHandler):
    """GET /health, POST /exec."""

    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):  # type: ignore[no-untyped-def]
        self._answer(200 if self.path == "/health" else 404, {"ok": self.path == "/health"})

    def do_POST(self):  # type: ignore[no-untyped-def]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not hmac.compare_digest(self.headers.get("Authorization", ""), "Bearer " + TOKEN):
            self._answer(403, {"error": "wrong token"})
        elif self.path == "/exec":
            self._answer(200, once(json.loads(body)))
        else:
            self._answer(404, {"error": "unknown path"})

    def log_message(self, *_: Any) -> None:
        """Be quiet: commands are none of the log's business."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
