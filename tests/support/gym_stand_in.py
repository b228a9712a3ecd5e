"""A Gym server of a few lines: native rows judged by equality, sessions by cookie, and faults on demand.

``python gym_stand_in.py`` listens on ``PORT``; ``FAULT`` names what goes wrong: ``garbage``, ``no_reward``, ``die``
(after ``LIVES`` verdicts), ``broken`` (500) or ``crash`` (in its first rollout; started again, it takes its time).
With ``PATCHES`` what the model says is the agent's change.
"""

import json
import os
import sys
import time
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FAULT = os.environ.get("FAULT", "")
LIVES = int(os.environ.get("LIVES", "2"))
SIZE = 6
CRASHED = Path("crashed")
sessions: dict[str, Any] = {}
verdicts = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        agents = [
            {
                "process_name": f"{name}_agent",
                "server_type": "responses_api_agents",
                "host": "0.0.0.0",
                "port": port,
            }
            for name in os.environ.get("AGENTS", "").split()
        ]
        known: dict[str, Any] = {"/dataset_size": {"size": SIZE}, "/server_instances": agents}
        self.reply(known.get(self.path, {"status": "ok"}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        cookie = (self.headers.get("cookie") or "").removeprefix("gym=")
        if self.path == "/seed_session":
            name = uuid.uuid4().hex
            sessions[name] = body
            idx = body.get("idx", 0)
            problem = {
                "prompt": f"How much is {idx} + {idx}?",
                "expected_answer": str(2 * idx),
                "metadata": {"n": idx},
            }
            self.reply(problem, name)
        elif self.path == "/verify":
            self.verify(body, cookie)
        elif self.path == "/run":
            self.run(body)
        else:
            self.reply({"detail": "no such route"}, status=404)

    def run(self, body: dict[str, Any]) -> None:
        """An agent: it calls a tool, then answers; it asks the model that it is told of."""
        if FAULT == "no_rollout":
            self.reply({"detail": "nothing"})
            return
        if FAULT == "crash" and not CRASHED.exists():
            CRASHED.touch()
            os._exit(7)
        params = body["responses_create_params"]
        prompt, told = params["input"][-1]["content"], params.get("metadata") or {}
        answer = "" if "model_url" in told else str(2 * int(prompt.split()[3]))
        if "model_url" in told:
            asked = {"model": params["model"], "messages": [{"role": "user", "content": prompt}]}
            headers = {
                "Authorization": f"Bearer {told['api_key']}",
                "Content-Type": "application/json",
            }
            url = f"{told['model_url']}/chat/completions"
            with urllib.request.urlopen(
                urllib.request.Request(url, json.dumps(asked).encode(), headers)
            ) as reply:
                answer = json.loads(reply.read())["choices"][0]["message"]["content"]
        output = [
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "3"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": answer}],
            },
        ]
        response = {
            "output": output,
            "usage": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
        }
        reward = {} if FAULT == "no_reward" else {"reward": 0.25}
        patch = {"metadata": {"git_patch": answer}} if os.environ.get("PATCHES") else {}
        self.reply({**body, "response": {**response, **patch}, **reward, "steps": 2})

    def verify(self, body: dict[str, Any], cookie: str) -> None:
        global verdicts
        verdicts += 1
        if FAULT == "die" and verdicts > LIVES:
            os._exit(7)
        if FAULT == "garbage":
            self.reply(None, raw=b"<html>hello</html>")
        elif FAULT == "broken":
            self.reply({"detail": "boom"}, status=500)
        elif FAULT == "no_reward":
            self.reply({"correct": True})
        elif cookie not in sessions:
            self.reply({"detail": "no session"}, status=409)
        else:
            response = body["response"]
            text = (
                response
                if isinstance(response, str)
                else response["output"][0]["content"][0]["text"]
            )
            begun = sessions.pop(cookie)
            wanted = body.get("expected", body.get("expected_answer"))
            same = begun.get("idx") == body.get("idx") and begun.get("uuid") == body.get("uuid")
            self.reply(
                {
                    "reward": float(text.strip() == wanted),
                    "extracted_answer": text,
                    "own_session": same,
                }
            )

    def reply(
        self, value: Any, cookie: str = "", status: int = 200, raw: bytes | None = None
    ) -> None:
        data = json.dumps(value).encode() if raw is None else raw
        self.send_response(status)
        if cookie:
            self.send_header("set-cookie", f"gym={cookie}")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    print("stand-in starts", file=sys.stderr)
    if FAULT == "crash" and CRASHED.exists():
        time.sleep(5)
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
