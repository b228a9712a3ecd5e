"""The part of W&B's server that its client needs to log a run: runs, their history and files, kept in memory.

Not W&B: it proves what the real client sends, not what the real server does with it.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass
class SentRun:
    """What was sent of one run."""

    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


class StandIn:
    """Runs on a free port of loopback while the block lasts."""

    def __init__(self) -> None:
        self.runs: dict[str, SentRun] = {}
        self.artifacts: list[str] = []
        self.files: dict[str, bytes] = {}
        self.received = bytearray()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Quiet."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                data = json.dumps(stand_in.answer(self.path, body)).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_PUT = do_POST

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """The client may hang up."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: bytes) -> Any:
        """Reply to one request."""
        self.received += path.encode() + b"\n" + body + b"\n"
        if path.startswith("/up/"):
            self.files[path.removeprefix("/up/")] = body
        elif path.endswith("/file_stream"):
            self._stream(path.split("/")[-2], json.loads(body))
        elif path == "/graphql":
            asked = json.loads(body)
            match = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
            return {
                "data": self._operation(match[1] if match else "", asked.get("variables") or {})
            }
        return {}

    def _stream(self, run_id: str, sent: dict[str, Any]) -> None:
        files = sent.get("files") or {}
        for line in (files.get("wandb-history.jsonl") or {}).get("content", ()):
            self.runs[run_id].history.append(json.loads(line))
        for line in (files.get("wandb-summary.json") or {}).get("content", ()):
            self.runs[run_id].summary = json.loads(line)

    def _operation(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name == "Viewer":
            return {
                "viewer": {
                    "id": "u",
                    "entity": "me",
                    "username": "me",
                    "flags": "{}",
                    "teams": {"edges": []},
                }
            }
        if name == "RunResumeStatus":
            return {"model": _model(given) | {"bucket": self._status(given)}}
        if name == "UpsertBucket":
            new = given["name"] not in self.runs
            run = self.runs.setdefault(given["name"], SentRun())
            run.config = json.loads(given.get("config") or "{}") or run.config
            return {
                "upsertBucket": {
                    "bucket": _bucket(given) | {"project": _model(given)},
                    "inserted": new,
                }
            }
        if name == "CreateRunFiles":
            files = [
                {"name": file, "uploadUrl": f"{self.url}/up/{file}"} for file in given["files"]
            ]
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        return self._artifact(name, given)

    def _status(self, given: dict[str, Any]) -> dict[str, Any] | None:
        run = self.runs.get(given["name"])
        if run is None:
            return None
        return _bucket(given) | {
            "summaryMetrics": json.dumps(run.summary),
            "historyLineCount": len(run.history),
            "historyTail": json.dumps([json.dumps(line) for line in run.history[-1:]]),
            "eventsLineCount": 0,
            "eventsTail": "[]",
            "logLineCount": 0,
            "config": json.dumps(run.config),
            "wandbConfig": json.dumps(run.config.get("_wandb", {}).get("value", {})),
            "tags": [],
        }

    def _artifact(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        file = {
            "id": "f",
            "name": "n",
            "displayName": "n",
            "uploadUrl": f"{self.url}/up/manifest",
            "uploadHeaders": [],
        }
        if name == "ArtifactType":
            return {"project": {"artifact": None}}
        if name == "CreateArtifact":
            self.artifacts.append(given["input"]["artifactCollectionName"])
            made = {
                "id": "a",
                "state": "PENDING",
                "artifactSequence": {"id": "s", "latestArtifact": None},
            }
            return {"createArtifact": {"artifact": made}}
        if name in ("CreateArtifactManifest", "UpdateArtifactManifest"):
            return {name[0].lower() + name[1:]: {"artifactManifest": {"id": "m", "file": file}}}
        if name == "CreateArtifactFiles":
            names = [one["name"] for one in given["input"]["artifactFiles"]]
            nodes = [
                file
                | {
                    "name": one,
                    "uploadUrl": f"{self.url}/up/{one}",
                    "storagePath": one,
                    "uploadMultipartUrls": None,
                    "artifact": {"id": "a"},
                }
                for one in names
            ]
            return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
        if name == "CommitArtifact":
            return {"commitArtifact": {"artifact": {"id": "a", "digest": "d"}}}
        return {}


def _model(given: dict[str, Any]) -> dict[str, Any]:
    return {"id": "p", "name": given.get("project"), "entity": {"id": "e", "name": "me"}}


def _bucket(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "b",
        "name": given["name"],
        "displayName": given["name"],
        "sweepName": None,
        "description": None,
    }
