"""Run folders: two runs in one, what is moved, what was unfinished, what was moved elsewhere, and who is who."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from nel_support import NEL, Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.store.run_registry import new_run_id
from nemo_evaluator.testing import Say


def _until(condition: object, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("more", [(), ("--resume",), ("--background",)])
def test_a_second_run_in_a_folder_in_use_is_refused(
    nel: Nel, serve: Serve, sums: Sums, more: tuple[str, ...]
) -> None:
    server = serve(Say("6", delay=30))
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(4))],
        output={"dir": "o"},
    )
    first = nel.start("eval", "run", config)
    _until(lambda: server.count >= 4)
    before = {path: path.read_bytes() for path in (nel.folder / "o").rglob("*") if path.is_file()}
    second = nel("eval", "run", config, *more, code=1)
    assert re.search(
        rf"o is in use by run \d+_\d+_\w+, pid {first.pid} on \S+, since", second.stderr
    )
    assert "nel eval stop" in second.stderr
    assert {
        path: path.read_bytes() for path in (nel.folder / "o").rglob("*") if path.is_file()
    } == before
    first.kill()
    first.communicate()


def test_only_own_files_are_moved_it_says_so_and_a_resume_takes_them_back(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve("6")
    parts = {"benchmarks": [bench(sums(5))], "output": {"dir": "o"}}
    one = nel.config("one.yaml", services={"model": api(server.url)}, **parts)
    other = nel.config(
        "two.yaml", services={"model": api(server.url, generation={"temperature": 0.5})}, **parts
    )
    nel("eval", "run", one)
    first = rows(nel.folder / "o" / "sums")
    (nel.folder / "o" / "sums" / "notes.txt").write_text("mine")
    said = nel("eval", "run", other).stderr
    assert re.search(r"o/sums: moved the earlier run \(\d+ files\) to previous/\d+T\d+Z/", said)
    assert (nel.folder / "o" / "sums" / "notes.txt").read_text() == "mine"
    assert server.count == 10
    again = nel("eval", "run", one, "--resume")
    assert "found 5 reusable answers from earlier runs" in again.stderr
    assert server.count == 10
    assert rows(nel.folder / "o" / "sums") == first


def test_a_run_in_the_way_that_is_the_root_of_another_stays(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    """The order of the README: a run in results/sums, then one in results, whose benchmark is called sums."""
    server = serve("6")
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(3))])
    nel("eval", "run", config, "-o", "results/sums")
    root = nel.folder / "results" / "sums"
    before = {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    nel("eval", "run", config, "-o", "results")
    assert {path: path.read_bytes() for path in before} == before


def test_an_unfinished_run_is_continued_or_set_aside_on_purpose(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    pace = [30.0]
    server = serve(lambda seen: Say("6", delay=pace[0] if seen.index >= 4 else 0))
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(8))],
        output={"dir": "o"},
    )
    process = nel.start("eval", "run", config)
    journal = nel.folder / "o" / "sums" / "journal.jsonl"
    _until(lambda: journal.is_file() and journal.read_bytes().count(b'"kind":"outcome"') == 4)
    process.kill()
    process.communicate()
    pace[0] = 0.0
    refused = nel("eval", "run", config, code=1).stderr
    assert "holds an unfinished run with 4 answers" in refused
    lines = [
        shlex.split(line, comments=True) for line in refused.splitlines() if "nel eval run" in line
    ]
    assert [line[-1] for line in lines] == ["--resume", "--fresh"]
    nel(*lines[1][1:])
    assert list((nel.folder / "o" / "sums" / "previous").glob("*/journal.jsonl"))
    assert len(rows(nel.folder / "o" / "sums")) == 8


def test_a_moved_run_is_read_and_resumed_and_its_config_runs_where_it_stands(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve("6")
    project = nel.folder / "project"
    project.mkdir()
    nel.folder = project
    (project / "c.yaml").write_text(
        json.dumps(
            {
                "services": {"model": api(server.url)},
                "benchmarks": [bench("sums.py")],
                "output": {"dir": "o"},
            }
        )
    )
    sums(3)
    shutil.move(project.parent / "sums.py", project / "sums.py")
    nel("eval", "run", "c.yaml")
    moved = project.parent / "moved"
    project.rename(moved)
    nel.folder = moved.parent
    assert str(moved / "o") in nel("eval", "status", "-o", "moved/o").stdout
    assert "3 reused" in nel("eval", "resume", "-o", "moved/o").stderr
    assert server.count == 3
    line = (moved / "o" / "full_config.yaml").read_text().splitlines()[0]
    nel.folder = moved / "o"
    nel(*shlex.split(line.partition("Run it again with: ")[2])[1:])
    assert server.count == 6
    assert len(list((moved / "o" / "sums").glob("eval-*.json"))) == 1
    assert not (moved / "o" / "o").exists()
    assert str(project) not in (moved / "o" / "checkpoint.json").read_text()


def test_a_resume_in_the_background_runs_and_is_one_run(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    nel.env["XDG_DATA_HOME"] = str(nel.folder / "data")
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(3))],
        output={"dir": "o"},
    )
    started = nel("eval", "run", config, "--background").stdout
    run_id = re.search(r"run (\S+)", started)[1]  # type: ignore[index]
    bundle = nel.folder / "o" / "sums"
    _until(
        lambda: list(bundle.glob("eval-*.json")) and not (nel.folder / "o" / "nel.lock").exists()
    )
    assert [run["run_id"] for run in json.loads(nel("eval", "runs", "--json").stdout)] == [run_id]
    shutil.rmtree(bundle)
    (nel.folder / "elsewhere").mkdir()
    nel.folder = nel.folder / "elsewhere"
    nel("eval", "resume", "--background", "-o", "../o")
    _until(lambda: list(bundle.glob("eval-*.json")) and not (bundle.parent / "nel.lock").exists())
    assert server.count == 6
    assert [run["run_id"] for run in json.loads(nel("eval", "runs", "--json").stdout)] == [run_id]


@pytest.mark.parametrize("judged", [False, True])
def test_after_an_interrupt_nothing_new_is_sent(
    nel: Nel, serve: Serve, sums: Sums, judged: bool
) -> None:
    """Half of the answers fail and would be tried again; with a judge, answers would be judged."""
    server = serve(
        lambda seen: Say("6", delay=1.5) if judged or seen.index % 2 else Say(status=500, delay=1.5)
    )
    judge = serve('{"grade": "CORRECT"}')
    one = bench(sums(200), max_concurrent=8)
    if judged:
        one["scoring"] = {
            "metrics": [{"type": "judge", "name": "j", "service": "judge", "canaries": False}]
        }
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url), "judge": api(judge.url)},
        benchmarks=[one],
        output={"dir": "o"},
    )
    process = nel.start("eval", "run", config)
    _until(lambda: server.count >= 8)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    err = ""
    while "nothing new is sent" not in err:
        line = process.stderr.readline()
        assert line, err
        err += line
    time.sleep(0.2)
    sent = server.count
    err += process.communicate(timeout=40)[1]
    assert process.returncode == 130, err
    assert (server.count, judge.count) == (sent, 0)


def test_run_ids_are_unique() -> None:
    assert len({new_run_id() for _ in range(1000)}) == 1000


# In a mount namespace of its own, so that the small disk is gone with the test, however it ends.
FULL_DISK = """
mount -t tmpfs -o size=160k tmpfs disk || exit 77
$NEL eval run c.yaml
echo "exit $?"
mount -o remount,size=50m disk
$NEL eval run c.yaml --resume || exit 1
cp -r disk/o kept
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="mounts a small disk: needs root"
)
def test_a_full_disk_is_said_and_nothing_is_lost(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    (nel.folder / "disk").mkdir()
    one = bench(sums(400), max_concurrent=8)
    nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[one], output={"dir": "disk/o"}
    )
    words = ["unshare", "-m", "sh", "-c", FULL_DISK]
    done = subprocess.run(
        words, cwd=nel.folder, env=nel.env | {"NEL": NEL}, capture_output=True, text=True
    )
    if done.returncode in (1, 77) and "exit" not in done.stdout:
        pytest.skip(f"this container may not mount (CAP_SYS_ADMIN): {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "exit 2" in done.stdout
    assert "No space left on device" in done.stderr
    assert "run the same command with --resume" in done.stderr
    assert len(rows(nel.folder / "kept" / "sums")) == 400
    # Asked twice is only what was under way when the disk was full.
    assert server.count <= 400 + 2 * 8


def test_a_folder_that_cannot_be_written_is_an_error_with_a_fix(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    config = nel.config(
        "c.yaml", services={"model": api(serve("6").url)}, benchmarks=[bench(sums(2))]
    )
    refused = nel("eval", "run", config, "-o", "/proc/nel", code=2).stderr
    assert "/proc/nel" in refused
    assert "-o DIR" in refused or "check the disk" in refused


def test_too_few_files_is_an_error_with_a_fix(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say("6", delay=0.3))
    one = bench(sums(300), max_concurrent=200)
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[one], output={"dir": "o"}
    )
    words = f"ulimit -n 30; exec {shlex.join([NEL, 'eval', 'run', config])}"
    done = subprocess.run(
        ["bash", "-c", words], cwd=nel.folder, env=nel.env, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 2, done.stderr
    assert "ulimit -n" in done.stderr
    nel("eval", "run", config, "--resume")
    assert len(rows(nel.folder / "o" / "sums")) == 300
