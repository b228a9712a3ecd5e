"""Fargate sandboxes: the AWS side against moto over HTTP, the inside by running the real exec server here."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from moto_server import REGION, aws

from nemo_evaluator.config import EcsFargateSandbox, SshSidecar
from nemo_evaluator.config.fields import NotYet
from nemo_evaluator.config.kinds import marks
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import VolumeMount, _ecs_server, _ecs_tunnel
from nemo_evaluator.sandbox.ecs_provider import EcsProvider, aws_client
from nemo_evaluator.sandbox.manager import SandboxManager

__all__ = ["aws"]
pytestmark = pytest.mark.needs("moto")
KEYS = {"public_key_secret_arn": "arn:public", "private_key_secret_arn": "private"}


class LocalTunnel:
    """Stands for the tunnel: runs the exec server here, with the token that the task was given."""

    def __init__(self, token: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, _ecs_server.__file__, "0"],
            env={**os.environ, "NEL_EXEC_TOKEN": token},
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def inside(self, url: str) -> str:
        return url

    async def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
async def manager(
    aws: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[SandboxManager]:
    config = EcsFargateSandbox(
        type="ecs_fargate",
        region=REGION,
        cluster="boxes",
        subnets=[aws],
        image="python:3.12",
        ssh_sidecar=SshSidecar(**KEYS),
    )
    made = SandboxManager(config, "run-7")

    async def connect(self: EcsProvider, address: str, outside: list[str]) -> LocalTunnel:
        assert len(address.split(".")) == 4
        tasks = self._ecs.list_tasks(cluster="boxes")["taskArns"]
        task = self._ecs.describe_tasks(cluster="boxes", tasks=tasks)["tasks"][-1]
        environment = task["overrides"]["containerOverrides"][0]["environment"]
        return await asyncio.to_thread(LocalTunnel, environment[0]["value"])

    monkeypatch.setattr(EcsProvider, "connect", connect)
    yield made
    await made.close()


async def test_a_task_is_run_used_and_stopped(manager: SandboxManager, tmp_path: Path) -> None:
    scratch = VolumeMount(container_path=str(tmp_path / "scratch"))
    spec = SandboxSpec(
        image="python:3.12", workdir=str(tmp_path / "work"), env={"A": "1"}, volumes=[scratch]
    )
    sandbox = await manager.acquire(spec)
    # As in every other sandbox: bash where there is one, and the folders that work is carried in.
    assert (await sandbox.exec(f"set -o pipefail; test -d {scratch.container_path}")).ok
    result = await sandbox.exec("echo $B; echo err >&2; exit 3", env={"B": "x y"})
    assert (result.exit_code, result.stdout, result.stderr) == (3, "x y\n", "err\n")
    late = await sandbox.exec("echo said; (setsid sleep 1009 &); sleep 60", timeout=1)
    assert (late.timed_out, late.stdout) == (True, "said\n")
    assert late.duration_ms < 2000
    await sandbox.upload(b"data", "f")
    await sandbox.download("f", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"data"
    assert (await sandbox.run_judge(["cat"], b"tests")).stdout == "tests"
    ecs = aws_client("ecs", REGION)
    (arn,) = ecs.list_tasks(cluster="boxes")["taskArns"]
    task = ecs.describe_tasks(cluster="boxes", tasks=[arn], include=["TAGS"])["tasks"][0]
    assert {"key": "nel.run_id", "value": "run-7"} in task["tags"]
    definition = ecs.describe_task_definition(taskDefinition=task["taskDefinitionArn"])[
        "taskDefinition"
    ]
    assert "NEL_EXEC_TOKEN" not in json.dumps(definition, default=str)
    await manager.release(sandbox)
    stopped = ecs.describe_tasks(cluster="boxes", tasks=[arn])["tasks"][0]
    assert stopped["desiredStatus"] == "STOPPED"


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        (VolumeMount("/data", "/inside"), "folder of this machine: /inside .*into the image"),
        (
            VolumeMount(container_path="/inside", efs_filesystem_id="fs-1"),
            "EFS cannot be mounted: /inside",
        ),
    ],
)
async def test_a_volume_that_a_task_cannot_have_is_refused(
    manager: SandboxManager, mount: VolumeMount, told: str
) -> None:
    ecs = aws_client("ecs", REGION)
    before = ecs.list_tasks(cluster="boxes")["taskArns"]
    with pytest.raises(SandboxError, match=told) as refused:
        await manager.acquire(SandboxSpec(image="python:3.12", volumes=[mount]))
    assert refused.value.final and ecs.list_tasks(cluster="boxes")["taskArns"] == before


async def test_a_lost_answer_does_not_run_the_command_again(
    manager: SandboxManager, tmp_path: Path
) -> None:
    spec = SandboxSpec(image="python:3.12", workdir=str(tmp_path / "work"))
    sandbox: Any = await manager.acquire(spec)
    proxy = await _dropping_proxy(sandbox._tunnel.url)
    real, sandbox._tunnel.url = (
        sandbox._tunnel.url,
        f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}",
    )
    result = await sandbox.exec("echo once >> count; cat count")
    assert result.stdout == "once\n"
    sandbox._tunnel.url = real
    assert (await sandbox.exec("cat count")).stdout == "once\n"
    proxy.close()
    await manager.release(sandbox)


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))


async def _dropping_proxy(url: str) -> asyncio.Server:
    """Carries the first request to the server and drops its answer; the second goes through."""
    port = int(url.rpartition(":")[2])
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        drop = seen == 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        far_writer.write(head + await reader.readexactly(size))
        answer = await far_reader.readuntil(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1])
            for line in answer.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        answer += await far_reader.readexactly(size)
        if not drop:
            writer.write(answer)
            await writer.drain()
        for each in (far_writer, writer):
            each.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def test_a_stranger_is_turned_away(tmp_path: Path) -> None:
    tunnel = await asyncio.to_thread(LocalTunnel, "right")
    try:
        head = "POST /exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\nContent-Length: 2\r\n\r\n{}"
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(tunnel.url.rpartition(":")[2])
        )
        writer.write(head.encode())
        assert b" 403 " in await reader.readline()
        writer.close()
    finally:
        await tunnel.close()


async def test_settings_are_found_in_ssm_and_the_config_wins(aws: str) -> None:
    found = {"cluster": "boxes", "subnets": ["found"], "ssh_sidecar": KEYS}
    aws_client("ssm", REGION).put_parameter(
        Name="/p/ecs-sandbox/config", Value=json.dumps(found), Type="String"
    )
    provider = EcsProvider(
        EcsFargateSandbox(type="ecs_fargate", region=REGION, subnets=[aws], ssm_project="p"), "r"
    )
    await provider.check()
    assert (provider._config.cluster, provider._config.subnets) == ("boxes", [aws])
    await provider.close()


async def test_what_cannot_be_done_is_said(aws: str) -> None:
    for options, why in (
        ({"cluster": "none", "subnets": ["s"], "ssh_sidecar": KEYS}, "no active cluster"),
        ({"cluster": "boxes"}, "needs subnets, ssh_sidecar"),
    ):
        provider = EcsProvider(EcsFargateSandbox(type="ecs_fargate", region=REGION, **options), "r")
        with pytest.raises(SandboxError, match=why):
            await provider.check()
        await provider.close()


def test_settings_that_do_nothing_yet_are_refused_by_name() -> None:
    later = {name for name, _ in marks(EcsFargateSandbox, NotYet)}
    assert {"efs_filesystem_id", "s3_bucket", "codebuild_project", "container_port"} <= later


def test_ports_of_the_way_out() -> None:
    ports = _ecs_tunnel._reverse_ports(
        [
            "http://127.0.0.1:4000/s/1",
            "http://127.0.0.1:4000/s/2",
            "http://127.0.0.1:52222/x",
            "http://h/y",
        ],
        {52222},
    )
    assert ports == {("127.0.0.1", 4000): 4000, ("127.0.0.1", 52222): 20000, ("h", 80): 20001}


@pytest.mark.needs("sshd", "root")
async def test_the_tunnel_with_a_real_sshd(tmp_path: Path) -> None:
    """In through it comes the exec server, out through it goes the model; the key is gone afterwards."""
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True
        )
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "ListenAddress": "127.0.0.1",
        "PermitRootLogin": "prohibit-password",
    }
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    sshd = subprocess.Popen(
        [shutil.which("sshd") or "sshd", "-D", "-f", "/dev/null", "-p", str(port), *flags],
        stderr=subprocess.DEVNULL,
    )
    inside = await asyncio.to_thread(LocalTunnel, "token")
    settings = SshSidecar(
        **KEYS,
        sshd_port=port,
        exec_server_port=int(inside.url.rpartition(":")[2]),
        ssh_ready_timeout_sec=30,
    )
    greeter = await asyncio.start_server(_greet, "127.0.0.1", 0)
    outside = f"http://127.0.0.1:{greeter.sockets[0].getsockname()[1]}/s/1"
    # The port of the outside endpoint is taken here, on one machine: another one must be chosen on the far end.
    tunnel = _ecs_tunnel.Tunnel("127.0.0.1", settings, (tmp_path / "user").read_text(), [outside])
    tunnel._ports = {target: 20_000 + os.getpid() % 10_000 for target in tunnel._ports}
    try:
        await tunnel.open()
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{tunnel.url}/health") as response,
        ):
            assert response.status == 200
        async with (
            aiohttp.ClientSession() as session,
            session.get(tunnel.inside(outside)) as response,
        ):
            assert await response.text() == "model"
        key = tunnel._folder
        assert key is not None
        assert (key / "key").stat().st_mode & 0o777 == 0o600
    finally:
        await tunnel.close()
        await inside.close()
        greeter.close()
        sshd.kill()
        sshd.wait()
    assert not key.exists()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nmodel")
    await writer.drain()
    writer.close()
