"""OpenAI's batch API: a file, then a batch over it that a nonce in its metadata names."""

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
        """One line of the file."""
        return dumps({"custom_id": custom_id, "method": "POST", "url": f"/v1{path}", "body": body})

    async def upload(self, wave: Wave, lines: Sequence[bytes]) -> str | None:
        """The file; its name holds the nonce, for whoever looks at the vendor's page."""
        form = aiohttp.FormData()
        form.add_field("purpose", "batch")
        name = f"nel-{wave.nonce}.jsonl"
        form.add_field(
            "file", b"\n".join(lines) + b"\n", filename=name, content_type="application/jsonl"
        )
        uploaded = await self.call("POST", "/files", data=form)
        return checked_id(uploaded.get("id"))

    async def submit(self, wave: Wave, path: str, file: str | None, lines: Sequence[bytes]) -> str:
        """The batch over the file."""
        about = {"input_file_id": file, "endpoint": f"/v1{path}", "completion_window": "24h"}
        batch = await self.call(
            "POST", "/batches", json=about | {"metadata": {"nel_wave": wave.nonce}}
        )
        return checked_id(batch.get("id"))

    async def find(self, wave: Wave, taken: Collection[str]) -> str | None:
        """The batch with the nonce."""
        async for one in self.listed("/batches", "after"):
            if as_dict(one.get("metadata")).get("nel_wave") == wave.nonce:
                return checked_id(one.get("id"))
            if one.get("created_at", 0) < wave.sent_at - SKEW:
                break
        return ""

    async def look(self, batch: str) -> Standing:
        """How it stands; what was done before it expired or was cancelled has been paid for and counts."""
        said = await self.call("GET", f"/batches/{checked_id(batch)}")
        counts = as_dict(said.get("request_counts"))
        done = sum(counts.get(name) or 0 for name in ("completed", "failed")) if counts else None
        if said["status"] not in ("completed", "failed", "expired", "cancelled"):
            return Standing(done=done)
        first: JsonDict = next(iter(as_dict(said.get("errors")).get("data") or ()), {})
        files = filter(None, (said.get("output_file_id"), said.get("error_file_id")))
        sources = tuple(f"/files/{checked_id(file)}/content" for file in files)
        return Standing(
            said["status"],
            str(first.get("code") or ""),
            str(first.get("message") or ""),
            done=done,
            sources=sources,
        )

    async def cancel(self, batch: str) -> None:
        """It may go on for up to ten minutes."""
        await self.call("POST", f"/batches/{checked_id(batch)}/cancel")

    def result(self, row: JsonDict) -> Result:
        """A line of the output file or of the error file."""
        response = row.get("response")
        if response:
            return Result(response["status_code"], as_dict(response.get("body")))
        error = as_dict(row.get("error"))
        return Result(why=str(error.get("code") or error.get("message") or "no response"))
