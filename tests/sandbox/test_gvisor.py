"""The same contract behind gVisor's kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox.gvisor import GVisorSandbox
from nemo_evaluator.sandbox.local import LocalConfig
from nemo_evaluator.sandbox.manager import SandboxManager

SETTINGS = Limits(memory=512 * 2**20, pids=64)


@pytest.mark.needs("runsc", "root")
async def test_gvisor(tmp_path: Path) -> None:
    async with GVisorSandbox(SandboxSpec(), "test", settings=SETTINGS) as sandbox:
        result = await sandbox.exec(
            "echo out; echo err >&2; touch /usr/x; dmesg | head -n 3; exit 3"
        )
        assert result.exit_code == 3
        assert "gVisor" in result.stdout
        assert "cannot touch '/usr/x'" in result.stderr
        late = await sandbox.exec("echo said; (setsid sleep 1001 &); sleep 60", timeout=1)
        assert (late.timed_out, late.stdout) == (True, "said\n")
        assert "sleep 1001" not in (await sandbox.exec("ps ax")).stdout
        await sandbox.upload(b"data", "d/f")
        await sandbox.download("d", tmp_path / "out")
        assert (tmp_path / "out" / "f").read_bytes() == b"data"
        assert (await sandbox.run_judge(["cat"], b"tests")).stdout == "tests"
        bomb = await sandbox.exec(["python3", "-c", "x = bytearray(2**30)"], timeout=30)
        assert bomb.out_of_memory
        with pytest.raises(SandboxError, match="not started"):
            await sandbox.exec("true")


@pytest.mark.needs("runsc", "root")
async def test_the_runtime_is_chosen_in_the_config() -> None:
    manager = SandboxManager(LocalConfig(type="local", runtime="runsc"), "test")
    try:
        sandbox = await manager.acquire(SandboxSpec())
        assert isinstance(sandbox, GVisorSandbox)
    finally:
        await manager.close()


async def test_without_runsc_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    manager = SandboxManager(LocalConfig(type="local", runtime="runsc"), "test")
    with pytest.raises(SandboxError, match="runsc is not installed"):
        await manager.acquire(SandboxSpec())
    await manager.close()
