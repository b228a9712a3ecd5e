"""What is particular to runs on this machine: processes, locks and signals."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from executor_bench import Bench

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.core.processes import start_time
from nemo_evaluator.executors.local import Local, LocalHandle
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.run_registry import RunMeta

only_local = pytest.mark.parametrize("on", ["local"], indirect=True)


def listed(folder: Path, handle: LocalHandle) -> RunMeta:
    return RunMeta("20260101_000000_aa", "local", str(folder), "2026-01-01", "sums").noting(handle)


@only_local
def test_a_living_run_is_alive_where_there_is_no_proc(
    on: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    on.pace = 0.3
    on.start(40, background=True)

    on.until(lambda: on.server.count)
    real = Path.read_text

    def read_text(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if path.is_relative_to("/proc"):
            raise FileNotFoundError(str(path))
        return real(path, encoding, errors)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert Local().status(on.run()).state == "running"
    Local().stop(on.run())
    assert Local().status(on.run()).state == "stopped"


def test_a_number_that_was_given_to_another_process_is_not_the_run(tmp_path: Path) -> None:
    me, host = os.getpid(), socket.gethostname()
    assert Local().life(listed(tmp_path, LocalHandle(me, start_time(me), host))) is not None
    assert Local().life(listed(tmp_path, LocalHandle(me, start_time(me) - 1, host))) is None
    assert Local().life(listed(tmp_path, LocalHandle(me, start_time(me), "another"))) is None
    done = listed(tmp_path, LocalHandle(me, start_time(me), host))
    assert Local().life(replace(done, details=done.details | {"exit_code": 0})) is None


def test_a_run_on_another_host_is_seen_and_is_stopped_there(tmp_path: Path) -> None:
    write_json(
        tmp_path / "nel.lock",
        {"host": "node-7", "pid": 5, "since": "now", "run_id": "20260101_000000_aa"},
    )
    run = listed(tmp_path, LocalHandle(1, 1, "node-7"))
    assert Local().status(run).where == "pid 5 on node-7"
    with pytest.raises(UsageError, match="is running on node-7"):
        Local().stop(run)


def test_one_that_is_deaf_to_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_evaluator.executors.local._GRACE", 0.3)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    deaf = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert deaf.stdout is not None and deaf.stdout.readline() == b"up\n"
    Local().stop(
        listed(tmp_path, LocalHandle(deaf.pid, start_time(deaf.pid), socket.gethostname()))
    )
    assert deaf.wait(10) == -signal.SIGKILL
    deaf.stdout.close()


@only_local
def test_nothing_is_replayed_from_the_command_line(
    on: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["nel", "eval", "run", "nonsense.yaml", "--no-such-flag"])
    on.start(3, background=True, override=("benchmarks.0.repeats=2",))
    assert on.until_over() == "finished"
    assert on.rows() == 6
    assert "command: nel eval run c.json" in (on.folder / "o" / "full_config.yaml").read_text()
    assert read_json(on.folder / "o" / "nel_run.json")["details"]["exit_code"] == 0


@only_local
def test_a_resumed_run_that_cannot_begin_was_not_killed(on: Bench) -> None:
    on.pace = 0.3
    on.start(40, background=True)
    on.until(lambda: on.server.count)
    on.kill()
    assert on.executor.status(on.run()).state == "killed"
    on.start(40, background=True, resume=True)
    # Somebody else takes the folder before it does.
    pid = on.run().details["pid"]
    os.kill(pid, signal.SIGSTOP)
    with folder_lock(on.folder / "o", run_id="another"):
        os.kill(pid, signal.SIGCONT)
        on.until(lambda: "exit_code" in on.run().details)
    assert on.until_over() == "failed"


@only_local
def test_submit_is_refused(on: Bench) -> None:
    with pytest.raises(UsageError, match="nothing to submit to"):
        on.start(3, submit=True)


@only_local
def test_an_unfinished_shard_keeps_the_whole_from_starting_over_it(on: Bench) -> None:
    on.pace = 0.3
    on.start(40, background=True, shard="0/2")
    part = on.run("o/shard_0")
    on.until(lambda: on.server.count > 8)
    on.executor.stop(part)
    with pytest.raises(UsageError, match="shard_0/sums holds an unfinished run"):
        on.start(40)
