"""What is shipped: bounds on versions, the wheel and the source archive, the action, the image."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from nemo_evaluator.testing import ScriptedServer

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SITE = Path(sysconfig.get_path("purelib"))
VARIANTS = sorted(path.suffix[1:] for path in (ROOT / "docker").glob("Dockerfile.*"))


def built(kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return next(folder.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("dist"))


def test_every_version_is_bounded_from_both_sides() -> None:
    extras = PROJECT["optional-dependencies"]
    every = [*PROJECT["dependencies"], *(line for lines in extras.values() for line in lines)]
    open_ended = [
        line
        for line in every
        if not line.startswith("nemo-evaluator[")
        and not re.match(r"[\w.-]+(\[[\w,]+\])?>=[\d.]+,<[\d.]+(;.*)?$", line)
    ]
    assert open_ended == [], "pip tries every version of what has no bounds"


def test_every_extra_of_users_is_resolved(tmp_path: Path) -> None:
    """`make resolve` with a pip that only notes what it is asked: all extras, and `all` names every other one."""
    pip = f'#!/bin/sh\nfor last; do :; done\necho "$last" >>{tmp_path}/asked\n'
    (tmp_path / "pip").write_text(pip)
    python = f'#!/bin/sh\nmkdir -p "$3/bin" && ln -s {sys.executable} "$3/bin/python" && cp {tmp_path}/pip "$3/bin/pip"\n'
    (tmp_path / "python").write_text(python)
    for name in ("pip", "python"):
        (tmp_path / name).chmod(0o755)
    command = ["bash", str(ROOT / "scripts" / "resolve.sh")]
    environment = {**os.environ, "PYTHON": str(tmp_path / "python")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    extras = [
        name for name in PROJECT["optional-dependencies"] if name not in ("parts", "docs", "dev")
    ]
    assert (tmp_path / "asked").read_text().split() == [".", *(f".[{name}]" for name in extras)]
    assert "ray: 0 s, of them 0 s of CPU" in done.stdout
    (whole,) = PROJECT["optional-dependencies"]["all"]
    # Harbor, NeMo Gym and NAT are big, and for newer Pythons only.
    assert set(re.findall(r"[\w-]+", whole.partition("[")[2])) == {*extras} - {
        "all",
        "gym",
        "harbor",
        "nat",
    }


def test_the_wheel_is_whole_and_runs(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run([sys.executable, *install], check=True, capture_output=True, timeout=120)
    shipped = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".so")
    }
    assert wanted - shipped == set()
    environment = {**os.environ, "PYTHONPATH": str(target)}
    with ScriptedServer("4") as server:
        quick = [
            "eval",
            "run",
            "--bench",
            "quickstart",
            "--model-url",
            server.url,
            "--model-id",
            "m",
            "--limit",
            "2",
        ]
        for words in (["--version"], ["list"], [*quick, "-o", "o"], ["show", "o"]):
            command = [
                sys.executable,
                "-c",
                "import nemo_evaluator.cli.main as m; print(m.__file__); m.main()",
                *words,
            ]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(str(target))


def test_the_source_archive_builds_the_same_package(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "src/nemo_evaluator/config/data/providers.yaml"} <= names
    assert [name for name in names if name.startswith((".venv", ".parts", "eval_results"))] == []


def test_the_steps_of_the_action_are_shell(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    known = set(action["inputs"])
    for step in action["runs"]["steps"]:
        assert (
            subprocess.run(["bash", "-n", "-c", step["run"]], capture_output=True).returncode == 0
        ), step["name"]
        # Inputs come in as variables: pasted into the text, a pull request could run commands.
        assert "${{" not in step["run"]
        assert set(re.findall(r"inputs\.(\w+)", str(step))) <= known


def test_the_action_runs_and_gates(tmp_path: Path) -> None:
    """The steps one after another, as a runner would do it."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    inputs = {name: str(value.get("default", "")) for name, value in action["inputs"].items()}
    (tmp_path / "policy.yaml").write_text(
        (ROOT / "examples" / "policies" / "release.yaml").read_text()
    )
    with ScriptedServer("4") as server:
        service = {"type": "api", "url": server.url, "model": "m"}
        config = {"services": {"model": service}, "benchmarks": [{"name": "quickstart"}]}
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
        inputs |= {"config": "c.yaml", "baseline": inputs["output"], "policy": "policy.yaml"}
        for step in action["runs"]["steps"][:-1]:
            values = {
                name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda one: inputs[one[1]], text)
                for name, text in step["env"].items()
            }
            command = ["bash", "-eo", "pipefail", "-c", step["run"]]
            environment = {**os.environ, **files, **values, "PATH": path}
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode in ((0, 2) if step["name"] == "gate" else (0,)), done.stderr
    assert "quickstart" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert (
        '<testcase classname="nel.gate" name="quickstart"'
        in (tmp_path / inputs["output"] / "gate.xml").read_text()
    )


@pytest.mark.needs("docker")
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the base image has Python 3.11, like these libraries"
)
def test_the_image_is_built_and_runs(wheel: Path, tmp_path: Path) -> None:
    """Without a registry: the base is our own image with pip in it, libraries come from this environment."""
    base, image = "nel-test/pip:bookworm", "nel-test/nel:test"
    shutil.copytree(SITE / "pip", tmp_path / "base" / "pip")
    for library in ("libstdc++.so.6", "libgcc_s.so.1"):
        shutil.copy(
            next(Path("/").glob(f"usr/lib/*-linux-gnu/{library}")), tmp_path / "base" / library
        )
    text = "FROM nel-test/python:bookworm\nCOPY pip /usr/lib/python3/dist-packages/pip\nCOPY *.so.* /usr/lib/\n"
    (tmp_path / "base" / "Dockerfile").write_text(text)
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    (tmp_path / "dist").mkdir()
    shutil.copy(wheel, tmp_path / "dist")
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}

    def docker(*words: str) -> str:
        done = subprocess.run(
            ["docker", *words], env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
        return done.stdout

    docker("build", "-q", "-t", base, str(tmp_path / "base"))
    arguments = ("--build-arg", f"BASE={base}", "--build-arg", "PIP_ARGS=--no-deps --no-index")
    docker(
        "build", "-q", "-t", image, *arguments, "-f", str(tmp_path / "Dockerfile"), str(tmp_path)
    )
    try:
        run = (
            "run",
            "--rm",
            "--network",
            "host",
            "-v",
            f"{SITE}:/deps:ro",
            "-e",
            "PYTHONPATH=/deps",
            image,
        )
        assert docker(*run, "--version").startswith("nel ")
        with ScriptedServer("4") as server:
            model = ("--model-url", server.url, "--model-id", "m", "--limit", "2", "-o", "/tmp/o")
            assert "quickstart" in docker(*run, "eval", "run", "--bench", "quickstart", *model)
            assert server.count == 2
        for variant in VARIANTS:
            # What they add comes from networks; that they stand on the image and leave it as it was is seen here.
            without = [f"BASE={image}", "PACKAGES=", "LIBRARIES=nemo-evaluator", arguments[-1]]
            flags = [word for argument in without for word in ("--build-arg", argument)]
            file = str(ROOT / "docker" / f"Dockerfile.{variant}")
            docker(
                "build", "-q", "-t", f"{image}-{variant}", *flags, "-f", file, str(ROOT / "docker")
            )
            shape = "{{.Config.User}} {{.Config.Entrypoint}}"
            assert docker("inspect", "-f", shape, f"{image}-{variant}").strip() == "1000:1000 [nel]"
    finally:
        docker("rmi", "-f", *(f"{image}-{variant}" for variant in VARIANTS), image, base)


def test_what_variants_install_is_there_to_be_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for variant in VARIANTS:
        text = (ROOT / f"docker/Dockerfile.{variant}").read_text()
        assert text.count("USER root") == text.count("USER 1000:1000") == 1
        assert set(re.findall(r"nemo-evaluator\[([\w-]+)\]", text)) <= extras.keys()


def test_names_of_the_archive(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert {name.partition("/")[0].partition("-")[0] for name in archive.namelist()} == {
            "nemo_evaluator"
        }
