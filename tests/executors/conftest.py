"""Fixtures for tests of executors."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker_image
import pytest
from executor_bench import Bench
from nel_support import Serve, Sums, serve, sums

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.store.run_registry import load_run

__all__ = ["serve", "sums"]
# Every executor that this version has keeps the same contract.
EXECUTORS = [
    "local",
    *(pytest.param(word, marks=pytest.mark.needs(word)) for word in ("docker", "slurm")),
    # Minutes, since each run joins the cluster; test_ray.py has what differs.
    pytest.param("ray", marks=[pytest.mark.needs("ray"), pytest.mark.serial, pytest.mark.large]),
]


@pytest.fixture(scope="session")
def nel_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with nel inside."""
    if not docker_image.FITS:
        pytest.skip("the base image has Python 3.11, like these libraries")
    return docker_image.build_sources(tmp_path_factory.mktemp("image") / "context")


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """A head and three nodes; the cluster that is running, or one for these tests."""
    script = ["bash", str(docker_image.ROOT / "scripts" / "ray.sh")]

    def running() -> dict[str, str]:
        words = subprocess.run(
            [*script, "env"], capture_output=True, text=True, check=True
        ).stdout.split()[1:]
        return dict(word.split("=", 1) for word in words)

    ours = not running()
    if ours:
        subprocess.run([*script, "start"], check=True, timeout=600, stdout=subprocess.DEVNULL)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in running().items():
            patch.setenv(name, value)
        yield os.environ["RAY_ADDRESS"]
    if ours:
        subprocess.run([*script, "stop"], check=True)


@pytest.fixture(params=EXECUTORS)
def on(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Serve,
    sums: Sums,
) -> Iterator[Bench]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made = Bench(request.param.removeprefix("own "), tmp_path, serve, sums, _cluster(request))
    yield made
    for file in tmp_path.glob("*/nel_run.json"):
        run = load_run(file.parent)
        if run is not None and made.executor.life(run):
            # It may end in between.
            with suppress(UsageError):
                made.executor.stop(run)


def _cluster(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "own ray":
        return {"shards": 1}
    if request.param == "ray":
        return {"shards": 3, "address": request.getfixturevalue("ray_address")}
    if request.param == "docker":
        return docker_image.cluster(request.getfixturevalue("nel_image"))
    return {}
