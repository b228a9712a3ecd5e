"""A server's log holds no secret at any moment, however the server's output is cut into pieces."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.servers.server_log import ServerLog


def _until(path: Path, text: bytes) -> bytes:
    deadline = time.monotonic() + 30
    while text not in path.read_bytes():
        assert time.monotonic() < deadline, path.read_bytes()[-200:]
        time.sleep(0.01)
    return path.read_bytes()


@pytest.fixture
def key() -> bytes:
    value = f"server-key-{secrets.token_hex(8)}"
    Secret(value)
    return value.encode()


def test_whole_lines_are_there_at_once_and_without_the_secret(tmp_path: Path, key: bytes) -> None:
    log = ServerLog(tmp_path / "server.log")
    os.write(log.pipe, b"args: --api-key " + key[:7])
    os.write(log.pipe, key[7:] + b" --port 1\nready\n")
    assert _until(tmp_path / "server.log", b"ready") == b"args: --api-key *** --port 1\nready\n"
    assert (tmp_path / "server.log").stat().st_mode & 0o777 == 0o600
    os.write(log.pipe, b"no end " + key)
    log.close()
    log.wait(30)
    assert (tmp_path / "server.log").read_bytes().endswith(b"ready\nno end ***")


def test_a_line_without_an_end_is_written_as_well(tmp_path: Path, key: bytes) -> None:
    log = ServerLog(tmp_path / "server.log")
    for _ in range(400):
        os.write(log.pipe, b"x" * 997 + key)
    during = _until(tmp_path / "server.log", b"x" * 997 + b"***")
    log.close()
    log.wait(30)
    text = (tmp_path / "server.log").read_bytes()
    assert key not in during
    assert text == (b"x" * 997 + b"***") * 400


def test_a_full_disk_does_not_hold_the_server_up(tmp_path: Path) -> None:
    (tmp_path / "server.log").symlink_to("/dev/full")
    log = ServerLog(tmp_path / "server.log")
    for _ in range(100):
        os.write(log.pipe, b"y" * 10_000 + b"\n")
    log.close()
    log.wait(30)
    assert not log._thread.is_alive()
