"""``nel eval runs``: models, scores, coverage, age and state of many runs, at a glance and at once."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.executors.slurm_jobs.submission import SlurmHandle
from nemo_evaluator.store.run_registry import load_run
from nemo_evaluator.testing import Say


@pytest.fixture
def listed(nel: Nel, serve: Serve, sums: Sums) -> Nel:
    """A finished run of two benchmarks, one of them INVALID."""
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data")}
    server = serve("4")
    broken = nel.folder / "broken.py"
    broken.write_text(
        (nel.folder / sums(3))
        .read_text()
        .replace('"sums"', '"broken"')
        .replace("exact_match(s", "1 / (s")
    )
    services = {"model": api(server.url, model="organisation/a-model-with-a-long-name-of-its-own")}
    config = nel.config(
        "c.yaml", services=services, benchmarks=[bench("sums.py"), bench("broken.py")]
    )
    nel("eval", "run", config, "-o", "out", code=3)
    return nel


def test_a_line_per_benchmark(listed: Nel) -> None:
    run = load_run(listed.folder / "out")
    assert run is not None
    head, first, second = listed("eval", "runs").stdout.splitlines()
    assert head.split() == [
        "RUN",
        "STATE",
        "AGE",
        "BENCHMARK",
        "MODEL",
        "SCORE",
        "COVERAGE",
        "OUTPUT_DIR",
    ]
    assert first.split()[:2] == [run.run_id, "VALID"]
    assert first.split()[3:] == [
        "sums",
        "organisation/a-model-with-a-long-name-of-its-own",
        "0.3333",
        "100.0%",
        run.output_dir,
    ]
    assert second.split()[0] == "INVALID" and second.split()[-2:] == ["-", "0.0%"]
    (told,) = json.loads(listed("eval", "runs", "--json").stdout)
    assert told["state"] == "finished" and told["age_seconds"] < 600
    assert [(one["name"], one["verdict"], one["coverage"]) for one in told["benchmarks"]] == [
        ("sums", "VALID", 1.0),
        ("broken", "INVALID", 0.0),
    ]
    assert told["benchmarks"][0]["metric"] == "pass@1"


def test_80_columns(listed: Nel) -> None:
    listed.env["COLUMNS"] = "80"
    lines = listed("eval", "runs").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    start = lines[1].split()[0]
    assert len(start) == 15
    assert "0.3333" in lines[1] and "100.0%" in lines[1]
    assert "sums" in listed("eval", "status", start).stdout


def test_a_run_that_goes_on_and_one_whose_folder_is_used_again(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data")}
    server = serve(Say("4", delay=0.1), answers=None)
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(2))])
    nel("eval", "run", config, "-o", "out")
    slow = serve(Say("4", delay=30))
    process = nel.start(
        "eval", "run", config, "-o", "out", "-O", f"services.model.url={slow.url}/chat/completions"
    )
    try:
        deadline = time.monotonic() + 180
        while not slow.count and time.monotonic() < deadline:
            time.sleep(0.05)
        now, before = json.loads(nel("eval", "runs", "--json").stdout)
        assert (now["state"], [one["score"] for one in now["benchmarks"]]) == ("running", [None])
        assert now["benchmarks"][0]["model"] == "m"
        assert before["benchmarks"] == [], (
            "the folder holds a later run: its score is not this one's"
        )
    finally:
        process.kill()
        process.communicate()


def test_a_cluster_that_cannot_be_reached_hides_no_other_run(listed: Nel) -> None:
    tools, calls = listed.folder / "bin", listed.folder / "calls"
    tools.mkdir()
    (tools / "ssh").write_text(
        f"#!/bin/sh\necho called >>{calls}\necho 'no route to login' >&2\nexit 255\n"
    )
    (tools / "ssh").chmod(0o755)
    listed.env["PATH"] = f"{tools}:{listed.env['PATH']}"
    run = load_run(listed.folder / "out")
    assert run is not None
    handle = asdict(SlurmHandle("1", ["1"], "login", "me", "/far/out", False, 0))
    registry = Path(listed.env["XDG_DATA_HOME"], "nel", "runs")
    for name in ("20990101_000000_00000000", "20990101_000001_00000000"):
        far = {
            **asdict(run),
            "run_id": name,
            "executor": "slurm",
            "output_dir": f"/far/{name}",
            "details": handle,
        }
        (registry / name).mkdir()
        (registry / name / "nel_run.json").write_text(json.dumps(far))
    done = listed("eval", "runs", "--json")
    assert [one["state"] for one in json.loads(done.stdout)] == ["unknown", "unknown", "finished"]
    assert (
        done.stderr.count("cannot reach me@login: no route to login")
        == 1
        == calls.read_text().count("called")
    )
    kept = listed("eval", "clean", "--all", "--yes")
    assert f"{name} stays on the list: cannot reach me@login" in kept.stderr
    assert len(json.loads(listed("eval", "runs", "--offline", "--json").stdout)) == 2


@pytest.mark.serial
def test_200_runs_are_listed_within_a_second(listed: Nel) -> None:
    whole = listed.folder / "out"
    run = load_run(whole)
    assert run is not None
    registry = Path(listed.env["XDG_DATA_HOME"], "nel", "runs")
    for number in range(200):
        name = f"20260101_{number:06d}_00000000"
        folder = listed.folder / "many" / name
        shutil.copytree(whole, folder)
        text = json.dumps({**asdict(run), "run_id": name, "output_dir": str(folder)})
        (folder / "nel_run.json").write_text(text)
        (registry / name).mkdir()
        (registry / name / "nel_run.json").write_text(text)

    def took(*words: str) -> float:
        started = time.perf_counter()
        assert len(listed(*words).stdout) > 0
        return time.perf_counter() - started

    took("eval", "runs")
    # Against the start of the command itself, which is what a busy machine slows down as well.
    assert min(took("eval", "runs") for _ in range(3)) < max(
        1.0, 4 * min(took("eval", "runs", "--help") for _ in range(3))
    )
    assert listed("eval", "runs").stdout.count("20260101_") >= 200
