"""A server that is hard to keep: it checks what it is told, logs 1 MB first, crashes once, is slow, ignores SIGTERM.

Started under many names by ``test_every_kind.py``; what it does is in variables, since flags belong to the kinds.
"""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

notes = pathlib.Path(os.environ["STAND_IN_NOTES"])
words = sys.argv[1:]
print("x" * 1_000_000, flush=True)
missing = [word for word in json.loads(os.environ["STAND_IN_FLAGS"]) if word not in words]
missing += [name for name in json.loads(os.environ["STAND_IN_ENV"]) if name not in os.environ]
if missing:
    print(f"{sys.argv} lacks {missing}", file=sys.stderr)
    sys.exit(9)
crashed = notes / "crashed"
if not crashed.exists():
    crashed.write_text("once")
    print("the first start goes wrong", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.run(["sh", "-c", "sleep 600 >/dev/null 2>&1 &"], start_new_session=True)
# One without our environment: a server that writes its title over it looks like that.
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(notes)], env={})
time.sleep(0.5)


def given(*flags: str) -> str:
    return next((words[words.index(flag) + 1] for flag in flags if flag in words), "")


port = int(
    given("--port", "--http-port") or os.environ.get("PORT") or os.environ["NIM_SERVER_PORT"]
)
file = given("--api-key-file")
key = (
    pathlib.Path(file).read_text().strip()
    if file
    else given("--api-key") or os.environ.get("VLLM_API_KEY", "")
)
asked = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        global asked
        asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        allowed = not key or self.headers.get("Authorization") == f"Bearer {key}"
        # Healthy, and not ready for the first question.
        status = 401 if not allowed else 503 if asked == 1 else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps({"asked": asked}).encode())

    def log_message(self, *args: object) -> None:
        pass


http.server.HTTPServer((given("--host") or "0.0.0.0", port), Handler).serve_forever()
