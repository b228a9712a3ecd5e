"""Apptainer and SLURM (Pyxis) sandboxes, against stand-ins that really run what they are told, each in its own root.

The stand-ins check behaviour: they refuse flags that the real tools do not know, keep containers apart by name, and
run commands with nothing but the environment that was exported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nemo_evaluator.config.sandboxes import ApptainerSandbox as ApptainerConfig
from nemo_evaluator.config.sandboxes import SlurmSandbox as SlurmConfig
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
SRUN = """
import json, os, pathlib, sys, time
home = pathlib.Path(os.environ["STAND_IN"])
args = sys.argv[1:]
if args == ["--help"]:
    print("--container-image" if os.environ.get("STAND_IN_PYXIS", "1") == "1" else "no plugins")
    sys.exit(0)
flags = {}
while args and args[0].startswith("--"):
    name, _, value = args.pop(0)[2:].partition("=")
    assert name in {"overlap", "nodelist", "ntasks", "het-group", "mem", "cpus-per-task", "container-image",
        "container-name", "container-workdir", "container-mounts", "container-writable", "no-container-mount-home",
        "export"}, name
    flags[name] = value
(home / "log").open("a").write(json.dumps([flags, args]) + "\\n")
if args[0] == "enroot":
    (home / "containers" / args[-1].removeprefix("pyxis_")).rename(home / ("removed-" + args[-1]))
    sys.exit(0)
root = home / "containers" / flags["container-name"]
if "container-image" in flags:
    if "bad" in flags["container-image"]:
        sys.exit("error: pyxis: failed to import docker image")
    assert not root.exists(), "a name is used twice"
    root.mkdir(parents=True)
assert root.is_dir(), "no such container"
inside = {name: os.environ[name] for name in flags.get("export", "").split(",") if name and name != "NONE"}
inside.setdefault("PATH", os.environ["PATH"])
os.chdir(root)
command = [a.replace("/workspace", str(root)) for a in args]
os.execvpe("bwrap", [*WALL, *command], inside)
"""

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for apptainer and srun, first on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, code in (("apptainer", APPTAINER), ("srun", SRUN)):
        (tools / name).write_text(f"#!{sys.executable} -IS\n{WALL}{code}")
        (tools / name).chmod(0o755)
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


async def test_slurm(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEL_SANDBOX_NODES", "n1,n2")
    monkeypatch.setenv("NEL_SANDBOX_HET_GROUP", "1")
    manager = SandboxManager(SlurmConfig(type="slurm", image="debian:12", slots_per_node=1), "run")
    try:
        await _contract(manager, manager.resolve(None))
        await _contract(manager, manager.resolve(None))
        with pytest.raises(SandboxError, match="failed to import"):
            await manager.acquire(SandboxSpec(image="bad:1"))
    finally:
        await manager.close()
    log = (stand_in / "log").read_text()
    assert '"nodelist": "n1"' in log
    assert '"nodelist": "n2"' in log
    assert '"het-group": "1"' in log
    assert "x y; $(z)" not in log
    assert len(list(stand_in.glob("removed-*"))) == 2
    assert list((stand_in / "containers").iterdir()) == []


async def test_slurm_says_what_is_missing(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = SandboxManager(SlurmConfig(type="slurm", image="x"), "run")
    with pytest.raises(SandboxError, match="no nodes"):
        await manager.check()
    monkeypatch.setenv("STAND_IN_PYXIS", "0")
    with pytest.raises(SandboxError, match="no Pyxis"):
        await manager.check()
    await manager.close()


async def test_a_slot_in_use_is_not_given_out_again() -> None:
    slots = NodeSlots(["a", "b"], 2)
    taken = [await slots.take() for _ in range(4)]
    assert len(set(taken)) == 4
    assert {place.node for place in taken[:2]} == {"a", "b"}
    slots.give(taken[2])
    assert await slots.take() == taken[2]
    assert "127.0.0.1" not in NodeSlots.from_node("http://127.0.0.1:80/v1")
    assert NodeSlots.from_node("http://host:80/v1") == "http://host:80/v1"
