"""What untrusted code may try, and that each attempt is contained and reported as what it was."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox.base import OutsideEndpoint, Sandbox

FORK_BOMB = ["python3", "-c", "import os\nwhile True:\n try: os.fork()\n except OSError: pass"]


async def python(sandbox: Sandbox, code: str, timeout: float = 20) -> str:
    """What a program says inside."""
    result = await sandbox.exec(["python3", "-c", code], timeout=timeout)
    return result.stdout + result.stderr


@contextmanager
def listener(host: str = "127.0.0.1") -> Iterator[int]:
    """A server on this machine that greets whoever connects."""
    with socket.create_server((host, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nhost")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


async def test_fork_bomb(sandbox: Sandbox) -> None:
    await sandbox.exec("echo alive > kept")
    began = time.perf_counter()
    result = await sandbox.exec(FORK_BOMB, timeout=1)
    assert result.timed_out
    assert time.perf_counter() - began <= 1.3
    # A container whose every slot is taken is restarted; what was written stays.
    # The kernel may take a moment to count the dead out.
    until = time.monotonic() + 15
    while not (said := (await sandbox.exec("cat kept")).stdout) and time.monotonic() < until:
        await asyncio.sleep(0.1)
    assert said == "alive\n"


async def test_memory_bomb(sandbox: Sandbox) -> None:
    result = await sandbox.exec(
        ["python3", "-c", "x = b''\nwhile True: x += bytes(2**24)"], timeout=30
    )
    assert result.out_of_memory
    assert result.exit_code == 137
    assert not result.timed_out
    after = await sandbox.exec("exit 7")
    assert (after.exit_code, after.out_of_memory) == (7, False)


async def test_disk_fill(make) -> None:  # type: ignore[no-untyped-def]
    sandbox = await make(read_only=True)
    for folder in ("/tmp", "/dev/shm"):
        result = await sandbox.exec(
            f"dd if=/dev/zero of={folder}/big bs=1M; rm {folder}/big", timeout=30
        )
        assert "No space left on device" in result.stderr


@pytest.mark.parametrize(
    "kind", [pytest.param("docker", marks=pytest.mark.needs("docker"))], indirect=True
)
@pytest.mark.parametrize(
    "command",
    [
        # Not at first, so that one look is not enough.
        "sleep 3; i=0; while :; do i=$((i + 1)); head -c 10000000 /dev/zero > /var/tmp/$i; done",
        # Quick ones, none of which is running for long.
        "head -c 30000000 /dev/zero > /var/tmp/$RANDOM$RANDOM",
    ],
)
async def test_a_writable_root_has_a_limit(make, command: str) -> None:  # type: ignore[no-untyped-def]
    sandbox = await make(disk=200 * 10**6)
    began = time.monotonic()
    with pytest.raises(SandboxError, match="more than its disk limit of 200000000 bytes"):
        while time.monotonic() - began < 30:
            result = await sandbox.exec(command, timeout=30)
            if result.exit_code != 0:
                assert (result.exit_code, result.timed_out, result.out_of_memory) == (
                    137,
                    False,
                    False,
                )
                assert "disk limit" in result.stderr
    assert not sandbox.is_running
    large = await make(disk=10**6)
    refused = await large.exec("head -c 2000000 /dev/zero > /var/tmp/x; ls -l /var/tmp/x")
    assert " 1000000 " in refused.stdout


async def test_cpu_spin(make) -> None:  # type: ignore[no-untyped-def]
    sandbox = await make(cpus=0.5)
    code = (
        "import time; t = time.time()\nwhile time.time() < t + 2: pass\nprint(time.process_time())"
    )
    assert float(await python(sandbox, code)) < 1.5
    result = await sandbox.exec(["python3", "-c", "while True: pass"], timeout=1)
    assert result.timed_out


async def test_host_files_and_environment(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    monkeypatch.setenv("NEL_TEST_SECRET", secret)
    hidden = tmp_path / "secret.txt"
    hidden.write_text(secret)
    tmp_path.chmod(0o755)
    hidden.chmod(0o644)
    look = f"cat {hidden}; env; cat /proc/*/environ /proc/1/root{hidden} /proc/*/cwd/secret.txt; ls /root /home; true"
    result = await sandbox.exec(look)
    assert secret not in result.stdout
    assert "No such file" in result.stderr
    own = Path(__file__).resolve()
    assert not (await sandbox.exec(["test", "-e", str(own)])).ok
    shadow = await sandbox.exec("cat /etc/shadow")
    host = Path("/etc/shadow")
    assert not host.exists() or shadow.stdout != host.read_text()


async def test_writing_outside(sandbox: Sandbox, kind: str) -> None:
    name = f"nel-escape-{uuid.uuid4().hex}"
    await sandbox.exec(
        f"for d in / /usr /usr/bin /etc /tmp /var/tmp /dev /run /proc /home; do echo x > $d/{name}; done"
    )
    for folder in ("/", "/usr", "/usr/bin", "/etc", "/tmp", "/var/tmp", "/dev", "/run", "/home"):
        assert not Path(folder, name).exists()
    if kind == "local":
        written = await sandbox.exec(
            f"ls -d /{name} /usr/{name} /usr/bin/{name} /etc/{name} /dev/{name} /run/{name}"
        )
        assert written.stdout == ""


async def test_network_to_the_hosts_loopback(sandbox: Sandbox) -> None:
    with listener() as port:
        with socket.create_connection(("127.0.0.1", port)) as control:
            assert control.recv(4) == b"HTTP"
        said = await python(
            sandbox,
            f"import socket; print(socket.create_connection(('127.0.0.1', {port}), 2).recv(9))",
        )
    assert "ConnectionRefused" in said


@pytest.mark.needs("root")
async def test_network_to_another_namespace(sandbox: Sandbox) -> None:
    # At random: a test that was killed leaves its own behind.
    number = secrets.randbelow(1 << 14)
    name, net = f"nel{number}", f"10.203.{number >> 6}"
    here, there = f"{net}.{number % 64 * 4 + 1}", f"{net}.{number % 64 * 4 + 2}"

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b")
        ip("link", "set", f"{name}b", "netns", name)
        ip("addr", "add", f"{here}/30", "dev", f"{name}a")
        ip("link", "set", f"{name}a", "up")
        ip("-n", name, "addr", "add", f"{there}/30", "dev", f"{name}b")
        ip("-n", name, "link", "set", f"{name}b", "up")
        code = (
            f"import socket; s = socket.create_server(('{there}', 7707)); print('up', flush=True)"
        )
        code += "\nwhile True: s.accept()"
        with subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-c", code], stdout=subprocess.PIPE
        ) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == b"up\n"
                socket.create_connection((there, 7707), 5).close()
                said = await python(
                    sandbox, f"import socket; socket.create_connection(('{there}', 7707), 2)"
                )
                assert "unreachable" in said or "timed out" in said
            finally:
                server.kill()
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", f"{name}a"], capture_output=True)


@pytest.mark.needs("root")
async def test_model_only_reaches_the_model_and_nothing_else(make) -> None:  # type: ignore[no-untyped-def]
    with listener() as model, listener() as other:
        endpoint = OutsideEndpoint(f"http://127.0.0.1:{model}/s/1", "MODEL_BASE_URL")
        sandbox = await make(None, (endpoint,), network="model-only")
        code = "import os, urllib.request as u; print(u.urlopen(os.environ['MODEL_BASE_URL'], timeout=5).read())"
        assert await python(sandbox, code) == "b'host'\n"
        assert sandbox.resolved_endpoint_url("MODEL_BASE_URL").endswith("/s/1")
        for port in (model, other):
            said = await python(
                sandbox, f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
            )
            assert "ConnectionRefused" in said


@pytest.mark.needs("docker")
@pytest.mark.parametrize("kind", ["docker"])
async def test_a_container_has_no_network_unless_it_is_asked_for(kind: str) -> None:
    from nemo_evaluator.config import DockerSandbox as Config
    from nemo_evaluator.sandbox.docker_provider import DockerProvider

    for asked, devices in (({}, 1), ({"network": "bridge"}, 2)):
        provider = DockerProvider(
            Config(type="docker", image="nel-test/python:bookworm", **asked), "test"
        )
        sandbox = provider.create(SandboxSpec(image="nel-test/python:bookworm"))
        try:
            await sandbox.start()
            assert (
                await sandbox.exec("ls /sys/class/net | grep -cE '^(lo|eth)'")
            ).stdout.strip() == str(devices)
        finally:
            await sandbox.stop()
            await provider.close()


async def test_signals_to_the_host(sandbox: Sandbox) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            await sandbox.exec(
                f"kill -9 {victim.pid} {os.getpid()} {os.getppid()}; kill -9 -1", timeout=5
            )
            await asyncio.sleep(0.1)
            assert victim.poll() is None
            assert (await sandbox.exec("echo alive")).stdout == "alive\n"
        finally:
            victim.kill()


async def test_ptrace(sandbox: Sandbox, kind: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            code = (
                "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
                f"print([c.ptrace(16, p, 0, 0) for p in ({victim.pid}, {os.getpid()})], c.ptrace(0, 0, 0, 0))"
            )
            attached, own = (await python(sandbox, code)).split("] ")
        finally:
            victim.kill()
    assert attached == "[-1, -1"
    if kind == "local":
        assert own.strip() == "-1"


async def test_proc_and_namespace_tricks(sandbox: Sandbox, kind: str) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    attempts = {
        "core_pattern": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern",
        "sysrq": "echo h > /proc/sysrq-trigger",
        "mount": "mount -t tmpfs none /tmp",
        "unshare": "unshare -Ur true",
        "pivot": "mkdir -p /tmp/r && mount --bind / /tmp/r",
        "kcore": "head -c 1 /proc/kcore | grep -q .",
        "chroot-out": "ls /proc/1/root/home /proc/1/root/root/.ssh",
        "init-memory": "dd if=/dev/zero of=/proc/1/mem bs=1 count=1",
        "modules": "insmod /dev/null",
        "nsenter": "nsenter -t 1 -m true" if kind == "local" else "false",
    }
    script = "\n".join(
        f"( {command} ) >/dev/null 2>&1 && echo {name}" for name, command in attempts.items()
    )
    result = await sandbox.exec(f"{script}\ntrue")
    assert result.stdout == ""
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern


async def test_no_capabilities_and_no_new_privileges(sandbox: Sandbox, kind: str) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in (await sandbox.exec("cat /proc/self/status")).stdout.splitlines()
        if ":\t" in line
    )
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert int(status["CapBnd"], 16) & ~(0xEB if kind == "docker" else 0) == 0
    if kind == "local":
        # Root of the host must not be root inside, whatever it is called there.
        assert int(status["Uid"].split()[0]) != 0
        assert "Address family not supported" in await python(
            sandbox, "import socket; socket.socket(socket.AF_VSOCK)"
        )


async def test_links_in_a_download_are_not_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.exec(
        "mkdir w && cd w && echo data > plain && ln -s plain near && ln -s /etc/passwd far && ln -s ../../x up && "
        "ln -s / root && mkfifo pipe"
    )
    target = tmp_path / "out"
    await sandbox.download("w", target)
    assert sorted(path.name for path in target.iterdir()) == ["near", "plain"]
    # A link that waits at the target, planted by an earlier download, is replaced and not written through.
    outside = tmp_path / "outside"
    outside.write_text("safe")
    (target / "plain").unlink()
    (target / "plain").symlink_to(outside)
    await sandbox.download("w", target)
    assert outside.read_text() == "safe"
    assert (target / "plain").read_text() == "data\n"


async def test_a_link_at_the_target_of_an_upload_stays_inside(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("safe")
    await sandbox.exec(f"ln -s {victim} link; mkdir -p $(dirname {victim}) 2>/dev/null; true")
    try:
        await sandbox.upload(b"evil", "link")
    except SandboxError:
        pass
    assert victim.read_text() == "safe"


async def test_huge_output(sandbox: Sandbox) -> None:
    result = await sandbox.exec(
        "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end", max_output_bytes=1000
    )
    assert result.ok
    assert result.truncated
    assert len(result.stdout) < 1200
    assert result.stdout.endswith("end\n")
    flood = await sandbox.exec("yes", timeout=1, max_output_bytes=1000)
    assert flood.timed_out
    assert flood.truncated


async def test_invalid_bytes(sandbox: Sandbox) -> None:
    result = await sandbox.exec(
        ["python3", "-c", r"import os; os.write(1, b'\xff\xfe ok \x00 \xc3'); os.write(2, b'\x80')"]
    )
    assert result.stdout == "\ufffd\ufffd ok \x00 \ufffd"
    assert result.stderr == "\ufffd"
