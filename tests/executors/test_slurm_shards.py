"""Shards on a real SLURM cluster: whoever dies and whatever waits, the run is merged, stopped and shown as it is."""

import json
from pathlib import Path

import pytest
from nel_support import Serve, api, nel, serve, sums
from slurm_support import POOL, Cluster, jobs_of, kill_script, on, squeue

from nemo_evaluator.testing import Say

__all__ = ["nel", "on", "serve", "sums"]
pytestmark = pytest.mark.needs("slurm")
LATER = {"main": POOL | {"sbatch_extra_flags": {"mem": "900M", "begin": "now+1hour"}}}
# Read by every Python program of the run: whoever merges waits while there is a file.
HELD = """
import os, sys, time
if sys.orig_argv[-3:-1] == ["eval", "merge"] and os.path.exists({held!r}):
    open({held!r} + ".seen", "w").close()
    while os.path.exists({held!r}):
        time.sleep(0.1)
"""


def hold_merge(on: Cluster) -> Path:
    """The file that keeps the run from being merged; beside it appears one that says that somebody waits."""
    held = on.nel.folder / "held"
    held.touch()
    (on.nel.folder / "hooks").mkdir()
    (on.nel.folder / "hooks" / "sitecustomize.py").write_text(HELD.format(held=str(held)))
    on.nel.env["PYTHONPATH"] = str(on.nel.folder / "hooks")
    return held


def test_a_job_that_is_killed_while_it_merges_is_followed_by_one_that_merges(
    on: Cluster, serve: Serve
) -> None:
    server, held = serve(lambda seen: Say("6")), hold_merge(on)
    on.nel("eval", "run", on.config(4, {"model": api(server.url)}, shards=2), "--submit")
    on.until(lambda state: Path(f"{held}.seen").exists())
    kill_script((on.nel.folder / "o" / ".merge_lock" / "owner").read_text().strip())
    held.unlink()
    status = on.over()
    assert (status["state"], status["exit_code"]) == ("finished", 0), on.log()
    assert [(one["name"], one["scored"]) for one in status["benchmarks"]] == [("sums", 4)]
    assert server.count == 4 and jobs_of(on) == []
    assert not (on.nel.folder / "o" / ".secrets.env").exists()


def test_a_shard_that_waits_is_stopped_alone(on: Cluster, serve: Serve) -> None:
    server = serve(lambda seen: Say("6"))
    on.nel(
        "eval",
        "run",
        on.config(4, {"model": api(server.url)}, shards=2, node_pools=LATER),
        "--submit",
    )
    run = on.status()["run_id"]
    stopped = json.loads(on.nel("eval", "stop", run, "--shard", "1", "--json").stdout)
    assert stopped["state"] == "stopped" and stopped["output_dir"].endswith("shard_1")
    status = on.status()
    assert status["state"] == "pending" and "1 of 2 shards done" in status["where"]
    assert (
        squeue("-r", "-t", "pending", "-o", "%Z %K").splitlines().count(f"{on.nel.folder / 'o'} 0")
        == 1
    )
    assert "is not running" in on.nel("eval", "stop", run, "--shard", "1", code=1).stderr
    on.nel("eval", "stop", run)
    assert on.status()["state"] == "stopped" and jobs_of(on) == []


def test_a_new_run_shows_no_score_of_the_old_one_and_merges_none_of_its_shards(
    on: Cluster, serve: Serve
) -> None:
    answer = ["6"]
    server = serve(lambda seen: Say(answer[0]))
    services = {"model": api(server.url)}
    on.nel("eval", "run", on.config(4, services, shards=3), timeout=240)
    old = on.status()["benchmarks"][0]["mean_reward"]
    assert old > 0
    own = next((on.nel.folder / "o").glob("*/results.jsonl")).with_name("notes.txt")
    own.write_text("mine")
    answer[0] = "none"
    on.nel("eval", "run", on.config(4, services, shards=2, node_pools=LATER), "--fresh", "--submit")
    assert [(one["scored"], one["mean_reward"]) for one in on.status()["benchmarks"]] == [
        (0, None)
    ] * 2
    on.nel("eval", "stop", "-o", "o")
    on.nel("eval", "run", on.config(4, services, shards=2), "--fresh", timeout=240)
    (one,) = on.status()["benchmarks"]
    assert (one["scored"], one["mean_reward"]) == (4, 0.0)
    # Nothing is lost.
    kept = [
        json.loads(line)["reward"]
        for path in (on.nel.folder / "o").rglob("previous/*/results.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sum(kept) > 0 and own.read_text() == "mine"
