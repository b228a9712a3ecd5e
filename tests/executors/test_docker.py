"""What is particular to runs in a container: what is mounted, what is secret, and what is left of it."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import docker_image
import pytest
from docker_image import docker
from executor_bench import Bench
from nel_support import Nel

from nemo_evaluator.config import load_mapping
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.docker import Docker
from nemo_evaluator.executors.request import RunRequest, needed_variables
from nemo_evaluator.launch.start import start
from nemo_evaluator.launch.status import read_status
from nemo_evaluator.store.run_registry import RunMeta

KEY = "sk-only-for-the-container-0123456789"
pytestmark = pytest.mark.needs("docker")
in_a_container = pytest.mark.parametrize("on", ["docker"], indirect=True)


def containers(run: RunMeta) -> list[str]:
    return docker("ps", "-aq", "--filter", f"label=nel.run_id={run.run_id}").split()


@in_a_container
def test_keys_reach_the_run_and_nobody_else(on: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN_KEY", KEY)
    on.pace = 0.3
    config = json.loads((on.folder / on.config(40)).read_text())
    config["services"]["model"]["api_key"] = "${MY_OWN_KEY}"
    (on.folder / "c.json").write_text(json.dumps(config))
    assert (
        start(RunRequest(config_file="c.json", background=True, command=("eval", "run", "c.json")))
        == 0
    )
    on.until(lambda: on.server.count)
    run = on.run()
    assert on.server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    (container,) = containers(run)
    assert KEY not in docker("inspect", container)
    assert KEY not in subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout
    for file in on.folder.glob("o/**/*"):
        assert not file.is_file() or KEY not in file.read_text(errors="replace"), file
    on.executor.stop(run)
    assert containers(run) == []


@in_a_container
def test_files_belong_to_the_user_and_what_the_run_knew_is_noted(on: Bench) -> None:
    assert on.start(2) == 0
    noted = json.loads((on.folder / "o" / "docker.json").read_text())
    assert noted == {"container_id": f"nel-{on.run().run_id}", "image": docker_image.IMAGE}
    for file in on.folder.glob("o/**/*"):
        assert file.stat().st_uid == os.getuid(), file
    assert not (on.folder / "o" / ".docker.env").exists()


@in_a_container
def test_the_file_of_variables_is_the_owners_and_goes_when_nothing_starts(
    on: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    real = subprocess.run

    def seen(words: list[str], **options: object) -> object:
        file = on.folder / "o" / ".docker.env"
        if file.exists():
            modes.append(stat.S_IMODE(file.stat().st_mode))
        return real(words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("subprocess.run", seen)
    on.cluster = on.cluster | {"image": "nel-test/absent:none"}
    with pytest.raises(UsageError, match="nel-test/absent"):
        on.start(2, background=True)
    assert modes == [0o600] and not (on.folder / "o" / ".docker.env").exists()
    assert on.executor.status(on.run()).state == "not started"


@in_a_container
def test_a_killed_client_leaves_a_run_that_is_known(on: Bench) -> None:
    """SIGKILL of ``nel`` and of the engine's client: the container goes on, and the usual commands reach it."""
    on.pace = 0.3
    nel = Nel(on.folder)
    client = nel.start("eval", "run", on.config(400))
    on.until(lambda: (on.folder / "o" / "nel_run.json").exists() and on.server.count)
    run = on.run()
    children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
    for pid in (client.pid, *map(int, children)):
        os.kill(pid, signal.SIGKILL)
    client.communicate()
    told = json.loads(nel("eval", "status", run.run_id, "--json").stdout)
    assert (told["state"], told["executor"]) == ("running", "docker")
    nel("eval", "stop", run.run_id[:-2])
    assert containers(run) == [] and read_status(run).state == "stopped"
    asked, on.pace = on.server.count, 0.0
    nel("eval", "resume", str(on.folder / "o"))
    assert on.rows() == 400 and on.server.count - asked <= 400 - asked + 4


@in_a_container
def test_ctrl_c_stops_the_run_gently(on: Bench) -> None:
    on.pace = 0.2
    client = Nel(on.folder).start("eval", "run", on.config(400))
    on.until(lambda: on.server.count > 8)
    # As a terminal does it: to the whole group of the foreground.
    for pid in (
        client.pid,
        *map(int, Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()),
    ):
        os.kill(pid, signal.SIGINT)
    _, errors = client.communicate(timeout=60)
    assert client.returncode == 130, errors
    assert read_status(on.run()).state == "stopped" and on.rows() == on.server.count
    on.until(lambda: not containers(on.run()))


@in_a_container
def test_an_image_without_nel_is_named(on: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    on.cluster = on.cluster | {
        "image": "nel-test/python:bookworm",
        "container_env": {},
        "container_mounts": [],
    }
    with pytest.raises(UsageError, match="nel-test/python:bookworm could not run nel"):
        on.start(2)
    assert containers(on.run()) == []


def test_an_engine_that_does_not_answer_is_no_dead_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    details = {"container_id": "nel-x", "image": "i"}
    run = RunMeta("20260101_000000_aa", "docker", str(tmp_path), "2026-01-01", "sums", details)
    with pytest.raises(UsageError, match="docker container failed"):
        Docker().life(run)
    assert Docker().life(RunMeta(**{**_plain(run), "details": details | {"exit_code": 0}})) is None


def _plain(run: RunMeta) -> dict[str, object]:
    return {
        name: getattr(run, name)
        for name in ("run_id", "executor", "output_dir", "started_at", "config_summary")
    }


def test_only_variables_that_are_needed_go_along(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMED_IN_CONFIG", "HF_TOKEN", "NOBODY_ASKED", "https_proxy"):
        monkeypatch.setenv(name, f"value of {name}")
    service = {
        "type": "api",
        "url": "http://127.0.0.1:1/v1",
        "model": "m",
        "api_key": "${NAMED_IN_CONFIG}",
    }
    loaded = load_mapping({"services": {"model": service}, "benchmarks": [{"name": "quickstart"}]})
    found = needed_variables(loaded)
    assert {"NAMED_IN_CONFIG", "HF_TOKEN", "https_proxy"} <= set(
        found
    ) and "NOBODY_ASKED" not in found
