"""A model server under the name of an engine's program; it records its start and what it is asked."""

from __future__ import annotations

import sys
from pathlib import Path

_SERVER = """#!{python}
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({{}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open({record!r}, "a") as record:
            record.write(json.dumps([self.path, body]) + "\\n")
        usage = {{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        choice = {{"index": 0, "finish_reason": "stop", "text": "6", "message": {{"role": "assistant", "content": "6"}}}}
        self.reply({{"id": "1", "model": body["model"], "choices": [choice], "usage": usage}})

    def reply(self, document):
        data = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass

with open({record!r}, "a") as record:
    record.write(json.dumps(["start", sys.argv]) + "\\n")
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
"""


def stand_in(folder: Path, program: str) -> Path:
    """Write the server under the name of a program, and return the file of its records."""
    record = folder / "asked.jsonl"
    file = folder / "bin" / program
    file.parent.mkdir()
    file.write_text(_SERVER.format(python=sys.executable, record=str(record)), encoding="utf-8")
    file.chmod(0o755)
    return record
