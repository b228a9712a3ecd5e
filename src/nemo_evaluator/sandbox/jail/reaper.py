"""The reaper process: lines on stdin name the sandboxes that exist; when stdin ends, it removes them."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from . import syscalls

_TIMEOUT: Final = 30.0


def main() -> None:
    """Read until the end of stdin, then remove the sandboxes that are left."""
    syscalls.set_name("nel-reaper")
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_IGN)
    known: dict[str, dict[str, Any]] = {}
    for line in sys.stdin.buffer:
        # A kill of the evaluator may cut the last line.
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if "add" in message:
                known[message["add"]] = message
            else:
                known.pop(message["forget"], None)
    threads = [threading.Thread(target=_remove, args=(message,)) for message in known.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _remove(message: dict[str, Any]) -> None:
    """Remove one sandbox, by its command or by requests to the engine. Nobody is left to read an error."""
    with contextlib.suppress(OSError, http.client.HTTPException, subprocess.SubprocessError):
        if "argv" in message:
            quiet = subprocess.DEVNULL
            subprocess.run(
                message["argv"],
                timeout=_TIMEOUT,
                check=False,
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
            )
            Path(message["record"]).unlink(missing_ok=True)
            return
        for path in message["delete"]:
            _delete(message["host"], path)


def _delete(host: str, path: str) -> None:
    engine = urlsplit(host)
    connection = http.client.HTTPConnection(
        engine.hostname or "docker", engine.port, timeout=_TIMEOUT
    )
    if engine.scheme == "unix":
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_TIMEOUT)
        connection.sock.connect(engine.path)
    connection.request("DELETE", path, headers={"Host": "docker"})
    connection.getresponse().read()
    connection.close()
