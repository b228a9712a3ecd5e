"""The exec server that runs inside a Fargate task: standard library only, for any Python from 3.7 on.

POST /exec runs a command once per request id: a client that lost the answer sends the request again, and gets the
answer of the first run.
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
# Answers that stay available for repeated requests.
KEPT = 200
lock = threading.Lock()
answers: dict[str, dict[str, Any]] = {}


def kill_marked(mark: str) -> None:
    """Kill the processes that have the id of a command in their environment."""
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


class Output:
    """Collects a stream of a command in a thread, up to a size."""

    def __init__(self, pipe: Any, max_bytes: int) -> None:
        self._pipe = pipe
        self._max_bytes = max_bytes
        self._data = bytearray()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        for data in iter(lambda: self._pipe.read1(65536), b""):
            free = max(0, self._max_bytes - len(self._data))
            self._data += data[:free]

    def encoded(self) -> str:
        """The output so far, in Base64."""
        return base64.b64encode(bytes(self._data)).decode()


def feed(pipe: Any, data: bytes) -> None:
    """Write the input of a command, which may end without reading it."""
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        pass


def start(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start the command of a request, as its user, in a session of its own."""
    env = dict(os.environ, **request.get("env", {}))
    env["NEL_EXEC"] = request["id"]
    argv = request["argv"]
    if request.get("user"):
        argv = ["su", "-s", "/bin/sh", request["user"], "-c", 'exec "$@"', "--", "sh", *argv]
    return subprocess.Popen(
        argv, cwd=request["cwd"], env=env, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def kill_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill the session of a command, and the processes that left it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    kill_marked(mark)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one command to its end or its deadline.

    Args:
        request: ``id``, ``argv``, ``cwd``, ``timeout`` and ``max_bytes``; also ``env``, ``stdin`` in Base64, ``user``
            and ``background``.

    Returns:
        ``code``, ``timed_out``, and ``stdout`` and ``stderr`` in Base64.
    """
    try:
        process = start(request)
    except OSError as error:
        message = base64.b64encode(str(error).encode()).decode()
        code = 127 if isinstance(error, FileNotFoundError) else 126
        return {"code": code, "stdout": "", "stderr": message}
    stdin = base64.b64decode(request.get("stdin") or "")
    threading.Thread(target=feed, args=(process.stdin, stdin), daemon=True).start()
    outputs = [Output(pipe, request["max_bytes"]) for pipe in (process.stdout, process.stderr)]
    timed_out = False
    try:
        code = process.wait(request["timeout"])
    except subprocess.TimeoutExpired:
        timed_out = True
        code = 137
    stays = request.get("background") and not timed_out
    if not stays:
        kill_all(process, request["id"])
    # Background processes, or processes that could not be killed, may hold the pipes open.
    patience = 0.2 if timed_out or request.get("background") else 5
    for output in outputs:
        output.thread.join(patience)
    return {
        "code": 128 - code if code < 0 else code,
        "timed_out": timed_out,
        "stdout": outputs[0].encoded(),
        "stderr": outputs[1].encoded(),
    }


def once(request: dict[str, Any]) -> Any:
    """The answer to a request, which runs only the first time that it is sent."""
    with lock:
        is_first = request["id"] not in answers
        entry = answers.setdefault(request["id"], {"done": threading.Event(), "at": time.time()})
        if is_first:
            forget_old_answers()
    if is_first:
        entry["answer"] = run(request)
        entry["done"].set()
    entry["done"].wait()
    return entry["answer"]


def forget_old_answers() -> None:
    """Forget all finished answers but the newest."""
    by_age = sorted(answers, key=lambda request_id: answers[request_id]["at"])
    for request_id in by_age[:-KEPT]:
        if answers[request_id]["done"].is_set():
            del answers[request_id]


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
        is_health = self.path == "/health"
        self._answer(200 if is_health else 404, {"ok": is_health})

    def do_POST(self):  # type: ignore[no-untyped-def]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not hmac.compare_digest(self.headers.get("Authorization", ""), "Bearer " + TOKEN):
            self._answer(403, {"error": "wrong token"})
        elif self.path == "/exec":
            self._answer(200, once(json.loads(body)))
        else:
            self._answer(404, {"error": "unknown path"})

    def log_message(self, *_: Any) -> None:
        """Log nothing: requests hold commands."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
