"""Runs on a real Ray cluster: one queue, one journal, the results of a local run, and nothing lost with a worker."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from executor_bench import Bench
from nel_support import Nel, rows

from nemo_evaluator.core.processes import descendants, start_time
from nemo_evaluator.executors.status import read_status
from nemo_evaluator.runs.bundle import newest_bundle

pytestmark = [pytest.mark.needs("ray"), pytest.mark.serial]
on_ray = pytest.mark.parametrize("on", ["ray"], indirect=True)
# Times, and what was measured of them.
OWN = {"latency_ms", "timing", "time_to_first_token_ms", "queue_ms", "total_ms", "timestamp", "at"}


def workers(nel: int) -> list[int]:
    """The processes of the cluster's workers."""
    return [pid for pid in descendants(nel) if b"StepWorker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def outcomes(folder: Path) -> Counter[int]:
    records = map(json.loads, (folder / "journal.jsonl").read_bytes().splitlines())
    return Counter(one["problem_idx"] for one in records if one["kind"] == "outcome")


def facts(folder: Path) -> Any:
    bundle = newest_bundle(folder)
    assert bundle is not None
    return (
        bundle.document["benchmark"]["scores"]["pass@1"],
        bundle.document["validity"],
        bundle.document["config"]["fingerprints"],
    )


@on_ray
def test_a_killed_worker_loses_nothing_and_the_results_are_those_of_a_local_run(on: Bench) -> None:
    on.pace = 0.05
    nel = Nel(on.folder)
    run = nel.start("eval", "run", on.config(400))
    on.until(lambda: (on.folder / "o" / "sums" / "journal.jsonl").exists() and on.server.count > 60, 180)
    os.kill(workers(run.pid)[0], signal.SIGKILL)
    out, errors = run.communicate(timeout=240)
    assert run.returncode == 0, out + errors
    assert outcomes(on.folder / "o" / "sums") == Counter(range(400))
    assert 400 <= on.server.count <= 400 + 2 * 4 * 2
    on.pace = 0.0
    on.cluster = {"type": "local"}
    nel("eval", "run", on.config(400), "-o", "p")
    assert rows(on.folder / "o" / "sums", OWN) == rows(on.folder / "p" / "sums", OWN)
    assert facts(on.folder / "o" / "sums") == facts(on.folder / "p" / "sums")


@on_ray
def test_it_is_stopped_and_resumed_like_any_run_and_leaves_no_process(on: Bench) -> None:
    on.pace = 0.2
    nel = Nel(on.folder)
    nel("eval", "run", on.config(600), "--background")
    on.until(lambda: on.server.count > 20, 180)
    run = on.run()
    status = read_status(run)
    assert (status.state, status.executor, status.benchmarks[0].total) == ("running", "ray", 600)
    family = [run.details["pid"], *descendants(run.details["pid"])]
    nel("eval", "stop", run.run_id)
    assert read_status(run).state == "stopped" and on.rows() == on.server.count
    on.until(lambda: not any(map(start_time, family)))
    asked, on.pace = on.server.count, 0.0
    nel("eval", "resume", run.run_id, timeout=240)
    assert on.rows() == 600 and on.server.count == 600 and asked < 600
