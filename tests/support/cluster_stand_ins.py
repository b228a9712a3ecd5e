"""Programs of a GPU cluster, stood in for on a machine without GPUs: engines, Ray, Dynamo and a Gym server.

They take the flags of the real ones, refuse a server that sees fewer GPUs than it is told to use, and note in
``STAND_IN_NOTES`` where they ran. Only the standard library is used, so any image with Python runs them.
"""

import stat
import sys
from pathlib import Path

_ENGINE = r"""
import http.server, json, os, pathlib, sys, threading, uuid

words = sys.argv[1:]
notes = pathlib.Path(os.environ["STAND_IN_NOTES"])


def given(*flags):
    return next((words[words.index(flag) + 1] for flag in flags if flag in words), "")


gpus = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
size = int(given("--tensor-parallel-size", "--tp-size") or 0) * int(given("--data-parallel-size") or 1)
if size > len(gpus):
    sys.exit(f"told to use {size} GPUs, sees {gpus}")
name = given("--served-model-name")
key = given("--api-key") or os.environ.get("VLLM_API_KEY", "")
note = notes / f"server-{name}-{uuid.uuid4().hex}"
asked, lock = [], threading.Lock()


def save():
    node = os.environ.get("SLURMD_NODENAME", "")
    note.write_text(json.dumps({"name": name, "node": node, "gpus": gpus, "words": words, "asked": len(asked)}))


def message(body):
    text = json.dumps(body["messages"])
    if body.get("tools") and not any(one["role"] == "tool" for one in body["messages"]):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps({"text": "6 * 7"})}
        return {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    if "grade" in text or "INCORRECT" in text:
        grade = "INCORRECT" if "stupid question" in text else "CORRECT"
        return {"role": "assistant", "content": json.dumps({"reason": "so", "grade": grade})}
    if "Python function" in text:
        return {"role": "assistant", "content": "```python\ndef nothing():\n    pass\n```"}
    return {"role": "assistant", "content": "The answer is 42"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, data):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.answer(401, {"error": {"message": "no"}})
            return
        if body.get("max_tokens") != 1:
            with lock:
                asked.append(1)
                save()
        choice = {"index": 0, "message": message(body), "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        self.answer(200, {"id": "1", "object": "chat.completion", "model": name, "choices": [choice], "usage": usage})

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass


save()
address = (given("--host") or "0.0.0.0", int(given("--port", "--http-port")))
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"""
_RAY = r"""
import os, pathlib, socket, subprocess, sys, time, uuid

words = " ".join(sys.argv[1:])
port = words.split("port=" if "--head" in words else "--address=")[1].split()[0].rpartition(":")[2]
notes = pathlib.Path(os.environ["STAND_IN_NOTES"])
members = list(notes.glob(f"ray-{port}-*"))
if words.startswith("status"):
    print("\n".join(f" 1 node_{one.name}" for one in members))
    sys.exit()
(notes / f"ray-{port}-{uuid.uuid4().hex}").write_text(os.environ["SLURMD_NODENAME"])
if "--head" in words:
    wait = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", wait], stdin=subprocess.DEVNULL)
    sys.exit()
time.sleep(600)
"""
_LISTENER = """
import socket, time
with socket.create_server(("0.0.0.0", {port})):
    time.sleep(600)
"""
_TOOLS = r"""
import http.server, json, os, sys

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
BODY = {"content": {"application/json": {"schema": SCHEMA}}}
PAGE = {"openapi": "3.1.0", "paths": {"/calculate": {"post": {"operationId": "calculate", "requestBody": BODY}}}}


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, data):
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(PAGE)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer({"output": "42"})

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler).serve_forever()
"""


def install(folder: Path) -> dict[str, str]:
    """Put the programs into a folder; returns the variables that let jobs find them."""
    tools, packages, notes = folder / "bin", folder / "packages", folder / "notes"
    for place in (tools, packages, notes):
        place.mkdir(parents=True)
    for name, text in (("vllm", _ENGINE), ("ray", _RAY)):
        _program(tools / name, text)
    for name, port in (("nats-server", 4222), ("etcd", 2379)):
        _program(tools / name, _LISTENER.format(port=port))
    for name in ("python", "python3"):
        (tools / name).symlink_to(sys.executable)
    # In a container the server is another user.
    notes.chmod(0o777)
    modules = {
        "sglang/launch_server.py": _ENGINE,
        "dynamo/frontend.py": _ENGINE,
        "my_tools.py": _TOOLS,
    }
    modules["dynamo/sglang.py"] = "import time\ntime.sleep(600)\n"
    for name, text in modules.items():
        (packages / name).parent.mkdir(exist_ok=True)
        (packages / name).write_text(text)
    return {"STAND_IN_TOOLS": str(tools), "PYTHONPATH": str(packages), "STAND_IN_NOTES": str(notes)}


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env python3\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
