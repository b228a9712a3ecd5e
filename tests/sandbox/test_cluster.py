"""Apptainer sandboxes, against a stand-in that really runs what it is told, each in its own root."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nemo_evaluator.config.sandboxes import ApptainerSandbox as ApptainerConfig
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._nodes import NodeSlots
from nemo_evaluator.sandbox.base import OutsideEndpoint
from nemo_evaluator.sandbox.manager import SandboxManager

# Each command in a process space of its own, as on a node: whatever cleans up in there must not see this machine.
WALL = """
WALL = "bwrap --bind / / --dev-bind /dev /dev --unshare-pid --proc /proc --die-with-parent".split()
"""
APPTAINER = """
import json, os, pathlib, subprocess, sys
home = pathlib.Path(os.environ["STAND_IN"])
args = sys.argv[1:]
(home / "log").open("a").write(json.dumps(args) + "\\n")
inside = {k[13:]: v for k, v in os.environ.items() if k.startswith("APPTAINERENV_")}
inside.setdefault("PATH", os.environ["PATH"])
if args == ["--version"]:
    print("apptainer version " + os.environ.get("STAND_IN_VERSION", "1.4.5"))
elif args[0] == "build":
    if "bad" in args[2]:
        pathlib.Path(args[1]).write_text("half")
        sys.exit("FATAL: no such image")
    pathlib.Path(args[1]).write_text(args[2])
elif args[:2] == ["instance", "start"]:
    *flags, image, name = args[2:]
    assert "--containall" in flags and "--no-privs" in flags, flags
    assert pathlib.Path(image).exists(), image
    (home / "instances" / name).mkdir(parents=True)
elif args[:2] == ["instance", "stop"]:
    (home / "instances" / args[-1]).rename(home / "stopped")
elif args[0] == "exec":
    at = next(i for i, a in enumerate(args) if a.startswith("instance://"))
    assert "--cleanenv" in args[:at]
    root = home / "instances" / args[at].removeprefix("instance://")
    assert root.is_dir(), "no such instance"
    command = [a.replace("/workspace", str(root)) for a in args[at + 1:]]
    os.chdir(root)
    os.execvpe("bwrap", [*WALL, *command], inside)
"""
pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for apptainer, first on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "apptainer").write_text(f"#!{sys.executable} -IS\n{WALL}{APPTAINER}")
    (tools / "apptainer").chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(home))
    return home


async def _contract(manager: SandboxManager, spec: SandboxSpec) -> None:
    secret = OutsideEndpoint("http://127.0.0.1:81/s/1", "MODEL_BASE_URL")
    sandbox = await manager.acquire(spec, [secret])
    result = await sandbox.exec("echo $A; echo err >&2; pwd; exit 3", env={"A": "x y; $(z) 'q'"})
    assert (result.exit_code, result.stderr) == (3, "err\n")
    assert result.stdout.startswith("x y; $(z) 'q'\n")
    assert sandbox.resolved_endpoint_url("MODEL_BASE_URL") is not None
    await sandbox.exec("echo state > f")
    assert (await sandbox.exec("cat f")).stdout == "state\n"
    late = await sandbox.exec("echo said; sleep 60", timeout=0.7)
    assert (late.timed_out, late.stdout) == (True, "said\n")
    with pytest.raises(SandboxError, match="no user"):
        await sandbox.exec("true", user="root")
    await manager.release(sandbox)


async def test_apptainer(stand_in: Path, tmp_path: Path) -> None:
    config = ApptainerConfig(type="apptainer", image="debian:12", sif_cache_dir=str(tmp_path / "sif"), memory="1g")
    manager = SandboxManager(config, "run")
    try:
        await _contract(manager, manager.resolve(None))
    finally:
        await manager.close()
    assert (tmp_path / "sif" / "debian__12.sif").read_text() == "docker://debian:12"
    assert (stand_in / "stopped").is_dir()
    log = (stand_in / "log").read_text()
    assert '"--memory", "1073741824"' in log
    assert "$(z)" not in log.replace('"-c"', "")


async def test_apptainer_says_what_is_wrong(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ApptainerConfig(type="apptainer", sif_cache_dir=str(tmp_path / "sif"))
    manager = SandboxManager(config, "run")
    with pytest.raises(SandboxError, match="no such image"):
        await manager.acquire(SandboxSpec(image="bad:1"))
    assert list((tmp_path / "sif").iterdir()) == []
    await manager.close()
    monkeypatch.setenv("STAND_IN_VERSION", "1.0.3")
    old = SandboxManager(config, "run")
    with pytest.raises(SandboxError, match="too old"):
        await old.check()
    await old.close()


async def test_a_slot_in_use_is_not_given_out_again() -> None:
    slots = NodeSlots(["a", "b"], 2)
    taken = [await slots.take() for _ in range(4)]
    assert len(set(taken)) == 4
    assert {place.node for place in taken[:2]} == {"a", "b"}
    slots.give(taken[2])
    assert await slots.take() == taken[2]
    assert "127.0.0.1" not in NodeSlots.from_node("http://127.0.0.1:80/v1")
    assert NodeSlots.from_node("http://host:80/v1") == "http://host:80/v1"
