"""Anthropic's Message Batches: the requests are inline, and only their ids can identify a batch.

So the ids begin with the name of the batch: another run of the same config sends the same requests, but is not the same
batch. The ids can be read only after a batch has ended; until then, its time and size exclude some batches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.batch.ledger import MARK, Wave, custom_id_of
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
        """Return the headers of every call."""
        headers = dict(_VERSION)
        key = self.endpoint.api_key
        if key:
            headers["x-api-key"] = key.reveal()
        return {**headers, **self.endpoint.extra_headers}

    def line(self, custom_id: str, path: str, body: JsonDict) -> bytes:
        """Return one request of the list."""
        return dumps({"custom_id": custom_id, "params": to_messages(body)})

    async def submit(self, wave: Wave, path: str, file: str | None, lines: Sequence[bytes]) -> str:
        """Submit the batch with all its requests."""
        # The lines begin with the id of the request; the name of the batch goes in front of it.
        head = b'{"custom_id":"'
        named_head = head + _mark(wave).encode()
        requests = b",".join([named_head + line.removeprefix(head) for line in lines])
        data = b'{"requests":[' + requests + b"]}"
        headers = {"content-type": "application/json"}
        batch = await self.call("POST", _PATH, data=data, headers=headers)
        return checked_id(batch.get("id"))

    async def find(self, wave: Wave, taken: Collection[str]) -> str | None:
        """Find the batch whose result ids begin with its name; None while a running batch may be the one."""
        may_be_running = False
        async for batch in self.listed(_PATH, "after_id"):
            created_at = datetime.fromisoformat(batch["created_at"]).timestamp()
            if created_at < wave.sent_at - SKEW:
                break
            size = sum(batch["request_counts"].values())
            if batch["id"] in taken or size != len(wave.ids):
                continue
            if batch["processing_status"] != "ended":
                may_be_running = True
            elif await self._named(checked_id(batch["id"]), _mark(wave)):
                return checked_id(batch["id"])
        return None if may_be_running else ""

    async def _named(self, batch: str, mark: str) -> bool:
        """Whether the first result of a batch that can be read has an id that begins with ``mark``."""
        start = b""
        async with aclosing(self.download([f"{_PATH}/{batch}/results"])) as parts:
            async for part in parts:
                *lines, start = (start + part).split(b"\n")
                for line in lines:
                    custom_id = custom_id_of(line)
                    if custom_id is not None:
                        return custom_id.startswith(mark)
        return False

    async def look(self, batch: str) -> Standing:
        """Fetch the state of a batch."""
        report = await self.call("GET", f"{_PATH}/{checked_id(batch)}")
        counts = report["request_counts"]
        done = sum(counts.values()) - counts.get("processing", 0)
        if report["processing_status"] != "ended":
            return Standing(done=done)
        if counts.get("canceled"):
            end = "cancelled"
        elif counts.get("expired"):
            end = "expired"
        else:
            end = "completed"
        return Standing(end, done=done, sources=(f"{_PATH}/{batch}/results",))

    async def cancel(self, batch: str) -> None:
        """Cancel a batch; requests that are being answered may still finish."""
        await self.call("POST", f"{_PATH}/{checked_id(batch)}/cancel")

    def parse(self, row: JsonDict) -> Result:
        """Parse the result of a line: succeeded, errored, canceled or expired."""
        result = row["result"]
        if result["type"] == "succeeded":
            message = result["message"]
            # A message may have no text, but it always has a list of blocks.
            if not isinstance(message["content"], list):
                raise TypeError("the content of the message is not a list")
            return Result(200, chat_of_message(message))
        if result["type"] != "errored":
            return Result(why=result["type"])
        error = result["error"].get("error") or result["error"]
        return Result(_STATUS.get(str(error.get("type")), 500), {"error": error})

    def direct(self, request: ModelRequest) -> ModelRequest:
        """Build the request that a batch would contain."""
        return replace(request, path="/messages", body=to_messages(request.body), headers=_VERSION)

    def read(self, body: JsonDict) -> JsonDict:
        """Convert the message to a chat answer."""
        return chat_of_message(body)


def _mark(wave: Wave) -> str:
    """The beginning of the ids in a batch; ids have at most 64 characters, of which the request needs 32."""
    return wave.nonce[:24] + MARK
