"""Servers as steps of a job: their nodes and ports, and the files through which they are started and stopped."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.services.servers import JobPlace

RELAYED = """
cd "$1"
while [ -d "$1" ]; do
  for file in *.start; do
    [ -e "$file" ] || continue
    name=${file%.start}; mv "$file" "$name.sh"
    (bash "$name.sh" & echo $! >"$name.pid"; wait $!; echo $? >"$name.exit") &
  done
  for file in *.stop; do [ ! -e "$file" ] || { rm "$file"; kill "$(cat "${file%.stop}.pid")"; }; done
  sleep 0.1
done
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a job with two pools, whose ``srun`` runs what it gets here."""
    relay = tmp_path / "relay"
    relay.mkdir()
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("NEL_SERVICE_RELAY", str(relay))
    monkeypatch.setenv(
        "NEL_POOL_NODES", "gpu nodes=0:g1@127.0.0.1,g2@127.0.0.1\ncpu=1:c1@127.0.0.1\n"
    )
    monkeypatch.setenv(
        "NEL_JOB_STEP", '{"container": "none", "mounts": ["/a:/a"], "mount_home": true}'
    )
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    script = subprocess.Popen(["bash", "-c", RELAYED, "bash", str(relay)])
    yield relay
    script.kill()
    script.wait()


def service(**more: Any) -> Any:
    block = {
        "type": "vllm",
        "model": "m",
        "protocol": "chat_completions",
        "node_pool": "gpu nodes",
        **more,
    }
    data = {
        "services": {"model": block},
        "benchmarks": [{"name": "b", "solver": {"type": "simple", "service": "model"}}],
    }
    return parse_eval_config(data).services["model"]


def argv(server: Any) -> list[str]:
    return list(server._argv)


def test_replicas_spread_over_the_nodes_of_their_pool(job: Path, tmp_path: Path) -> None:
    place = JobPlace.here()
    assert place is not None
    servers = place.servers("model", place.placed(service(replicas=3)), tmp_path)
    nodes = [words[words.index("--nodelist") + 1] for words in map(argv, servers)]
    assert nodes == ["g1", "g2", "g1"] and all(
        "--het-group=0" in argv(server) for server in servers
    )
    ports = [server.launch.port for server in servers]
    assert len(set(ports)) == 3 and str(ports[0]) in argv(servers[0])


def test_ports_follow_from_the_job_unless_they_were_asked_for(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def port(**more: Any) -> int:
        place = JobPlace.here()
        assert place is not None
        return int(place.placed(service(**more)).port)

    first = port()
    assert port(port=8123) == 8123
    monkeypatch.setenv("SLURM_JOB_ID", "4712")
    assert port() != first
    monkeypatch.setenv("NEL_SHARD_IDX", "0")
    assert port(port=8123) != 8123  # Another shard may be on the same node.


def test_services_of_a_job_share_no_port(job: Path) -> None:
    place = JobPlace.here()
    assert place is not None
    many, other = (place.placed(service(replicas=9, balancer="haproxy")) for _ in range(2))
    # Nine servers, nine places where their nodes meet, one balancer.
    assert many.balancer_port == many.port + 18 and abs(other.port - many.port) >= 19
    assert place.placed(service(replicas=2, balancer_port=5010)).balancer_port == 5010


def test_a_server_over_nodes_knows_them_all_and_needs_them_all(job: Path, tmp_path: Path) -> None:
    place = JobPlace.here()
    assert place is not None
    (server,) = place.servers("model", service(num_nodes=2, tensor_parallel_size=2), tmp_path)
    words = argv(server)
    assert (
        words[words.index("--nodelist") + 1] == "g1,g2"
        and server.launch.env["NEL_NODE_HOSTS"] == "127.0.0.1 127.0.0.1"
    )
    with pytest.raises(UsageError, match="needs 3 nodes, but its pool has 2"):
        place.servers("model", service(num_nodes=3, tensor_parallel_size=2), tmp_path)


async def test_it_is_started_watched_and_stopped_through_files(job: Path, tmp_path: Path) -> None:
    place = JobPlace.here()
    assert place is not None
    (server,) = place.servers(
        "model", service(extra_env={"MY_TOKEN": "it's $x"}), tmp_path / "logs"
    )
    code = "import os, time; print(os.environ['MY_TOKEN'], flush=True); time.sleep(60)"
    server._argv = ["srun", "--flag", "--", sys.executable, "-c", code]  # type: ignore[attr-defined]
    await server._begin()
    async with asyncio.timeout(20):
        while not server.log_path.is_file() or "it's $x" not in server.log_path.read_text():
            await asyncio.sleep(0.05)
    assert server._exit_code() is None and not (job / "model.env").exists()
    assert "it's" not in (job / "model.sh").read_text()
    await server.stop()
    assert server._exit_code() == 143
    await server.stop()
    await server._begin()
    assert server._exit_code() is None
    await server.stop()


def test_outside_a_job_there_is_none() -> None:
    assert JobPlace.here() is None
