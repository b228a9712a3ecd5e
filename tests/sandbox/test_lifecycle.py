"""From solving to verifying, and that no step between them can pass for a verdict."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nemo_evaluator.config import CustomSandbox, LocalSandbox
from nemo_evaluator.core.errors import SandboxError, UsageError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox import workspace
from nemo_evaluator.sandbox.base import ExecResult, ImageBuildRequest, ImageSpec
from nemo_evaluator.sandbox.manager import SandboxManager

pytestmark = pytest.mark.needs("bwrap")


def _config(**options: object) -> LocalSandbox:
    return LocalSandbox(type="local", memory="256m", **options)  # type: ignore[arg-type]


@pytest.fixture
async def manager() -> AsyncIterator[SandboxManager]:
    """A manager of local sandboxes."""
    made = SandboxManager(_config(), "run")
    yield made
    await made.close()


def _stateless(**fields: object) -> SeedResult:
    return SeedResult(
        "p", "a", sandbox_spec=SandboxSpec(), verify_sandbox_spec=SandboxSpec(), **fields
    )  # type: ignore[arg-type]


async def test_stateful_verifies_where_it_was_solved(manager: SandboxManager) -> None:
    async with manager.session(SeedResult("p", "a")) as session:
        assert manager.live == 0
        assert session.agent is not None
        await session.agent.exec("echo work > f")
        verifier = await session.for_verify()
        assert verifier is not None
        assert (await verifier.exec("cat f")).stdout == "work\n"
        assert manager.live == 1
    assert manager.live == 0


async def test_a_sandbox_that_nobody_uses_is_never_started(manager: SandboxManager) -> None:
    async with manager.session(_stateless()) as session:
        await session.for_verify()
    assert manager.live == 0


async def test_stateless_carries_files_into_a_fresh_sandbox(manager: SandboxManager) -> None:
    async with manager.session(_stateless()) as session:
        assert session.agent is not None
        await session.agent.exec(
            "mkdir d; echo work > d/f; echo other > /tmp/not-carried; chmod 755 d/f"
        )
        verifier = await session.for_verify()
        assert verifier is not None
        assert (
            await verifier.exec("cat d/f; ls /tmp; test -x d/f && echo executable")
        ).stdout == "work\nexecutable\n"
        with pytest.raises(SandboxError, match="given back"):
            await session.agent.exec("true")


async def test_stateless_carries_a_patch_of_a_repository(manager: SandboxManager) -> None:
    make = (
        "git init -q . && git config user.email a@b && git config user.name n && printf 'one\\n' > a && "
        "printf '\\000bin' > b && git add . && git commit -qm base"
    )
    # The repository would be part of the image; here both sandboxes make it.
    seed = _stateless(pre_agent_cmd=f"{make} && git rev-parse HEAD > /tmp/_nel_base_commit")
    seed.apply_cmd = f"{make}\n{workspace.apply_command('/workspace')}"
    async with manager.session(seed) as session:
        assert session.agent is not None
        await session.agent.exec(
            "echo two >> a; printf '\\000new' > b; echo n > new; git add -A; git commit -qm mine"
        )
        verifier = await session.for_verify()
        assert verifier is not None
        listing = (
            await verifier.exec("tar -xOf /input/workspace.tar ./_nel_mode; ls /input")
        ).stdout
        assert listing == "git-diff\nworkspace.tar\n"
        assert (await verifier.exec("cat a new; od -c b")).stdout.startswith(
            "one\ntwo\nn\n0000000  \\0   n   e   w"
        )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"capture_cmd": "false"}, "capture_cmd failed"),
        ({"capture_cmd": "true"}, "left nothing"),
        (
            {"capture_cmd": "echo x > /output/workspace.tar", "apply_cmd": "exit 9"},
            r"apply_cmd failed.*exit code 9",
        ),
        ({"pre_agent_cmd": "echo broken >&2; exit 1"}, "pre_agent_cmd failed.*broken"),
    ],
)
async def test_a_step_of_ours_that_fails_is_our_failure(
    manager: SandboxManager, fields: dict[str, str], why: str
) -> None:
    async with manager.session(_stateless(**fields)) as session:
        assert session.agent is not None
        with pytest.raises(SandboxError, match=why):
            await session.agent.exec("echo work > f")
            await session.for_verify()
    assert manager.live == 0


async def test_no_more_at_once_than_allowed_and_warm_ones_are_used_again() -> None:
    manager = SandboxManager(_config(concurrency=2), "run")
    try:
        first = await manager.acquire(SandboxSpec())
        second = await manager.acquire(SandboxSpec())
        third = asyncio.ensure_future(manager.acquire(SandboxSpec()))
        await asyncio.sleep(0.1)
        assert not third.done()
        await manager.release(first)
        await manager.release(await third)
        await manager.release(second)

        async def run(number: int) -> str:
            async with manager.session(SeedResult("p", "a")) as session:
                verifier = await session.for_verify()
                assert verifier is not None
                return (await verifier.run_judge(["cat"], str(number).encode())).stdout

        assert await asyncio.gather(*map(run, range(10))) == [str(n) for n in range(10)]
        assert 1 <= manager.live <= 2
    finally:
        await manager.close()


async def test_a_warm_sandbox_that_ended_is_cleared_away() -> None:
    manager = SandboxManager(_config(concurrency=1), "run")
    try:
        async with manager.warm(SandboxSpec()) as sandbox:
            await sandbox.stop()
        assert manager.live == 0
    finally:
        await manager.close()


async def test_a_sandbox_lives_no_longer_than_its_timeout() -> None:
    manager = SandboxManager(_config(timeout=0.5), "run")
    try:
        async with manager.session(SeedResult("p", "a")) as session:
            assert session.agent is not None
            await session.agent.exec("true")
            await asyncio.sleep(0.8)
            with pytest.raises(SandboxError, match="has ended"):
                await session.agent.exec("true")
    finally:
        await manager.close()


async def test_prepare_says_what_cannot_be_done(manager: SandboxManager) -> None:
    class Environment:
        async def sandbox_specs(self) -> list[SandboxSpec] | None:
            return [SandboxSpec()]

        async def image_build_requests(self) -> list[ImageBuildRequest] | None:
            return [ImageBuildRequest([ImageSpec("x:1")])]

    with pytest.raises(SandboxError, match="builds images"):
        await manager.prepare(Environment())


async def test_the_config_completes_the_spec(manager: SandboxManager) -> None:
    manager.config = _config(container_env={"A": "config", "B": "config"})
    assert manager.resolve(SandboxSpec(env={"A": "problem"})).env == {"A": "problem", "B": "config"}


class Tiny:
    """The least that a sandbox can be."""

    def __init__(self, spec: SandboxSpec, greeting: str) -> None:
        self.spec, self.greeting, self.is_running = spec, greeting, True

    async def start(self, *, outside_endpoints: object = ()) -> None: ...

    async def stop(self) -> None: ...

    async def upload(self, source: object, target: str) -> None: ...

    async def download(self, source: str, target: object) -> None: ...

    async def exec(self, command: object, **_: object) -> ExecResult:
        return ExecResult(self.greeting, "", 0)


async def test_custom_sandboxes_come_from_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_evaluator.testing.TinySandbox", Tiny, raising=False)
    config = CustomSandbox(
        type="custom", class_path="nemo_evaluator.testing:TinySandbox", config={"greeting": "hi"}
    )
    manager = SandboxManager(config, "run")
    async with manager.session(SeedResult("p", "a")) as session:
        assert session.agent is not None
        assert (await session.agent.exec("x")).stdout == "hi"
        assert (await session.agent.run_judge(["x"], b"")).stdout == "hi"
    await manager.close()
    with pytest.raises(UsageError, match="not a sandbox"):
        SandboxManager(CustomSandbox(type="custom", class_path="pathlib:Path"), "run")


async def test_a_machine_that_cannot_isolate_refuses_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nemo_evaluator.sandbox._bwrap.BWRAP", ())
    manager = SandboxManager(_config(), "run")
    with pytest.raises(SandboxError, match="cannot isolate") as caught:
        await manager.acquire(SandboxSpec())
    assert "apt-get install bubblewrap" in (caught.value.hint or "")
    await manager.close()
    unsafe = SandboxManager(_config(unsafe=True), "run")
    async with unsafe.session(SeedResult("p", "a")) as session:
        assert session.agent is not None
        await session.agent.upload(b"x", "f")
        result = await session.agent.exec("cat f; sleep 30", timeout=0.5)
        assert (result.stdout, result.timed_out) == ("x", True)
        assert (await session.agent.run_judge(["sh", "-c", "ls; cat"], b"judge")).stdout == "judge"
    await unsafe.close()


def _git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "protocol.file.allow=always"]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _repository(folder: Path) -> tuple[str, str]:
    """A repository at its base commit, with a later commit that holds the solution: (base, gold)."""
    folder.mkdir(parents=True)
    _git(folder, "init", "-q", "-b", "main")
    for name in ("past", "base", "gold"):
        (folder / "f").write_text(name)
        _git(folder, "add", ".")
        _git(folder, "commit", "-qm", name)
    gold = _git(folder, "rev-parse", "HEAD")
    _git(folder, "tag", "release")
    _git(folder, "stash", "list")
    _git(folder, "reset", "-q", "--hard", "HEAD~1")
    return _git(folder, "rev-parse", "HEAD"), gold


def _plain(tmp: Path) -> tuple[Path, str, str, Path]:
    base, gold = _repository(tmp / "repo")
    return tmp / "repo", base, gold, tmp / "repo"


def _worktree(tmp: Path) -> tuple[Path, str, str, Path]:
    base, gold = _repository(tmp / "main")
    _git(tmp / "main", "worktree", "add", "-q", "--detach", str(tmp / "tree"), base)
    return tmp / "tree", base, gold, tmp / "tree"


def _alternates(tmp: Path) -> tuple[Path, str, str, Path]:
    base, gold = _repository(tmp / "origin")
    _git(tmp, "clone", "-q", "--shared", str(tmp / "origin"), str(tmp / "clone"))
    _git(tmp / "clone", "checkout", "-q", base)
    return tmp / "clone", base, gold, tmp / "clone"


def _submodule(tmp: Path) -> tuple[Path, str, str, Path]:
    base, gold = _repository(tmp / "lib")
    _git(tmp / "lib", "checkout", "-q", "main")
    _repository(tmp / "outer")
    _git(tmp / "outer", "submodule", "add", "-q", str(tmp / "lib"), "sub")
    _git(tmp / "outer", "commit", "-qm", "with sub")
    _git(tmp / "outer" / "sub", "fetch", "-q", "--tags", "origin")
    return tmp / "outer", base, gold, tmp / "outer" / "sub"


@pytest.mark.needs("git")
@pytest.mark.parametrize("build", [_plain, _worktree, _alternates, _submodule])
def test_git_scrub_leaves_only_the_past(build, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    workdir, base, gold, inner = build(tmp_path / "a dir")
    (workdir / "uncommitted").write_text("kept")
    (inner / "f").write_text("changed")
    _git(inner, "cat-file", "-e", gold)
    done = subprocess.run(
        ["sh", "-c", workspace.scrub_command(str(workdir))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "non_ancestor_left=0" in done.stdout
    assert f"base={base}" in done.stdout
    found = subprocess.run(["git", "cat-file", "-e", gold], cwd=inner, capture_output=True)
    assert found.returncode != 0
    assert _git(inner, "log", "--all", "--format=%s").split() == ["base", "past"]
    assert (workdir / "uncommitted").read_text() == "kept"
    assert _git(inner, "status", "--porcelain", "f") == "M f"
    (inner / "f").write_text("mine")
    _git(inner, "commit", "-qam", "mine")


@pytest.mark.needs("git")
def test_git_scrub_without_a_repository(tmp_path: Path) -> None:
    for folder, reason in ((tmp_path / "none", "no_workdir"), (tmp_path, "not_a_git_repo")):
        done = subprocess.run(
            ["sh", "-c", workspace.scrub_command(str(folder))], capture_output=True, text=True
        )
        assert done.returncode == 0
        assert f"NEL_GIT_CLEANUP skipped reason={reason}" in done.stdout
    _git(tmp_path, "init", "-q")
    done = subprocess.run(
        ["sh", "-c", workspace.scrub_command(str(tmp_path))], capture_output=True, text=True
    )
    assert "reason=no_head" in done.stdout


async def test_scrub_runs_before_the_agent_and_its_failure_is_ours() -> None:
    manager = SandboxManager(_config(scrub_git_history=True), "run")
    try:
        async with manager.session(_stateless()) as session:
            assert session.agent is not None
            assert (await session.agent.exec("true")).ok
        broken = shlex.quote("exit 3")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workspace, "scrub_command", lambda workdir: f"sh -c {broken}")
            async with manager.session(_stateless()) as session:
                assert session.agent is not None
                with pytest.raises(SandboxError, match="git history failed"):
                    await session.agent.exec("true")
    finally:
        await manager.close()
