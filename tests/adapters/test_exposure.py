"""What others can see of a proxy: no port from another network, no key in the process list."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_evaluator.testing import ScriptedServer

KEY = "sk-exposure-0123456789"
HERE, THERE = "10.213.77.1", "10.213.77.2"
PROBE = """
import socket, sys
for port in sys.argv[2:]:
    with socket.socket() as probe:
        probe.settimeout(2)
        print(port, probe.connect_ex((sys.argv[1], int(port))))
"""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def other_network() -> Iterator[str]:
    """A network namespace that reaches this machine at ``HERE``."""
    name, ours, theirs = f"nel{os.getpid()}", f"nv{os.getpid()}", f"nw{os.getpid()}"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
        _ip("link", "set", theirs, "netns", name)
        _ip("addr", "add", f"{HERE}/24", "dev", ours)
        _ip("link", "set", ours, "up")
        _ip("netns", "exec", name, "ip", "addr", "add", f"{THERE}/24", "dev", theirs)
        _ip("netns", "exec", name, "ip", "link", "set", theirs, "up")
        yield name
    finally:
        _ip("netns", "del", name)


def _reachable(network: str, ports: list[int]) -> list[int]:
    words = ["ip", "netns", "exec", network, sys.executable, "-c", PROBE, HERE, *map(str, ports)]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    return [int(port) for port, code in (line.split() for line in said.splitlines()) if code == "0"]


def _listening(pid: int) -> list[int]:
    """The ports a process listens on."""
    sockets = {
        str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()
    }
    ports = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            ports.append(int(fields[1].rpartition(":")[2], 16))
    return ports


@pytest.mark.needs("root")
@pytest.mark.needs("netns")
def test_no_port_is_open_to_another_network(other_network, tmp_path):
    with ScriptedServer("ok", api_key=KEY) as server:
        config = tmp_path / "config.yaml"
        service = {
            "type": "api",
            "url": server.url,
            "protocol": "chat_completions",
            "api_key": "${THE_KEY}",
        }
        config.write_text(json.dumps({"services": {"m": service}}))
        words = [
            sys.executable,
            "-m",
            "nemo_evaluator.cli.main",
            "proxy",
            str(config),
            "--port",
            "0",
            "--json",
        ]
        with subprocess.Popen(
            words, env={**os.environ, "THE_KEY": KEY}, stdout=subprocess.PIPE, text=True
        ) as process:
            said = json.loads(process.stdout.readline())
            ports = _listening(process.pid)
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            open_ports = _reachable(other_network, ports)
            process.send_signal(signal.SIGTERM)
    assert int(said["url"].rpartition(":")[2].partition("/")[0]) in ports
    assert open_ports == []
    assert KEY.encode() not in shown
    assert said["token"].encode() not in shown
    # The probe itself works: a listener on every network is found.
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        port = everywhere.getsockname()[1]
        assert _reachable(other_network, [port]) == [port]


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(below for child in children for below in _family(int(child)))]


@pytest.mark.needs("root")
@pytest.mark.needs("netns")
@pytest.mark.needs("model")
def test_no_port_of_a_whole_run_is_open_to_another_network(other_network, tmp_path):
    """A run that starts its own model server: the server listens, and only on loopback."""
    service = {"type": "llama_cpp", "model": "smollm2-135m", "threads": 1}
    bench = {"name": "quickstart", "solver": {"type": "simple", "service": "m"}}
    (tmp_path / "c.yaml").write_text(
        json.dumps({"services": {"m": service}, "benchmarks": [bench]})
    )
    words = [sys.executable, "-m", "nemo_evaluator.cli.main", "eval", "run", "c.yaml"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "samples to run" in line:
                break
        ports = [port for pid in _family(process.pid) for port in _listening(pid)]
        open_ports = _reachable(other_network, ports)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert ports, "the model server must be listening"
    assert open_ports == []
