"""A stand-in for ``vllm``: it answers every question, and notes in NOTES what it was told and who asked.

Started as ``vllm serve ...`` from PATH or as vLLM's module.
"""

import http.server
import json
import os
import pathlib
import sys
import threading
import time

words = sys.argv[1:]
port = int(words[words.index("--port") + 1])
key = words[words.index("--api-key") + 1] if "--api-key" in words else os.environ["VLLM_API_KEY"]
note = pathlib.Path(os.environ["NOTES"]) / f"{port}.json"
names = (
    "RAY_ADDRESS",
    "SLURMD_NODENAME",
    "SLURM_PROCID",
    "NEL_NODE_HOSTS",
    "CUDA_VISIBLE_DEVICES",
    "EXPORTED",
)
known = {"argv": words, "pid": os.getpid(), "env": {name: os.environ.get(name) for name in names}}
asked = under_way = most = 0
lock = threading.Lock()
fresh = note.with_suffix(".new")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.say(200, b"{}")

    def do_POST(self) -> None:
        global asked, under_way, most
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {key}":
            self.say(401, b"{}")
            return
        with lock:
            asked, under_way = asked + 1, under_way + 1
            most = max(most, under_way)
            fresh.write_text(json.dumps(known | {"asked": asked, "most": most}))
            fresh.replace(note)
        time.sleep(0.1)
        with lock:
            under_way -= 1
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "6"},
            "finish_reason": "stop",
        }
        body = {
            "id": "1",
            "object": "chat.completion",
            "model": "model",
            "choices": [choice],
            "usage": usage,
        }
        self.say(200, json.dumps(body).encode())

    def log_message(self, *args: object) -> None:
        pass


print("serving", flush=True)
http.server.ThreadingHTTPServer((words[words.index("--host") + 1], port), Handler).serve_forever()
