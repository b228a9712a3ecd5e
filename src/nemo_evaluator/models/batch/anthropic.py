"""Anthropic's Message Batches: requests inline, and nothing to name a batch by but the ids of its requests.

So these ids begin with the name of the batch: another run of the same config asks the same, and is not this one. They
show when a batch has ended and not before; until then, time and size tell which batches it cannot be.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

import orjson

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.batch.ledger import MARK, Wave
from nemo_evaluator.models.batch.messages import chat_of_message, to_messages
from nemo_evaluator.models.batch.vendor import SKEW, Result, Standing, Vendor, checked_id
from nemo_evaluator.models.types import ModelRequest

_PATH: Final = "/messages/batches"
_VERSION: Final = {"anthropic-version": "2023-06-01"}
_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class Anthropic(Vendor):
    """``/messages/batches``."""

    most: ClassVar = 100_000
    largest: ClassVar = 240_000_000

    def headers(self) -> dict[str, str]:
        """Who is asking."""
        key = self.endpoint.api_key
        return {
            **({"x-api-key": key.reveal()} if key else {}),
            **_VERSION,
            **self.endpoint.extra_headers,
        }

    def line(self, custom_id: str, path: str, body: JsonDict) -> bytes:
        """One request of the list."""
        return dumps({"custom_id": custom_id, "params": to_messages(body)})

    async def submit(self, wave: Wave, path: str, file: str | None, lines: Sequence[bytes]) -> str:
        """The batch, with all its requests."""
        head = b'{"custom_id":"'
        named = (head + _mark(wave).encode() + line.removeprefix(head) for line in lines)
        data = b'{"requests":[' + b",".join(named) + b"]}"
        batch = await self.call(
            "POST", _PATH, data=data, headers={"content-type": "application/json"}
        )
        return checked_id(batch.get("id"))

    async def find(self, wave: Wave, taken: Collection[str]) -> str | None:
        """The batch whose results have ids that begin with its name; while one may be it, that is open."""
        open_yet = False
        async for one in self.listed(_PATH, "after_id"):
            if datetime.fromisoformat(one["created_at"]).timestamp() < wave.sent_at - SKEW:
                break
            if one["id"] in taken or sum(one["request_counts"].values()) != len(wave.ids):
                continue
            if one["processing_status"] != "ended":
                open_yet = True
            elif await self._named(checked_id(one["id"]), _mark(wave)):
                return checked_id(one["id"])
        return None if open_yet else ""

    async def _named(self, batch: str, mark: str) -> bool:
        start = b""
        async with aclosing(self.download([f"{_PATH}/{batch}/results"])) as parts:
            async for part in parts:
                start += part
                if b"\n" in part:
                    break
        line = start.partition(b"\n")[0]
        return bool(line) and str(orjson.loads(line)["custom_id"]).startswith(mark)

    async def look(self, batch: str) -> Standing:
        """How it stands."""
        said = await self.call("GET", f"{_PATH}/{checked_id(batch)}")
        counts = said["request_counts"]
        done = sum(counts.values()) - counts.get("processing", 0)
        if said["processing_status"] != "ended":
            return Standing(done=done)
        end = next((word for word in ("canceled", "expired") if counts.get(word)), "completed")
        return Standing(
            end.replace("canceled", "cancelled"), done=done, sources=(f"{_PATH}/{batch}/results",)
        )

    async def cancel(self, batch: str) -> None:
        """What is being answered may still be finished."""
        await self.call("POST", f"{_PATH}/{checked_id(batch)}/cancel")

    def result(self, row: JsonDict) -> Result:
        """Succeeded, errored, canceled or expired."""
        result = row["result"]
        if result["type"] == "succeeded":
            return Result(200, chat_of_message(result["message"]))
        if result["type"] != "errored":
            return Result(why=result["type"])
        error = result["error"].get("error") or result["error"]
        return Result(_STATUS.get(str(error.get("type")), 500), {"error": error})

    def direct(self, request: ModelRequest) -> ModelRequest:
        """The same message as in a batch."""
        return replace(request, path="/messages", body=to_messages(request.body), headers=_VERSION)

    def read(self, body: JsonDict) -> JsonDict:
        """As a chat answer."""
        return chat_of_message(body)


def _mark(wave: Wave) -> str:
    """What its ids begin with; they have 64 characters at most, and 32 of them are the request's own."""
    return wave.nonce[:24] + MARK
