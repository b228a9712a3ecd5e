"""What is carried to a verifier, what of it is known, and what of it would steer the tests."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nemo_evaluator.config import LocalSandbox
from nemo_evaluator.core.errors import TamperError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.sandbox._carried import clean_archive
from nemo_evaluator.sandbox.manager import SandboxManager
from nemo_evaluator.sandbox.snapshot import (
    Snapshot,
    SnapshotEntry,
    changes_between,
    read_archive,
    take_snapshot,
)
from nemo_evaluator.sandbox.steering import steering_changes

needs_bwrap = pytest.mark.needs("bwrap")


@pytest.fixture
async def manager() -> AsyncIterator[SandboxManager]:
    """A manager of small local sandboxes."""
    sandboxes = SandboxManager(LocalSandbox(type="local", memory="512m"), "run")
    yield sandboxes
    await sandboxes.close()


def stateless() -> SeedResult:
    """A problem that is verified in a sandbox of its own."""
    return SeedResult("p", "a", sandbox_spec=SandboxSpec(), verify_sandbox_spec=SandboxSpec())


@needs_bwrap
async def test_home_is_not_the_workspace_and_is_not_carried(manager: SandboxManager) -> None:
    leave = """
        test "$HOME" != "$PWD" && test -w "$HOME"
        test "$(python3 -c 'import os, pwd; print(pwd.getpwuid(os.getuid()).pw_dir)')" = "$HOME"
        site=$(python3 -c 'import site; print(site.getusersitepackages())')
        mkdir -p "$site" && echo 'print("forged")' > "$site/usercustomize.py"
        echo 'import sys; print("forged")' > "$site/x.pth"
        python3 -c 'print("agent")'
    """
    async with manager.session(stateless()) as session:
        left = await session.agent.exec(f"set -e\n{leave}")
        assert left.stdout.count("forged") == 2, left.stderr
        verifier = await session.for_verify()
        assert (await verifier.exec("python3 -c 'print(1)'")).stdout == "1\n"


@needs_bwrap
async def test_a_verifier_can_be_started_anew_with_and_without_the_work(
    manager: SandboxManager,
) -> None:
    async with manager.session(stateless()) as session:
        await session.agent.exec(
            "echo work > work.txt; mkdir __pycache__; echo x > __pycache__/a.cpython-311.pyc"
        )
        verifier = await session.for_verify()
        assert (await verifier.exec("ls; touch trace")).stdout == "work.txt\n"
        await verifier.renew(with_work=False)  # type: ignore[attr-defined]
        assert (await verifier.exec("ls")).stdout == ""
        before = await take_snapshot(verifier, "/workspace")
        await verifier.add_work()  # type: ignore[attr-defined]
        after = await take_snapshot(verifier, "/workspace")
        assert changes_between(before, after) == {"work.txt": "created"}
        assert manager.live == 1


@needs_bwrap
async def test_a_snapshot_knows_hostile_content_and_follows_none_of_it(
    manager: SandboxManager,
) -> None:
    make = r"""
        printf a > plain; ln plain hard; ln -s /etc/passwd out; mkfifo pipe; printf b > "$(printf 'new\nline')"
        printf c > "$(printf 'caf\351')"; printf d > ./-rf; mkdir deep; printf e > deep/run; chmod 4755 deep/run
        truncate -s 40M sparse
    """
    async with manager.session(stateless()) as session:
        assert (await session.agent.exec(make)).ok
        entries = await take_snapshot(session.agent, "/workspace")
    assert entries["out"].kind == "link" and entries["out"].content == "/etc/passwd"
    assert entries["pipe"].kind == "special"
    assert entries["hard"] == entries["plain"]
    assert entries["deep/run"].executable and entries["deep/run"].special_bits == 0o4000
    assert {"new\nline", "caf\udce9", "-rf", "sparse"} <= set(entries)


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A header with the fields of an attacker's choice."""
    header = tarfile.TarInfo(name)
    header.size = len(content)
    for field, value in fields.items():
        setattr(header, field, value)
    return header, content


def archive_of(target: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """An archive such as a replaced ``tar`` of the agent could write."""
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w") as tar:
        for header, content in members:
            tar.addfile(header, io.BytesIO(content))
    with tarfile.open(target, mode="w") as tar:
        for name, content in (
            ("_nel_mode", b"archive\n"),
            ("_nel_files.tar", files.getvalue()),
            ("evil", b"x"),
        ):
            header, body = member(name, content)
            tar.addfile(header, io.BytesIO(body))
    return target


def cleaned(target: Path, folder: Path) -> list[str]:
    """The names of the files that are left."""
    clean_archive(target)
    with tarfile.open(target) as tar:
        assert [one.name for one in tar.getmembers()] == ["_nel_mode", "_nel_files.tar"]
        content = tar.extractfile("_nel_files.tar")
        assert content is not None
        (folder / "files.tar").write_bytes(content.read())
    return sorted(read_archive(folder / "files.tar"))


def test_what_cannot_be_work_is_left_out_of_the_archive(tmp_path: Path) -> None:
    archive = archive_of(
        tmp_path / "workspace.tar",
        member("../outside", b"x"),
        member("/etc/passwd", b"x"),
        member("link", type=tarfile.SYMTYPE, linkname="/usr/lib/python3"),
        member("link/sitecustomize.py", b"x"),
        member("./link/deep/x.py", b"x"),
        member("device", type=tarfile.CHRTYPE),
        member("pipe", type=tarfile.FIFOTYPE),
        member("hard", type=tarfile.LNKTYPE, linkname="../../etc/shadow"),
        member(".git/config", b"x"),
        member("./fine", b"x", mode=0o6777),
        member("fine-too", type=tarfile.LNKTYPE, linkname="./fine"),
    )
    assert cleaned(archive, tmp_path) == ["fine", "fine-too", "link"]
    assert all(entry.special_bits == 0 for entry in read_archive(tmp_path / "files.tar").values())


def test_an_archive_that_no_capture_writes_is_tampering(tmp_path: Path) -> None:
    (tmp_path / "workspace.tar").write_bytes(b"x" * 2000)
    with pytest.raises(TamperError, match="cannot be used"):
        clean_archive(tmp_path / "workspace.tar")


@needs_bwrap
async def test_many_small_files_are_read_in_bounded_time(manager: SandboxManager) -> None:
    async with manager.session(stateless()) as session:
        made = await session.agent.exec(
            "python3 -c 'for n in range(10000): open(str(n), \"w\").close()'"
        )
        assert made.ok
        async with asyncio.timeout(120):
            assert len(await take_snapshot(session.agent, "/workspace")) == 10_000


def plain(*paths: str) -> Snapshot:
    """A snapshot of files, all of them programs."""
    return {
        path: SnapshotEntry("file", executable=True, special_bits=0, content=path) for path in paths
    }


def steering(
    *created: str, before: Snapshot | None = None, tests: tuple[str, ...] = ()
) -> set[str]:
    """Which new files steer."""
    earlier = before or {}
    after = earlier | plain(*created)
    return set(steering_changes(earlier, after, changes_between(earlier, after), tests))


STEERS = [
    "conftest.py", "a/conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "sitecustomize.py",
    "x/usercustomize.py", "evil.pth", "json.py", "src/json.py", "pytest.py",
    "json.cpython-311-x86_64-linux-gnu.so", "tests/test_x.py", "a.pyc", ".bashrc", ".profile", ".gitconfig",
    "sub/.git/hooks/pre-commit", "Makefile", "lib/GNUmakefile", "build.rs", ".cargo/config.toml", "go.work",
    "jest.config.js", ".npmrc", "node_modules/.bin/jest", ".venv/bin/pytest", "bin/python3", "make", ".env",
    "x.dist-info/entry_points.txt", ".venv/lib/python3.11/site-packages/pytest.py", "uv.toml",
    ".config/pip/pip.conf", "pom.xml", ".rspec", "CMakeLists.txt", "spec/spec_helper.rb", ".tool-versions",
    "libc.so.6", "evil\n/conftest.py", "setup.py", "vendor/github.com/x/assert/assert.go", "Makefile.local",
    ".env.test", "crates/a/tests/all.rs", "jest.setup.js", "jest-e2e.json", "lib/libm.so.6", ".Rprofile",
    "META-INF/services/org.junit.X", "t/basic.t", ".pdbrc", ".envrc", ".gitattributes", ".python-version",
    "toxfile.py", "noxfile.py", ".pre-commit-config.yaml", "src/test/resources/junit-platform.properties",
    "tox.toml", "features/environment.py", "rules.mak", "app/extra.gradle", "buildSrc/src/main/java/A.java",
    ".yarn/releases/yarn-4.cjs", "lib/Test/More.pm", "lib/Test/More/Deep.pm", "x.gemspec", "phpunit.dist.xml",
    "setup-jest.ts", "test/runtests.jl", "test/setup_suite.bash", "Setup.hs", "meson_options.txt",
    "EGG-INFO/entry_points.txt", "__init__.py", "tests/__init__.py", "pkg/test/__init__.py", "a/\udce9/conftest.py", "-p/conftest.py",
]  # fmt: skip
DOES_NOT = [
    "solution.py", "app/main.py", "pkg/types.py", "README.md", "data/json.txt", "bin/mine", "src/app/json.py",
    "docs/make.md", "conftest.md", "test/helper.py", "Makefile.md", "latest.py", "contest.py",
]  # fmt: skip


@pytest.mark.parametrize("path", STEERS)
def test_a_file_that_steers_is_known(path: str) -> None:
    assert steering(path) == {path}


@pytest.mark.parametrize("path", DOES_NOT)
def test_a_file_that_does_not_steer_is_not_taken_for_one(path: str) -> None:
    assert steering(path) == set()


def test_a_module_that_was_there_is_work_and_a_new_one_in_its_place_is_not() -> None:
    assert steering("queue/more.py", before=plain("queue/__init__.py")) == set()
    assert steering("queue/__init__.py", "queue/more.py") == {"queue/__init__.py", "queue/more.py"}
    assert steering("tests/json.py", before=plain("tests/test_a.py")) == {"tests/json.py"}
    assert steering("pkg/json.py", before=plain("pkg/__init__.py", "pkg/test_a.py")) == set()


def test_a_module_that_no_runner_needs_may_be_work() -> None:
    after = plain("queue.py", "types/__init__.py", "unittest/__init__.py", "os.py", "pytest.py")
    changes = steering_changes({}, after, changes_between({}, after))
    assert {path for path, change in changes.items() if change.may_be_work} == {
        "queue.py",
        "types/__init__.py",
    }


SITE = ".venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("path", "may_be_work"),
    [
        ("sums/__init__.py", True),
        ("sums/_speed.cpython-311-x86_64-linux-gnu.so", True),
        ("sums.py", True),
        ("sums-1.0.dist-info/METADATA", True),
        ("sums-1.0.dist-info/entry_points.txt", False),
        ("sums.pth", False),
        ("sums/__init__.pyc", False),
        ("sitecustomize.py", False),
        ("pytest_sums/__init__.py", False),
        ("pluggy/__init__.py", False),
        ("unittest/__init__.py", False),
        ("numpy/testing.py", False),
        ("there/more.py", False),
        ("there-1.0.dist-info/METADATA", False),
        ("named/__init__.py", False),
    ],
)
def test_a_new_package_that_no_runner_imports_may_be_work(path: str, may_be_work: bool) -> None:
    before = plain(f"{SITE}/there/__init__.py", f"{SITE}/there-1.0.dist-info/RECORD")
    after = before | plain(f"{SITE}/{path}")
    changes = steering_changes(
        before, after, changes_between(before, after), test_words={"import", "named"}
    )
    assert changes[f"{SITE}/{path}"].may_be_work is may_be_work


def test_a_package_outside_an_environment_or_changed_is_none_that_may_be_work() -> None:
    before = plain(f"{SITE}/sums/__init__.py")
    changes = steering_changes(before, {}, changes_between(before, {}))
    assert not changes[f"{SITE}/sums/__init__.py"].may_be_work
    after = plain("vendor/sums/__init__.py")
    changes = steering_changes({}, after, changes_between({}, after))
    assert not changes["vendor/sums/__init__.py"].may_be_work


@pytest.mark.parametrize("path", ["a/cases.json", "a/cases.json/x", "a"])
def test_a_file_that_the_tests_patch_is_theirs(path: str) -> None:
    after = plain(path, "a2/cases.json")
    changes = steering_changes(
        {}, after, changes_between({}, after), patched_paths={"a/cases.json"}
    )
    assert list(changes) == [path]
    assert changes[path].is_of_tests


def test_a_module_where_the_tests_start_is_in_the_way_and_elsewhere_it_is_not() -> None:
    after = plain("backend/json.py", "other/json.py")
    changes = changes_between({}, after)
    assert set(steering_changes({}, after, changes, start_folders={"backend"})) == {
        "backend/json.py"
    }


def test_names_of_the_tasks_tests_are_known() -> None:
    tests = ("test_outputs.py", "helper.py", "test.sh")
    assert steering(
        "test_outputs/__init__.py", "deep/test_outputs.so", "helper.py", tests=tests
    ) == {
        "test_outputs/__init__.py",
        "deep/test_outputs.so",
    }


@pytest.mark.parametrize(
    ("name", "before", "after", "steers"),
    [
        ("pyproject.toml", "[project]\nname='a'\n", "[project]\nname='b'\n", False),
        (
            "pyproject.toml",
            "[project]\nname='a'\n",
            "[tool.pytest.ini_options]\naddopts='--co'\n",
            True,
        ),
        ("pyproject.toml", "[project]\nname='a'\n", "[project\n", True),
        ("setup.cfg", "[metadata]\nname=a\n", "[metadata]\nname=b\n", False),
        ("setup.cfg", "[metadata]\nname=a\n", "[tool:pytest]\naddopts=--co\n", True),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "true"}}', True),
        ("package.json", '{"scripts": {}}', '{"scripts": {}, "dependencies": {"a": "1"}}', False),
        (
            "Cargo.toml",
            "[package]\nname='a'\n",
            "[package]\nname='a'\n[[test]]\nname='t'\nharness=false\n",
            True,
        ),
        (
            "Cargo.toml",
            "[package]\nname='a'\n",
            "[package]\nname='a'\n[dependencies]\nserde='1'\n",
            False,
        ),
        ("Cargo.toml", "[package]\nname='a'\n", "[package]\nname='a'\nautotests=false\n", True),
        ("package.json", "{}", '{"workspaces": ["evil"]}', True),
        ("package.json", "{}", '{"packageManager": "yarn@file:evil"}', True),
        ("package.json", "{}", '{"description": "x"}', False),
        ("tsconfig.json", "{}", '{"compilerOptions": {"paths": {"assert": ["./evil"]}}}', True),
        ("tsconfig.json", "{}", '{"compilerOptions": {"strict": true}}', False),
        ("composer.json", "{}", '{"scripts": {"test": "true"}}', True),
    ],
)
def test_of_some_files_only_sections_steer(
    name: str, before: str, after: str, steers: bool
) -> None:
    snapshots = []
    for text in (before, after):
        entry = SnapshotEntry(
            "file", executable=False, special_bits=0, content=text, text=text.encode()
        )
        snapshots.append({name: entry})
    earlier, later = snapshots
    assert bool(steering_changes(earlier, later, changes_between(earlier, later))) is steers
