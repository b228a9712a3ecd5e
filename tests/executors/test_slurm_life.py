"""What happens to runs on a real SLURM cluster besides running: preemption, limits, one shard alone, a killed nel."""

import json
import os
import signal
import subprocess
import time

import pytest
from nel_support import Serve, api, nel, rows, serve, sums
from slurm_support import POOL, Cluster, jobs_of, kill_script, on, processes_of, squeue

from nemo_evaluator.testing import Say, ScriptedServer

__all__ = ["nel", "on", "serve", "sums"]
pytestmark = pytest.mark.needs("slurm")


def stand_in(on: Cluster, name: str, text: str) -> None:
    """A program that jobs of this run, and ``nel``, find before the real one, which is ``$REAL``."""
    tools = on.nel.folder / "tools"
    tools.mkdir(exist_ok=True)
    real = subprocess.run(
        ["which", name], capture_output=True, text=True, check=True
    ).stdout.strip()
    (tools / name).write_text(f"#!/bin/bash\nREAL={real}\n{text}\n")
    (tools / name).chmod(0o755)
    if str(tools) not in on.nel.env["PATH"]:
        on.nel.env["PATH"] = f"{tools}:{on.nel.env['PATH']}"


def asked(server: ScriptedServer, more_than: int) -> None:
    """Wait until the server was asked so often; ``nel`` itself would take longer to tell."""
    deadline = time.monotonic() + 360
    while server.count <= more_than:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_preempted_run_goes_on_when_there_is_room_again(on: Cluster, serve: Serve) -> None:
    pace = [0.5]
    server = serve(lambda seen: Say("6", delay=pace[0]))
    pool = {"partition": "low", "sbatch_extra_flags": {"mem": "3900M"}}
    on.nel(
        "eval",
        "run",
        on.config(400, {"model": api(server.url)}, node_pools={"main": pool}),
        "--submit",
    )
    asked(server, 4)
    node = squeue("-j", on.chain()[0], "-o", "%N")
    urgent = [
        "sbatch",
        "--parsable",
        "-p",
        "high",
        "-w",
        node,
        "--mem=3900M",
        "--output=/dev/null",
        "--wrap",
        "sleep 3",
    ]
    subprocess.run(urgent, check=True, timeout=60, cwd=on.nel.folder, capture_output=True)
    on.until(lambda state: "(PREEMPTED); resuming" in on.log())
    pace[0] = 0.0
    status = on.over()
    assert (status["state"], status["benchmarks"][0]["scored"]) == ("finished", 400), on.log()
    # It was told to close and had the time: nothing was under way.
    assert server.count == 400 and max(server.counts.values()) == 1


def test_a_chain_ends_when_max_walltime_is_used_up(on: Cluster, serve: Serve) -> None:
    pace = [0.5]
    server = serve(lambda seen: Say("6", delay=pace[0]))
    on.nel(
        "eval",
        "run",
        on.config(400, {"model": api(server.url)}, max_walltime="00:00:04"),
        "--submit",
    )
    asked(server, 4)
    time.sleep(4)
    kill_script(on.chain()[0])
    status = on.over()
    assert status["state"] == "stopped" and "max_walltime (4 s) is used up" in on.log()
    assert 4 <= int((on.nel.folder / "o" / ".nel_accumulated_walltime").read_text()) < 60
    assert len(on.chain()) == 2 and jobs_of(on) == []
    pace[0] = 0.0
    on.nel("eval", "resume", "-o", "o", timeout=240)
    assert on.status()["state"] == "finished" and len(rows(on.nel.folder / "o" / "sums")) == 400


def test_one_shard_is_looked_at_stopped_and_resumed_alone(on: Cluster, serve: Serve) -> None:
    pace = [2.0]
    server = serve(lambda seen: Say("6", delay=pace[0]))
    on.nel("eval", "run", on.config(400, {"model": api(server.url)}, shards=2), "--submit")
    on.until(lambda state: [one["scored"] > 0 for one in state["benchmarks"]] == [True, True])
    run = on.status()["run_id"]
    log = on.nel("eval", "logs", run, "-s", "1").stdout
    assert "sums: 200 of 200 samples to run" in log and "shard_0" not in log
    stopped = json.loads(on.nel("eval", "stop", run, "--shard", "1", "--json").stdout)
    assert stopped["state"] == "stopped" and stopped["output_dir"].endswith("shard_1")
    state = on.status()
    assert (
        state["running"]
        and state["where"].startswith("job ")
        and "1 of 2 shards done" in state["where"]
    )
    assert "is running in" in on.nel("eval", "resume", run, "-s", "0", code=1).stderr
    assert "no shard 2" in on.nel("eval", "logs", run, "-s", "2", code=1).stderr
    on.nel("eval", "resume", run, "-s", "1", "--background")
    on.until(lambda state: len(state["benchmarks"]) == 2 and state["running"])
    pace[0] = 0.0
    status = on.over()
    assert (status["state"], status["benchmarks"][0]["scored"]) == ("finished", 400), on.log()
    assert server.count <= 402 and jobs_of(on) == []


def test_a_job_that_the_scheduler_forgot_is_found_in_the_accounts(
    on: Cluster, serve: Serve
) -> None:
    if subprocess.run(["sacct", "-n"], capture_output=True).returncode:
        pytest.skip("this cluster keeps no accounts")
    server = serve(lambda seen: Say("6", delay=0.5))
    on.nel("eval", "run", on.config(400, {"model": api(server.url)}, auto_resume=False), "--submit")
    asked(server, 2)
    kill_script(on.chain()[0])
    on.over()
    # As it is some minutes later.
    stand_in(on, "squeue", 'case "$*" in *-j*) exit 1 ;; *) exec $REAL "$@" ;; esac')
    deadline = time.monotonic() + 180
    while "FAILED" not in (status := on.status())["where"]:
        assert time.monotonic() < deadline, status
        time.sleep(1)
    assert status["state"] == "killed" and on.chain()[0] in status["where"]


@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_killed_submission_is_found_and_stopped(on: Cluster, serve: Serve, phase: str) -> None:
    """SIGKILL while sbatch works, before or after the job is in the queue: the run is known all the same."""
    server = serve(lambda seen: Say("6", delay=0.5))
    held = on.nel.folder / "held"
    pause = f"touch {held}; while [ -e {held} ]; do sleep 0.1; done"
    call = 'case "$*" in *dependency*) exec $REAL "$@" ;; esac\n'
    order = (
        f'{pause}; $REAL "$@"'
        if phase == "before"
        else f'said=$($REAL "$@"); {pause}; echo "$said"'
    )
    stand_in(on, "sbatch", call + order)
    config = on.config(
        400, {"model": api(server.url)}, node_pools={"main": POOL | {"partition": "batch"}}
    )
    submitting = on.nel.start("eval", "run", config, "--submit")
    while not held.exists():
        assert submitting.poll() is None, submitting.communicate()
        time.sleep(0.1)
    os.kill(submitting.pid, signal.SIGKILL)
    submitting.communicate(timeout=60)
    assert on.status()["state"] in ("not started", "starting", "running")
    held.unlink()
    status = on.until(lambda state: state["running"])
    (listed,) = json.loads(on.nel("eval", "runs", "--json").stdout)
    assert listed["run_id"] == status["run_id"] and listed["state"] in (
        "pending",
        "starting",
        "running",
    )
    assert (
        json.loads(on.nel("eval", "stop", status["run_id"], "--json").stdout)["state"] == "stopped"
    )
    assert jobs_of(on) == [] and not (on.nel.folder / "o" / ".secrets.env").exists()


@pytest.mark.parametrize("phase", ["following", "stopping"])
def test_a_killed_follower_or_stopper_leaves_a_run_that_is_known(
    on: Cluster, serve: Serve, phase: str
) -> None:
    server = serve(lambda seen: Say("6", delay=0.5))
    config = on.config(400, {"model": api(server.url)})
    acting = on.nel.start("eval", "run", config) if phase == "following" else None
    if acting is None:
        on.nel("eval", "run", config, "--submit")
    asked(server, 2)
    if acting is None:
        acting = on.nel.start("eval", "stop", "-o", "o")
        mark = on.nel.folder / "o" / ".nel_stop"
        while not mark.exists():
            assert acting.poll() is None
            time.sleep(0.02)
    os.kill(acting.pid, signal.SIGKILL)
    acting.communicate(timeout=60)
    status = on.status()
    if phase == "following":
        assert status["running"]
        on.nel("eval", "stop", "-o", "o")
    assert on.over()["state"] == "stopped"
    assert jobs_of(on) == [] and processes_of(on.nel.folder) == []


def test_a_run_leaves_the_request_of_one_that_waits_for_its_folder(
    on: Cluster, serve: Serve
) -> None:
    server = serve(lambda seen: Say("6"))
    later = {"main": POOL | {"sbatch_extra_flags": {"mem": "900M", "begin": "now+1hour"}}}
    config = on.config(2, {"model": api(server.url)}, node_pools=later)
    waiting = json.loads(on.nel("eval", "run", config, "--submit", "--json").stdout)["run_id"]
    (request,) = (on.nel.folder / "o").glob("nel_request-*.json")
    parts = json.loads((on.nel.folder / config).read_text()) | {"cluster": {"type": "local"}}
    on.nel("eval", "run", on.nel.config("here.json", **parts))
    assert request.exists()
    subprocess.run(
        ["scancel", *(on.nel.folder / "o" / ".nel_submitted").read_text().split()],
        check=True,
        timeout=60,
    )
    on.nel("eval", "run", "here.json", "--fresh")
    assert waiting in request.name and not request.exists()
