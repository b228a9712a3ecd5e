"""OpenAI's batch API: a file, then a batch over the file, which a nonce in its metadata identifies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

import aiohttp

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.batch.ledger import Wave
from nemo_evaluator.models.batch.vendor import SKEW, Result, Standing, Vendor, checked_id


class OpenAI(Vendor):
    """Files and ``/batches``."""

    most: ClassVar = 50_000
    largest: ClassVar = 190_000_000

    def line(self, custom_id: str, path: str, body: JsonDict) -> bytes:
        """Return one line of the file."""
        return dumps({"custom_id": custom_id, "method": "POST", "url": f"/v1{path}", "body": body})

    async def upload(self, wave: Wave, lines: Sequence[bytes]) -> str | None:
        """Upload the file. Its name contains the nonce, so that it can be recognised on the vendor's page."""
        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        form.add_field(
            "file",
            b"\n".join(lines) + b"\n",
            filename=f"nel-{wave.nonce}.jsonl",
            content_type="application/jsonl",
        )
        uploaded = await self.call("POST", "/files", data=form)
        return checked_id(uploaded.get("id"))

    async def submit(self, wave: Wave, path: str, file: str | None, lines: Sequence[bytes]) -> str:
        """Submit the batch over the file."""
        body = {
            "input_file_id": file,
            "endpoint": f"/v1{path}",
            "completion_window": "24h",
            "metadata": {"nel_wave": wave.nonce},
        }
        batch = await self.call("POST", "/batches", json=body)
        return checked_id(batch.get("id"))

    async def find(self, wave: Wave, taken: Collection[str]) -> str | None:
        """Find the batch with the nonce."""
        async for batch in self.listed("/batches", "after"):
            metadata = as_dict(batch.get("metadata"))
            if metadata.get("nel_wave") == wave.nonce:
                return checked_id(batch.get("id"))
            if batch.get("created_at", 0) < wave.sent_at - SKEW:
                break
        return ""

    async def look(self, batch: str) -> Standing:
        """Fetch the state of a batch.

        Results from before it expired or was cancelled are paid for, so they count.
        """
        report = await self.call("GET", f"/batches/{checked_id(batch)}")
        done: int | None = None
        counts = as_dict(report.get("request_counts"))
        if counts:
            done = (counts.get("completed") or 0) + (counts.get("failed") or 0)
        status = report["status"]
        if status not in ("completed", "failed", "expired", "cancelled"):
            return Standing(done=done)
        errors = as_dict(report.get("errors")).get("data")
        first_error: JsonDict = errors[0] if errors else {}
        sources: list[str] = []
        for file in (report.get("output_file_id"), report.get("error_file_id")):
            if file:
                sources.append(f"/files/{checked_id(file)}/content")
        return Standing(
            end=status,
            code=str(first_error.get("code") or ""),
            why=str(first_error.get("message") or ""),
            done=done,
            sources=tuple(sources),
        )

    async def cancel(self, batch: str) -> None:
        """Cancel a batch; it may continue for up to ten minutes."""
        await self.call("POST", f"/batches/{checked_id(batch)}/cancel")

    def parse(self, row: JsonDict) -> Result:
        """Parse a line of the output file or of the error file."""
        response = row["response"]
        if response:
            status = response["status_code"]
            if not isinstance(status, int):
                raise TypeError(f"status_code is {status!r}")
            return Result(status, as_dict(response.get("body")))
        error = as_dict(row.get("error"))
        return Result(why=str(error.get("code") or error.get("message") or "no response"))
