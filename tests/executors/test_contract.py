"""What every executor promises: the life of a run, from its request to its removal from the list."""

import json
import shutil
import stat
import threading
from pathlib import Path

import pytest
from executor_bench import Bench

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.base import Executor, Life, clean, executor_of, status_of
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.launch.job import resume_request
from nemo_evaluator.launch.start import start
from nemo_evaluator.launch.status import describe, read_status
from nemo_evaluator.store.lock import LockedError
from nemo_evaluator.store.run_registry import RunMeta, find_run, list_runs, load_run, registry_dir


def test_an_executor_is_looked_up_by_its_word(on: Bench) -> None:
    assert isinstance(on.executor, Executor)
    assert type(executor_of(on.word)) is type(on.executor)


def test_in_the_foreground_it_runs_to_its_end(on: Bench) -> None:
    assert on.start(6) == 0
    run = on.run()
    assert run.executor == on.word and on.rows() == 6
    assert on.executor.status(run) == Life("finished", facts={"exit_code": 0})
    status = read_status(run)
    (one,) = status.benchmarks
    assert (status.running, one.total, one.scored, one.failed, one.status) == (
        False,
        6,
        6,
        0,
        "VALID",
    )
    assert one.rate is not None and one.rate > 0 and one.eta_seconds is None
    assert one.cost_usd and f"${one.cost_usd:.4f}" in describe(status)
    assert "6/6 done" in describe(status) and "nel eval resume" not in describe(status)


def test_in_the_background_it_is_seen_followed_and_stopped(
    on: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    on.pace = 0.3
    assert on.start(400, background=True) == 0
    run = on.run()
    assert run.run_id in capsys.readouterr().out
    assert on.executor.status(run).state in ("pending", "starting")
    on.until(lambda: read_status(run).benchmarks and read_status(run).benchmarks[0].scored >= 4)
    status = read_status(run)
    (one,) = status.benchmarks
    assert (status.state, status.running, one.total, one.status) == (
        "running",
        True,
        400,
        "running",
    )
    assert one.rate and one.eta_seconds and one.eta_seconds > 1 and one.cost_usd
    assert "ETA" in describe(status) and status.where in describe(status)
    on.executor.stop(run)
    asked = on.server.count
    assert on.executor.status(run).state == "stopped"
    assert f"nel eval resume {run.run_id}" in describe(read_status(run))
    assert on.rows() == asked == on.server.count
    with pytest.raises(UsageError, match="is not running"):
        on.executor.stop(run)


def test_failures_are_counted_by_cause(on: Bench) -> None:
    on.refused = "1 + 1"
    assert on.start(6) == 3
    (one,) = read_status(on.run()).benchmarks
    assert (one.scored, one.failed, one.status) == (5, 1, "INVALID")
    assert any(reason.startswith("1 failed with request_rejected") for reason in one.reasons)


def test_json_for_scripts_names_the_run(on: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    on.start(3, background=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["run_id"] == on.run().run_id and told["output_dir"] == str(on.folder / "o")
    assert on.until_over() == "finished"


def test_the_log_is_whole_its_tail_is_its_end_and_following_ends_with_the_run(on: Bench) -> None:
    on.pace = 0.1
    on.start(40, background=True)
    run = on.run()
    followed = "".join(on.executor.logs(run, follow=True))
    assert on.until_over() == "finished"
    whole = (on.folder / "o" / "nel_eval.log").read_text()
    assert followed == whole == "".join(on.executor.logs(run))
    assert list(on.executor.logs(run, tail=2)) == whole.splitlines(keepends=True)[-2:]
    assert "Completed 1 benchmark." in whole


def test_a_killed_run_is_killed_and_resumes_without_asking_twice(on: Bench) -> None:
    on.pace = 0.2
    on.start(60, background=True)
    run = on.run()
    on.until(lambda: on.server.count > 12)
    on.kill()
    assert on.executor.status(run).state == "killed"
    assert read_status(run).benchmarks[0].status == "not finished"
    on.pace = 0.0
    with pytest.raises(UsageError, match="unfinished run") as caught:
        on.start(60)
    assert "nel eval run c.json --resume" in (caught.value.hint or "")
    asked = on.server.count
    assert start(resume_request(run, background=True, as_json=False)) == 0
    assert on.until_over() == "finished"
    assert on.run().run_id == run.run_id
    assert on.rows() == 60
    assert on.server.count - asked <= 60 - (asked - on.in_flight)
    assert [one.run_id for one in list_runs()] == [run.run_id]


def test_a_run_that_could_not_start_says_where_to_look(on: Bench) -> None:
    on.start(3, background=True)
    run = on.run()
    (on.folder / "sums.py").write_text("raise RuntimeError('no benchmark in here')")
    on.until_over()
    assert "no benchmark in here" in "".join(on.executor.logs(run))
    state = on.executor.status(run).state
    assert state in ("not started", "failed")
    assert f"nel eval {'logs' if state == 'not started' else 'resume'} {run.run_id}" in describe(
        read_status(run)
    )


def test_two_at_once_are_two_runs_and_one_folder_takes_one(on: Bench) -> None:
    on.pace = 0.5
    on.start(60, background=True)
    on.start(60, background=True, output_dir="p")
    first, second = on.run(), on.run("p")
    assert {one.run_id for one in list_runs()} == {
        first.run_id,
        second.run_id,
    } and first.run_id != second.run_id
    on.until(
        lambda: on.executor.status(first).state == on.executor.status(second).state == "running"
    )
    with pytest.raises(LockedError, match=first.run_id):
        on.start(60, background=True)
    on.executor.stop(first)
    assert on.executor.status(second).state == "running"
    on.pace = 0.0
    assert on.until_over("p") == "finished" and on.rows("p") == 60


def test_of_two_that_race_for_a_folder_one_runs_and_neither_reads_the_others_request(
    on: Bench,
) -> None:
    on.pace = 0.2
    name = on.config(8)
    threads = [
        threading.Thread(target=on.start_file, args=(name,), kwargs={"background": True})
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = {one.run_id for one in list_runs()}
    assert len(ids) == 2
    on.until(lambda: (on.folder / "o" / "nel.lock").exists())
    on.until(lambda: not (on.folder / "o" / "nel.lock").exists())
    assert on.rows() == on.server.count == 8
    assert load_run(on.folder / "o").run_id in ids  # type: ignore[union-attr]


def test_a_run_that_was_moved_is_found_by_its_folder(on: Bench) -> None:
    on.start(3)
    run = on.run()
    shutil.move(on.folder / "o", on.folder / "elsewhere")
    with pytest.raises(UsageError, match="is gone"):
        find_run(run.run_id)
    moved = find_run(output_dir=on.folder / "elsewhere")
    assert moved.run_id == run.run_id and on.executor.status(moved).state == "finished"
    assert read_status(moved).benchmarks[0].scored == 3
    assert start(resume_request(moved, background=False, as_json=False)) == 0
    assert find_run(run.run_id).output_dir == str(on.folder / "elsewhere")
    assert on.server.count == 3


def test_a_later_run_in_the_folder_is_not_taken_for_the_earlier_one(on: Bench) -> None:
    on.start(3)
    first = on.run().run_id
    on.start(3, fresh=True)
    with pytest.raises(UsageError, match="holds a later run") as caught:
        find_run(first)
    assert on.run().run_id in (caught.value.hint or "")


def test_clean_forgets_the_run_and_leaves_its_folder(on: Bench) -> None:
    on.start(3)
    run = on.run()
    clean(run)
    assert list(list_runs()) == [] and on.rows() == 3


def test_a_request_file_is_the_owners_and_goes_with_the_next_run(on: Bench) -> None:
    on.start(3, background=True)
    (file,) = (on.folder / "o").glob("nel_request-*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert on.until_over() == "finished"
    on.start(3, fresh=True)
    assert not file.exists()


GARBAGE = [
    b"",
    b"\x00\xff\xfe",
    b"[]",
    b"null",
    b"{}",
    b'{"run_id": 5}',
    b'{"run_id": "../../up", "executor": "local", "output_dir": ".", "started_at": "", "config_summary": ""}',
    b'{"run_id": "a", "executor": "local", "output_dir": [], "started_at": 1, "config_summary": null}',
]


def test_garbage_in_the_list_of_runs_hides_nothing_else(on: Bench) -> None:
    on.start(2)
    run = on.run()
    broken = registry_dir() / "20990101_000000_garbage" / "nel_run.json"
    broken.parent.mkdir(parents=True)
    for garbage in GARBAGE:
        broken.write_bytes(garbage)
        assert [one.run_id for one in list_runs()] == [run.run_id]
    clean(run)
    for garbage in GARBAGE:
        (on.folder / "o" / "nel_run.json").write_bytes(garbage)
        with pytest.raises(UsageError, match="is damaged: it does not describe a run"):
            on.run()
    assert start(RunRequest(config_file="c.json", resume=True)) == 0
    assert on.server.count == 2


@pytest.mark.parametrize(
    "details",
    [
        {"pid": "x", "began": [], "host": 3},
        {"pid": -5, "began": 1, "host": ""},
        {"exit_code": "0"},
        {"exit_code": 77},
    ],
)
def test_a_garbled_handle_is_no_living_run(
    on: Bench, tmp_path: Path, details: dict[str, object]
) -> None:
    run = RunMeta(
        "20260101_000000_aa", on.word, str(tmp_path / "none"), "yesterday", "sums", details
    )
    assert not on.executor.status(run).alive
    assert on.executor.life(run) is None


def test_an_executor_that_is_not_there_any_more_is_unknown_and_can_be_cleaned(
    on: Bench, tmp_path: Path
) -> None:
    for number, word in enumerate(["ghost", "lepton"]):
        RunMeta(
            f"20260101_000000_a{number}", word, str(tmp_path / "gone"), "2026-01-01", "sums"
        ).save()
    found = list(list_runs())
    assert [status_of(one).state for one in found] == ["unknown", "unknown"]
    for one in found:
        clean(one)
    assert list(list_runs()) == []


def test_a_run_is_found_by_the_beginning_of_its_id(on: Bench, tmp_path: Path) -> None:
    for tail in ("aa", "ab"):
        RunMeta(f"20260101_000000_{tail}", on.word, str(tmp_path), "2026-01-01", "sums").save()
        (tmp_path / "nel_run.json").unlink()
    assert find_run("20260101_000000_ab").run_id == "20260101_000000_ab"
    with pytest.raises(UsageError, match="2 runs begin with '2026'") as caught:
        find_run("2026")
    assert "20260101_000000_aa" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="no run 'x' is known"):
        find_run("x")
