"""A ``nat serve`` of a few lines: events as the NeMo Agent Toolkit streams them; ``LEGACY=1``: the old path only."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.reply(200 if self.path == "/health" else 404, "{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != ("/generate/full" if os.environ.get("LEGACY") else "/v1/workflow/full"):
            self.reply(404, '{"detail":"Not Found"}')
            return
        n = int((body.get("input_message") or body["messages"][-1]["content"]).split()[3])
        usage = {"token_usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}
        lines = [
            _event("LLM_END", "m", "let me add", usage_info=usage),
            _event("TOOL_END", "add", "sum", given={"n": n}),
            _event("LLM_END", "m", str(2 * n), usage_info=usage),
            "data: " + json.dumps({"value": str(2 * n)}),
        ]
        if n == 1:
            lines = [
                '{"code":"workflow_error","message":"Connection error.","details":"OpenAIConnectionError"}'
            ]
        if n == 2:
            lines = lines[1:2]
        self.reply(200, "\n\n".join(lines) + "\n\n")

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


def _event(kind: str, name: str, output: Any, given: Any = None, **more: Any) -> str:
    data = {"input": given, "output": output}
    payload = {"event_type": kind, "name": name, "data": data, "UUID": f"{kind}-{name}", **more}
    return "intermediate_data: " + json.dumps({"type": kind, "payload": json.dumps(payload)})


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
