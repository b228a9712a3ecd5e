"""A task's folder as it is read: limits, image, variables, hash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nemo_evaluator.config import DockerSandbox
from nemo_evaluator.core.errors import SandboxError, SeedError, UsageError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.environments.registry import as_uri, get_environment
from nemo_evaluator.environments.schemes._harbor_task import HarborTask
from nemo_evaluator.sandbox._backend import Limits
from nemo_evaluator.sandbox.dockerfile import without_build
from nemo_evaluator.store.fingerprints import problem_hash

TASKS = Path(__file__).parents[2] / "support" / "harbor_tasks"
GB = 2**30


@pytest.fixture
def task(tmp_path: Path) -> HarborTask:
    return HarborTask(shutil.copytree(TASKS / "plain", tmp_path / "plain"))


def test_limits_of_a_task_count_where_the_config_is_silent(task: HarborTask) -> None:
    (task.folder / "task.toml").write_text(
        '[environment]\ncpus = 3\nmemory = "2G"\nstorage_mb = 1024\n[agent]\ntimeout_sec = 90\n'
    )
    spec = task.spec({})
    assert (spec.cpus, spec.memory, spec.disk, spec.network) == (3.0, 2 * GB, GB, True)
    silent, strict = (
        DockerSandbox(type="docker"),
        DockerSandbox(type="docker", memory="1g", network="none"),
    )
    limits = Limits.of(silent).of_problem(spec, silent, online="bridge")
    assert (limits.cpus, limits.memory, limits.disk, limits.network) == (3.0, 2 * GB, GB, "bridge")
    limits = Limits.of(strict).of_problem(spec, strict, online="bridge")
    assert (limits.cpus, limits.memory, limits.network) == (3.0, GB, "none")
    # A task without a network has none, whatever the config allows.
    open_config = DockerSandbox(type="docker", network="bridge")
    assert (
        Limits.of(open_config).of_problem(SandboxSpec(network=False), open_config).network == "none"
    )


def test_the_image_is_named_built_or_the_base(task: HarborTask) -> None:
    assert (task.image, task.is_built, task.workdir) == ("nel-test/python:bookworm", False, "/app")
    built = HarborTask(TASKS / "dockerfile-build")
    assert built.is_built and built.image.startswith("nel-harbor/dockerfile-build:")
    assert HarborTask(TASKS / "custom-image").image == "nel-test/python:bookworm"
    before = task.content_hash
    (task.folder / "tests" / "test.sh").chmod(0o644)
    assert HarborTask(task.folder).content_hash != before


async def test_where_a_task_lies_is_in_no_fingerprint(task: HarborTask, tmp_path: Path) -> None:
    other = shutil.copytree(task.folder, tmp_path / "elsewhere" / "plain")
    seeds = [await get_environment(f"harbor://{folder}").seed(0) for folder in (task.folder, other)]
    assert (
        problem_hash(seeds[0]) == problem_hash(seeds[1]) and seeds[0].metadata == seeds[1].metadata
    )
    (other / "tests" / "test.sh").write_text("true")
    changed = await get_environment(f"harbor://{other}").seed(0)
    assert problem_hash(changed) == problem_hash(seeds[0]) and changed.metadata != seeds[0].metadata


async def test_a_task_gets_no_variable_that_was_not_allowed(
    task: HarborTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "a-key-of-this-machine")
    (task.folder / "task.toml").write_text(
        '[environment]\nenv = {A = "${MY_KEY}", B = "${OTHER:-none}"}\n'
    )
    with pytest.raises(SeedError, match="asks for the environment variable MY_KEY") as caught:
        await get_environment(f"harbor://{task.folder}").seed(0)
    assert "pass_env" in (caught.value.hint or "")
    seed = await get_environment(f"harbor://{task.folder}", params={"pass_env": ["MY_KEY"]}).seed(0)
    assert seed.sandbox_spec is not None and seed.sandbox_spec.env == {
        "A": "a-key-of-this-machine",
        "B": "none",
    }


def test_a_dockerfile_that_only_copies_needs_no_build(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub").mkdir()
    lines = "FROM python:3.12\nENV A=1 B=2\nWORKDIR /app\nCOPY a.txt ./\nCOPY sub \\\n  /app/there\n# done\n"
    (tmp_path / "Dockerfile").write_text(lines)
    spec = without_build(SandboxSpec(image="built", workdir="/app"), tmp_path)
    assert (spec.image, spec.env) == ("python:3.12", {"A": "1", "B": "2"})
    assert spec.files == {
        str(tmp_path / "a.txt"): "/app/a.txt",
        str(tmp_path / "sub"): "/app/there",
    }
    for line in ("RUN true", "COPY a.txt /etc/", "COPY --chown=1 a.txt ./", "FROM other"):
        (tmp_path / "Dockerfile").write_text(f"{lines}{line}\n")
        with pytest.raises(SandboxError) as caught:
            without_build(SandboxSpec(workdir="/app"), tmp_path)
        assert caught.value.hint == "use a docker sandbox for this task"


@pytest.mark.parametrize(
    "line",
    [
        "COPY ../outside.txt ./",
        "COPY sub/../../outside.txt ./",
        "COPY link.txt ./",
        "COPY link ./there",
        "COPY sub/deep/outside.txt ./",
        "COPY a.txt ../outside.txt ./",
        "COPY . link ./",
        "COPY loop ./",
        "COPY missing ./",
        "COPY *.txt ./",
        "COPY $HOME/outside.txt ./",
        "COPY <<END ./",
        "COPY --from=other a.txt ./",
        'COPY ["../outside.txt", "./"]',
        "ADD ../outside.txt ./",
        "ADD http://127.0.0.1/ ./",
        "WORKDIR ..\nCOPY a.txt ./",
        "WORKDIR $HOME\nCOPY a.txt ./",
        "COPY a.txt ../../etc/a.txt",
        "COPY",
    ],
)
def test_a_dockerfile_gets_nothing_from_outside_its_folder(line: str, tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "outside.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "sub" / "deep").symlink_to("../../elsewhere")
    (folder / "loop").symlink_to("loop")
    (folder / "Dockerfile").write_text(f"FROM python:3.12\nWORKDIR /app\n{line}\n")
    with pytest.raises(SandboxError):
        without_build(SandboxSpec(image="built", workdir="/app"), folder)


def test_a_slash_before_a_source_stands_for_the_folder_of_the_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hosts").write_text("of the task")
    (tmp_path / "inner").symlink_to("etc/hosts")
    (tmp_path / "Dockerfile").write_text("FROM a\nCOPY /etc/hosts inner /app/\n")
    spec = without_build(SandboxSpec(image="built", workdir="/app"), tmp_path)
    assert [Path(source).read_text() for source in spec.files] == ["of the task"] * 2


@pytest.mark.parametrize("part", ["instruction.md", "tests", "environment", "tests/test.sh"])
async def test_a_part_of_a_task_that_leads_elsewhere_is_refused(
    part: str, task: HarborTask, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = task.folder / part
    for elsewhere, is_refused in (
        (tmp_path / "shared", False),
        (tmp_path_factory.mktemp("x"), True),
    ):
        elsewhere.mkdir(exist_ok=True)
        target = elsewhere / "part"
        if path.is_dir():
            shutil.copytree(path, target)
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
        else:
            shutil.copy(path, target)
            path.unlink()
        path.symlink_to(target)
        environment = get_environment(f"harbor://{task.folder}")
        if is_refused:
            with pytest.raises(SeedError, match=f"{part} is a link"):
                await environment.seed(0)
        else:
            await environment.seed(0)


@pytest.mark.parametrize(
    "name",
    [
        "swebench-verified",
        "swebench_multilingual",
        "swebench-pro",
        "terminal-bench",
        "terminal-bench-hard",
    ],
)
def test_names_of_the_field_lead_to_their_datasets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_uri(name) == f"harbor://{name.replace('_', '-')}" and as_uri("gsm8k") == "gsm8k"
    monkeypatch.setenv("HARBOR_REGISTRY", "/nowhere.json")
    with pytest.raises(UsageError, match="cannot read the Harbor registry"):
        get_environment(name)
