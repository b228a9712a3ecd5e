"""The log of a server: what it prints, without secrets, from the first byte on."""

import os
from pathlib import Path
from threading import Thread
from typing import Final

from nemo_evaluator.core.secrets import scrub_bytes

_CHUNK: Final = 1 << 16
# Of a line without an end so much is held back: a secret may be cut in two.
_HELD_BACK: Final = 1 << 14


class ServerLog:
    """Copies what comes out of a pipe into a log, in a thread of its own, until nobody holds the pipe any more.

    Args:
        path: The log; it is continued.
    """

    def __init__(self, path: Path) -> None:
        # Opened here, so that a folder that cannot be written to is an error before a server starts.
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._source, self.pipe = os.pipe()
        self._thread = Thread(target=self._copy, name=f"log {path.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give up this process's own end of the pipe, once the server has it."""
        os.close(self.pipe)

    def wait(self, seconds: float) -> None:
        """Wait until all that an ended server printed is in the log."""
        self._thread.join(seconds)

    def _copy(self) -> None:
        held = b""
        try:
            while data := os.read(self._source, _CHUNK):
                held = self._written(held + data)
            self._write(scrub_bytes(held))
        finally:
            os.close(self._source)
            os.close(self._log)

    def _written(self, data: bytes) -> bytes:
        """Write the whole lines of some bytes; returns what is held back."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > _CHUNK:
            data = scrub_bytes(data)
            end = len(data) - _HELD_BACK
        self._write(scrub_bytes(data[:end]))
        return data[end:]

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._log, data) :]
        except OSError:
            # A full disk: the server goes on without its log rather than waiting for a reader.
            return
