"""``model_traffic.jsonl``: records in batches, without secrets, up to a size."""

import asyncio
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import dumps, scrub_json
from nemo_evaluator.core.types import JsonDict

_BATCH: Final = 256
_DELAY: Final = 0.5
_CONTENT: Final = ("tool_calls_full", "reasoning_content", "message_content", "request_body", "error_body")


class TrafficLog:
    """Takes records with ``write`` (give it to ``CallScope.traffic``) and appends them to a file.

    ``keep`` is ``metadata`` or ``bodies``. Past ``max_bytes`` records are not written but counted in
    ``left_out``.
    """

    def __init__(self, path: Path, *, keep: str = "bodies", max_bytes: int = 2_000_000_000) -> None:
        self.path = path
        self.left_out = 0
        self.written = 0
        self._bodies = keep == "bodies"
        self._max = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._size = path.stat().st_size if path.is_file() else 0
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, record: JsonDict) -> None:
        """Take a record; it is on disk half a second later at most."""
        if not self._bodies:
            record = {key: value for key, value in record.items() if key not in _CONTENT}
        line = scrub_json(dumps(record)) + b"\n"
        if self._size + len(line) > self._max:
            self.left_out += 1
            return
        self._size += len(line)
        self.written += 1
        self._lines.append(line)
        if len(self._lines) >= _BATCH:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self.flush)

    def flush(self) -> None:
        """Write what is waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            lines, self._lines = self._lines, []
            with self.path.open("ab") as file:
                file.write(b"".join(lines))

    def close(self) -> None:
        """Write what is waiting and stop."""
        self.flush()
