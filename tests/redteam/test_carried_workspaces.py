"""What an agent leaves in its workspace arrives where it is verified as plain files, whatever it is and is called; what
it leaves elsewhere does not arrive.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nemo_evaluator.config import ApptainerSandbox, DockerSandbox, LocalSandbox
from nemo_evaluator.core.errors import SandboxError, TamperError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox.lifecycle import AttemptSandboxes
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.sandbox.snapshot import take_snapshot

IMAGE = "nel-test/python:bookworm"
PARTS = Path(os.environ.get("NEL_PARTS_DIR") or Path(__file__).parents[2] / ".parts")
LOCAL = pytest.param("local", marks=[pytest.mark.needs("bwrap")])
DOCKER = pytest.param("docker", marks=[pytest.mark.needs("docker")])
GVISOR = pytest.param("gvisor", marks=[pytest.mark.needs("runsc", "root")])
APPTAINER = pytest.param("apptainer", marks=[pytest.mark.needs("apptainer")])

SPECIAL = r"""
    cp /bin/true setuid && chmod 6755 setuid
    mkfifo pipe
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
    mknod device c 1 3 2>/dev/null || true
    echo plain > plain && ln plain hard && ln -s plain soft && ln -s / root && ln -s ../../etc out
    truncate -s 20M sparse
"""
# What carries a workspace calls tar, find, xargs and rm: a name must never be one of their options.
NAMES = r"""
    printf a > "$(printf 'new\nline')"
    printf b > "$(printf 'caf\351')"
    printf c > ./-rf
    printf d > './--checkpoint-action=exec=touch evil'
    printf d > './--checkpoint=1'
    printf e > ' '
    printf f > "$(printf 'caf\303\251')"
    printf g > "$(printf 'cafe\314\201')"
    printf h > 'Twin' && printf i > 'twin'
    printf j > "$(printf 'back\\slash')"
    printf k > "$(head -c 255 /dev/zero | tr '\0' x)"
"""
DEEP = """
import os

for _ in range(LEVELS):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
with open("bottom", "w") as file:
    file.write("bottom")
"""
START_UP = r"""
    site=$(python3 -c 'import site; print(site.getusersitepackages())')
    mkdir -p "$site"
    echo 'print("forged")' > "$site/usercustomize.py"
    echo 'import sys; print("forged")' > "$site/x.pth"
    for name in .bashrc .profile .bash_profile; do echo 'echo forged' > "$HOME/$name"; done
    echo work > work.txt
    python3 -c 'print("agent")'
"""


@pytest.fixture
async def manager(request: pytest.FixtureRequest) -> AsyncIterator[SandboxManager]:
    """Sandboxes of one kind."""
    kind = request.param
    if kind == "docker":
        sandboxes = SandboxManager(
            DockerSandbox(type="docker", image=IMAGE, memory="512m", network="none"), "run"
        )
    elif kind == "apptainer":
        image = str(PARTS / "images" / "python-bookworm.sif")
        sandboxes = SandboxManager(
            ApptainerSandbox(type="apptainer", image=image, memory="512m", cpus=1), "run"
        )
    elif kind == "gvisor":
        sandboxes = SandboxManager(LocalSandbox(type="local", memory="1g", runtime="runsc"), "run")
    else:
        sandboxes = SandboxManager(LocalSandbox(type="local", memory="1g"), "run")
    yield sandboxes
    await sandboxes.close()


def seed() -> SeedResult:
    """A problem that is verified in a sandbox of its own."""
    return SeedResult("p", "a", sandbox_spec=SandboxSpec(), verify_sandbox_spec=SandboxSpec())


async def left(session: AttemptSandboxes, script: str) -> None:
    """Let the agent work."""
    worked = await session.agent.exec(f"set -e\n{script}", timeout=120)
    assert worked.ok, worked.stderr


@pytest.mark.parametrize("manager", [LOCAL, DOCKER], indirect=True)
async def test_special_files_arrive_plain_or_not_at_all(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session:
        await left(session, SPECIAL)
        verifier = await session.for_verify()
        listed = await verifier.exec(
            "find . -mindepth 1 -printf '%y %m %P\\n' | sort; cat hard; stat -c %s sparse"
        )
        assert listed.stdout.splitlines() == [
            "f 644 hard",
            "f 644 plain",
            "f 644 sparse",
            "f 755 setuid",
            "l 777 out",
            "l 777 root",
            "l 777 soft",
            "plain",
            str(20 * 2**20),
        ]


@pytest.mark.parametrize("manager", [LOCAL, DOCKER], indirect=True)
async def test_hostile_names_arrive_as_they_are(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session:
        await left(session, NAMES)
        before = await take_snapshot(session.agent, "/workspace")
        verifier = await session.for_verify()
        after = await take_snapshot(verifier, "/workspace")
    assert len(after) == 12
    assert {name: entry.content for name, entry in after.items()} == {
        name: entry.content for name, entry in before.items()
    }


@pytest.mark.parametrize("manager", [LOCAL, DOCKER], indirect=True)
async def test_a_deep_path_arrives(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session:
        await left(session, f"python3 - <<'END'\nLEVELS = 35\n{DEEP}\nEND")
        verifier = await session.for_verify()
        assert len(await take_snapshot(verifier, "/workspace")) == 36
        assert (await verifier.exec("find . -name bottom -exec cat {} +")).stdout == "bottom"


@pytest.mark.parametrize("manager", [LOCAL, DOCKER], indirect=True)
async def test_a_path_longer_than_any_program_can_open_is_the_agents_doing(
    manager: SandboxManager,
) -> None:
    async with manager.session(seed()) as session:
        await left(session, f"python3 - <<'END'\nLEVELS = 60\n{DEEP}\nEND")
        with pytest.raises(TamperError, match="cannot be carried"):
            await session.for_verify()


@pytest.mark.large
@pytest.mark.parametrize("manager", [LOCAL, DOCKER], indirect=True)
async def test_a_hundred_thousand_files_arrive(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session, asyncio.timeout(300):
        await left(session, "python3 -c 'for n in range(100_000): open(str(n), \"w\").close()'")
        verifier = await session.for_verify()
        assert len(await take_snapshot(verifier, "/workspace")) == 100_000


@pytest.mark.large
@pytest.mark.parametrize("manager", [DOCKER], indirect=True)
async def test_a_large_sparse_file_arrives(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session, asyncio.timeout(300):
        await left(session, "truncate -s 1G sparse")
        verifier = await session.for_verify()
        assert (await verifier.exec("stat -c %s sparse")).stdout == f"{2**30}\n"


@pytest.mark.parametrize("manager", [LOCAL, DOCKER, GVISOR, APPTAINER], indirect=True)
async def test_start_up_files_in_the_home_do_not_arrive(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session:
        worked = await session.agent.exec(f"set -e\n{START_UP}", timeout=60)
        # Where the agent is they work, so that this test could fail.
        assert worked.stdout.count("forged") == 2, worked.stderr
        verifier = await session.for_verify()
        shown = await verifier.exec(
            "python3 -c 'print(1)'; bash -lc 'echo 2'; bash -ic 'echo 3' 2>/dev/null; cat *"
        )
        assert shown.stdout == "1\n2\n3\nwork\n"


@pytest.mark.parametrize("manager", [LOCAL], indirect=True)
async def test_work_that_cannot_be_carried_is_the_agents_doing(manager: SandboxManager) -> None:
    async with manager.session(seed()) as session:
        await left(session, "touch secret && chmod 000 secret")
        with pytest.raises(TamperError, match=r"cannot be carried[^$]*secret"):
            await session.for_verify()
    assert manager.live == 0


@pytest.mark.parametrize("manager", [LOCAL], indirect=True)
async def test_work_that_could_not_be_carried_for_a_moment_is_nobodys_fault(
    manager: SandboxManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with manager.session(seed()) as session:
        await left(session, "echo work > f")
        agent = session.agent
        download = agent.download
        failures = [SandboxError("the connection broke")]

        async def unsteady(source: str, target: Path | str) -> None:
            if failures:
                raise failures.pop()
            await download(source, target)

        monkeypatch.setattr(agent, "download", unsteady)
        verifier = await session.for_verify()
        assert (await verifier.exec("cat f")).stdout == "work\n"


@pytest.mark.parametrize("manager", [LOCAL], indirect=True)
async def test_a_base_commit_of_the_agents_own_does_not_leave_the_mean(
    manager: SandboxManager,
) -> None:
    make = (
        "git init -q . && git config user.email a@b && git config user.name n && echo one > a && git add . && "
        "git commit -qm base"
    )
    problem = seed()
    problem.pre_agent_cmd = f"{make} && git rev-parse HEAD > /tmp/_nel_base_commit"
    problem.apply_cmd = f"[ -d .git ] || {{ {make}; }}\n{workspace.apply_command('/workspace')}"
    async with manager.session(problem) as session:
        await left(
            session,
            "echo two > a; git commit -qam mine; git rev-parse HEAD > /tmp/_nel_base_commit; echo three > a",
        )
        with pytest.raises(TamperError, match="cannot be carried"):
            await session.for_verify()


@pytest.mark.needs("docker")
async def test_an_agent_that_fills_the_disk_does_not_leave_the_mean() -> None:
    config = DockerSandbox(type="docker", image=IMAGE, memory="512m", network="none", disk="200m")
    manager = SandboxManager(config, "run")
    try:
        async with manager.session(seed()) as session:
            await session.agent.exec(
                "head -c 190M /dev/zero > /a; head -c 190M /dev/zero > /b; sleep 30", timeout=60
            )
            with pytest.raises(TamperError, match="disk limit"):
                await session.for_verify()
    finally:
        await manager.close()
