"""The log of a server: what it prints, without secrets, from the first byte on."""

import os
from pathlib import Path
from threading import Thread
from typing import Final

from nemo_evaluator.core.secrets import scrub_bytes

_CHUNK: Final = 1 << 16
# Bytes of a very long line that wait for more: a secret may be cut in two.
_HELD_BACK: Final = 1 << 14


class ServerLog:
    """Copies the data of a pipe to a log file, without secrets, in a thread, until every writer has closed the pipe.

    Args:
        path: The log file; new lines are appended.

    Attributes:
        pipe: The writing end, for the server's stdout and stderr.
    """

    def __init__(self, path: Path) -> None:
        # Opened here, so that an unwritable folder is an error before the server starts.
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._source, self.pipe = os.pipe()
        self._thread = Thread(target=self._copy, name=f"log {path.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close this process's copy of the writing end, once the server has its own."""
        os.close(self.pipe)

    def wait(self, seconds: float) -> None:
        """Wait until the log holds all output of an ended server, at most ``seconds``."""
        self._thread.join(seconds)

    def _copy(self) -> None:
        pending = b""
        try:
            while data := os.read(self._source, _CHUNK):
                pending = self._write_lines(pending + data)
            self._write(scrub_bytes(pending))
        finally:
            os.close(self._source)
            os.close(self._log)

    def _write_lines(self, data: bytes) -> bytes:
        """Write the complete lines of some bytes.

        Returns:
            The rest, which waits for its line to end.
        """
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > _CHUNK:
            # Too long to wait for its end: only its last bytes wait.
            data = scrub_bytes(data)
            end = len(data) - _HELD_BACK
        self._write(scrub_bytes(data[:end]))
        return data[end:]

    def _write(self, data: bytes) -> None:
        try:
            while data:
                written = os.write(self._log, data)
                data = data[written:]
        except OSError:
            # The disk is full: the server continues without its log rather than waiting for a reader.
            return
