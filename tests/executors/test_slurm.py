"""Runs on a real SLURM cluster, by ``nel`` alone and with a real model: jobs, shards, chains, pools, services, ssh."""

import getpass
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nel_support import NEL, Nel, nel, rows, serve, sums
from slurm_support import MODEL, POOL, Cluster, lost_node, on, squeue

__all__ = ["nel", "on", "serve", "sums"]
pytestmark = pytest.mark.needs("slurm", "model")


def test_a_job_serves_the_model_and_is_followed_to_its_end(on: Cluster) -> None:
    done = on.nel("eval", "run", on.config(4, {"model": MODEL}), timeout=240)
    assert (
        "Submitted job" in done.stdout
        and "finished" in done.stdout
        and "model ready at" in done.stderr
    )
    assert len(rows(on.nel.folder / "o" / "sums")) == 4
    status = on.status()
    assert (status["state"], status["exit_code"], status["benchmarks"][0]["scored"]) == (
        "finished",
        0,
        4,
    )
    assert "model ready at" in on.nel("eval", "logs", "-o", "o").stdout
    assert [
        path.stat().st_size > 0
        for path in (on.nel.folder / "o" / "logs").glob("server-*-model.log")
    ] == [True]
    assert (
        not list((on.nel.folder / "o").glob(".services-*"))
        and not (on.nel.folder / "o" / ".secrets.env").exists()
    )
    job, follow_up = on.chain()
    assert squeue("-j", f"{job},{follow_up}", "-t", "pending,running,completing") == ""
    assert "is not running" in on.nel("eval", "stop", "-o", "o", code=1).stderr
    assert on.asked() == 4
    on.nel("eval", "resume", "-o", "o")
    assert on.status()["state"] == "finished" and on.asked() == 4


def test_two_pools_are_one_job_and_services_wait_for_each_other(on: Cluster) -> None:
    services = {
        "judge": MODEL | {"node_pool": "second", "depends_on": ["model"]},
        "model": MODEL | {"node_pool": "main"},
    }
    pools = {"main": POOL, "second": {**POOL, "partition": "gpu"}}
    done = on.nel(
        "eval", "run", on.config(2, services, solver="judge", node_pools=pools), timeout=240
    )
    up = [line.split()[0] for line in done.stderr.splitlines() if " ready at " in line]
    assert up == ["model", "judge"]
    begun = [
        line for line in done.stderr.splitlines() if line.startswith("Starting service: judge")
    ]
    assert done.stderr.index("model ready at") < done.stderr.index(begun[0])
    assert "#SBATCH hetjob" in (on.nel.folder / "o" / "nel_eval.sbatch").read_text()
    assert len(rows(on.nel.folder / "o" / "sums")) == 2


def test_shards_are_an_array_that_the_last_one_merges_into_what_one_run_gives(on: Cluster) -> None:
    on.nel("eval", "run", on.embedded(8, shards=4), timeout=400)
    assert on.asked() == 8
    status = on.status()
    assert (status["state"], status["exit_code"]) == ("finished", 0)
    assert [(one["name"], one["scored"]) for one in status["benchmarks"]] == [("sums", 8)]
    assert (
        len({path.parent.name for path in (on.nel.folder / "o").glob("shard_*/nel_run.json")}) == 4
    )
    runs = json.loads(on.nel("eval", "runs", "--json").stdout)
    assert [run["run_id"] for run in runs] == [status["run_id"]]
    on.nel.config(
        "local.json",
        **(json.loads((on.nel.folder / "c.json").read_text()) | {"cluster": {"type": "local"}}),
    )
    on.nel("eval", "run", "local.json", "-o", "whole")
    of_both = [
        [
            (row["problem_idx"], row["reward"], row["model_response"])
            for row in rows(on.nel.folder / folder / "sums")
        ]
        for folder in ("o", "whole")
    ]
    assert sorted(of_both[0]) == sorted(of_both[1])
    reports = [(on.nel.folder / folder / "report.md").read_text() for folder in ("o", "whole")]
    scores = [
        [line for line in report.splitlines() if "| sums" in line or "VALID" in line]
        for report in reports
    ]
    assert scores[0] == scores[1] and scores[0]
    assert not (on.nel.folder / "o" / ".secrets.env").exists()


def test_a_time_limit_closes_the_run_and_the_next_job_finishes_it(on: Cluster) -> None:
    on.pace.write_text("6")
    on.nel("eval", "run", on.embedded(20, walltime="00:01:00"), "--submit")
    on.until(lambda state: len(on.chain()) == 3)
    on.pace.unlink()
    status = on.over()
    assert (status["state"], status["benchmarks"][0]["scored"]) == ("finished", 20), on.log()
    assert on.asked() == 20
    assert "cut short (walltime)" in on.log() and "resuming" in on.log()
    assert int((on.nel.folder / "o" / ".nel_accumulated_walltime").read_text()) > 10
    assert not (on.nel.folder / "o" / ".secrets.env").exists()
    assert squeue("-j", ",".join(on.chain()), "-t", "pending,running,completing") == ""


@pytest.mark.needs("root")
def test_a_lost_node_is_followed_by_another_job_and_a_cancelled_job_by_none(on: Cluster) -> None:
    on.pace.write_text("1")
    on.nel("eval", "run", on.embedded(30), "--submit")
    on.until(lambda state: state["benchmarks"] and state["benchmarks"][0]["scored"] > 3)
    node = squeue("-j", on.chain()[0], "-o", "%N")
    with lost_node(node, on.chain()[0]):
        on.until(lambda state: "(NODE_FAIL); resuming" in on.log())
    count = on.asked()
    on.until(lambda state: on.asked() > count + 2)
    subprocess.run(["scancel", on.chain()[1]], check=True, timeout=60)
    status = on.over()
    assert (status["state"], status["benchmarks"][0]["scored"] < 30) == ("stopped", True)
    assert len(on.chain()) == 3
    on.pace.unlink()
    on.nel("eval", "resume", "-o", "o", timeout=240)
    assert on.status()["state"] == "finished" and len(rows(on.nel.folder / "o" / "sums")) == 30
    # Only what was in flight when the node was lost and when the job was cancelled is asked again.
    assert 30 <= on.asked() <= 30 + 2 * 2


def test_a_run_that_waits_is_pending_with_its_reason_and_can_be_stopped_and_resumed(
    on: Cluster,
) -> None:
    flags = {"mem": "900M", "begin": "now+1hour"}
    config = on.embedded(3, node_pools={"main": POOL | {"sbatch_extra_flags": flags}})
    on.nel("eval", "run", config, "--background")
    status = on.status()
    assert status["state"] == "pending" and status["running"] and "BeginTime" in status["where"]
    said = on.nel("eval", "run", config, "--submit", code=1).stderr
    assert status["run_id"] in said and "nel eval stop" in said
    assert "is pending" in on.nel("eval", "resume", "-o", "o", code=1).stderr
    assert "has not logged" in on.nel("eval", "logs", "-o", "o", code=1).stderr
    assert json.loads(on.nel("eval", "stop", "-o", "o", "--json").stdout)["state"] == "stopped"
    assert not (on.nel.folder / "o" / ".secrets.env").exists()
    assert "is not running" in on.nel("eval", "stop", "-o", "o", code=1).stderr
    on.nel("eval", "run", on.embedded(3), "--resume")
    assert on.status()["state"] == "finished" and on.asked() == 3


def test_following_ends_with_ctrl_c_and_the_run_goes_on(on: Cluster) -> None:
    on.pace.write_text("60")
    following = on.nel.start("eval", "run", on.embedded(8))
    while on.asked() < 2 and following.poll() is None:
        time.sleep(0.2)
    following.send_signal(2)
    _, said = following.communicate(timeout=60)
    assert following.returncode == 130 and "detached" in said and "nel eval stop" in said
    assert "nel eval stop" in on.nel("eval", "resume", "-o", "o", code=1).stderr
    on.pace.unlink()
    assert on.over()["state"] == "finished" and on.asked() == 8


class Login:
    """An sshd on loopback that stands for a login node, and the ``ssh`` command that finds it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)],
                check=True,
            )
        config = [
            f"Port {port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder}/host",
            f"PidFile {folder}/pid",
        ]
        config += [
            f"AuthorizedKeysFile {folder}/user.pub",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
        ]
        # What a profile would set on a login node.
        config += [
            f"SetEnv PATH={Path(NEL).parent}:{os.environ['PATH']} SLURM_CONF={os.environ['SLURM_CONF']}",
            "LogLevel VERBOSE",
        ]
        (folder / "sshd_config").write_text("\n".join(config) + "\n")
        client = [
            f"Host login\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n"
        ]
        client += ["  StrictHostKeyChecking accept-new\n", f"  UserKnownHostsFile {folder}/known\n"]
        (folder / "ssh_config").write_text("".join(client))
        ssh = folder / "ssh"
        ssh.write_text(
            f'#!/bin/sh\necho x >>{folder}/calls\nexec /usr/bin/ssh -F {folder}/ssh_config "$@"\n'
        )
        ssh.chmod(0o755)
        Path("/run/sshd").mkdir(exist_ok=True)
        self.folder = folder
        command = [str(shutil.which("sshd")), "-D", "-e", "-f", str(folder / "sshd_config")]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(command, stderr=log)

    @property
    def calls(self) -> int:
        """How often ``ssh`` was called."""
        return len((self.folder / "calls").read_text().splitlines())

    @property
    def connections(self) -> int:
        """How often somebody logged in."""
        return (self.folder / "log").read_text().count("Accepted publickey")


@pytest.fixture
def login(nel: Nel) -> Iterator[Login]:
    made = Login(nel.folder / "login")
    nel.env["PATH"] = f"{made.folder}:{Path(NEL).parent}:{nel.env['PATH']}"
    yield made
    for master in (Path.home() / ".ssh" / "nel").glob("*"):
        subprocess.run(
            ["/usr/bin/ssh", "-O", "exit", "-o", f"ControlPath={master}", "login"],
            capture_output=True,
        )
    made.process.terminate()
    made.process.wait(timeout=90)


@pytest.mark.needs("sshd", "root")
def test_a_cluster_behind_ssh_gets_everything_over_one_connection(
    on: Cluster, login: Login
) -> None:
    on.pace.write_text("1")
    config = on.embedded(24, hostname="login", username=getpass.getuser())
    there = on.nel.folder / "there"
    data = json.loads((on.nel.folder / config).read_text())
    data["output"]["dir"] = str(there)
    data["benchmarks"][0]["name"] = str(on.nel.folder / "sums.py")
    data["services"]["model"]["extra_env"] = {"KEY": "${SHELL_KEY}"}
    (on.nel.folder / config).write_text(json.dumps(data))
    here = Hidden(on.nel, there)
    told = json.loads(here("eval", "run", config, "--submit", "--json").stdout)
    assert told["hostname"] == "login" and login.calls == 1
    assert (there / ".secrets.env").stat().st_mode & 0o777 == 0o600
    run = told["run_id"]
    before = login.calls
    state = json.loads(here("eval", "status", run, "--json").stdout)
    assert login.calls == before + 1 and state["state"] in ("pending", "starting", "running")
    on.until(lambda state: on.asked("there") > 3, "there")
    assert "samples to run" in here("eval", "logs", run).stdout
    assert json.loads(here("eval", "stop", run, "--json").stdout)["state"] == "stopped"
    assert (
        squeue("-j", told["job_id"], "-t", "pending,running") == ""
        and not (there / ".secrets.env").exists()
    )
    on.pace.unlink()
    said = here("eval", "resume", run, timeout=240)
    assert "Completed 1 benchmark." in said.stderr and "finished" in said.stdout
    assert len(rows(there / "sums")) == 24 and 24 <= on.asked("there") <= 26
    assert login.connections == 1


class Hidden:
    """Runs ``nel`` where a folder of the cluster cannot be seen, as on a laptop."""

    def __init__(self, nel: Nel, folder: Path) -> None:
        self._nel, self._folder = nel, folder
        folder.mkdir()

    def __call__(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        hide = f'mount -t tmpfs none {self._folder} && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", hide, "sh", NEL, *words]
        done = subprocess.run(
            command,
            cwd=self._nel.folder,
            env=self._nel.env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done
