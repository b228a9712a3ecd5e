"""OpenAI's batch API as a stand-in: files with the purpose ``batch``, and ``/v1/batches`` over them."""

import time
from typing import Any, ClassVar, Final

import orjson
from aiohttp import web
from aiohttp.web_request import FileField
from batch_server import WINDOW, Batch, BatchServer, Refused, Row, lines

from nemo_evaluator.core.types import JsonDict

_ENDPOINTS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
_UNDONE: Final = {"expired": "batch_expired", "cancelled": "batch_cancelled"}


class OpenAIBatches(BatchServer):
    """Files, batches, and the endpoints that they stand for."""

    routes: ClassVar = {
        "upload": ("POST", "/v1/files"),
        "download": ("GET", "/v1/files/{file}/content"),
        "submit": ("POST", "/v1/batches"),
        "listed": ("GET", "/v1/batches"),
        "poll": ("GET", "/v1/batches/{batch}"),
        "cancel": ("POST", "/v1/batches/{batch}/cancel"),
        "ask": ("POST", "/v1/{path:(chat/)?completions|responses}"),
    }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._files: dict[str, bytes] = {}

    async def upload(self, request: web.Request, _body: JsonDict) -> JsonDict:
        form = await request.post()
        given = form.get("file")
        if form.get("purpose") != "batch" or not isinstance(given, FileField):
            raise Refused(400, "a file with the purpose 'batch' is needed")
        data = given.file.read()
        shown = {
            "object": "file",
            "purpose": "batch",
            "filename": given.filename,
            "status": "processed",
        }
        return shown | {"id": self._keep(data), "bytes": len(data), "created_at": int(time.time())}

    async def download(self, request: web.Request, _body: JsonDict) -> web.Response:
        data = self._files.get(request.match_info["file"])
        if data is None:
            raise Refused(404, "no such file")
        return web.Response(body=self.sent(data), content_type="application/octet-stream")

    async def submit(self, _request: web.Request, body: JsonDict) -> JsonDict:
        data, endpoint = self._files.get(body.get("input_file_id", "")), body.get("endpoint")
        if data is None or endpoint not in _ENDPOINTS or body.get("completion_window") != "24h":
            raise Refused(400, "input_file_id, endpoint and a completion_window of 24h are needed")
        rows = [
            Row(row["custom_id"], row["url"], row["body"])
            for row in map(orjson.loads, data.splitlines())
        ]
        if any(row.path != endpoint for row in rows):
            raise Refused(400, "a line is for another endpoint")
        return self.add(
            "batch_",
            rows,
            {key: body.get(key) for key in ("input_file_id", "endpoint", "metadata")},
        )

    def shown(self, batch: Batch) -> JsonDict:
        good = [row for row in batch.results if 0 < row.status < 400]
        bad = [row for row in batch.results if not 0 < row.status < 400]
        for name, rows in (("output_file_id", good), ("error_file_id", bad)):
            if rows and name not in batch.head:
                batch.head[name] = self._keep(lines([_line(batch, row) for row in rows]))
        status = batch.end or (
            "cancelling" if batch.cancel_asked else "in_progress" if batch.looks else "validating"
        )
        errors = {
            "object": "list",
            "data": [{"code": batch.fate.code, "line": 1, "message": batch.fate.code}],
        }
        return {
            "id": batch.id,
            "object": "batch",
            "completion_window": "24h",
            "status": status,
            "errors": errors if batch.end == "failed" else None,
            "output_file_id": None,
            "error_file_id": None,
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + WINDOW,
            **({f"{batch.end}_at": int(batch.ended)} if batch.ended else {}),
            "request_counts": {
                "total": len(batch.requests),
                "completed": len(good),
                "failed": len(bad),
            },
            **batch.head,
        }

    def _keep(self, data: bytes) -> str:
        name = self.new_id("file-")
        self._files[name] = data
        return name


def _line(batch: Batch, row: Row) -> JsonDict:
    line = {
        "id": f"batch_req_{row.custom_id[:8]}",
        "custom_id": row.custom_id,
        "response": None,
        "error": None,
    }
    if row.answer is None:
        code = _UNDONE.get(str(batch.end), "request_timeout")
        return line | {
            "error": {"code": code, "message": f"This request was not executed: {code}."}
        }
    return line | {
        "response": {"status_code": row.status, "request_id": "req_1", "body": row.answer}
    }
