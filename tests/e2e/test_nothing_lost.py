"""Kill -9 at random moments, resume each time: the files end equal to those of an undisturbed run."""

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.testing import Say

PROBLEMS, REPEATS, KILLS, CONCURRENT = 2000, 2, 25, 64
TIMING = frozenset({"latency_ms", "queue_ms", "attempts"})


def _bundle(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("eval-*.json")
    bundle: dict[str, Any] = json.loads(path.read_text())
    for key in ("run_id", "timestamp"):
        bundle.pop(key)
    bundle["config"].pop("resumed", None)
    bundle["config_hash"] = None
    bundle["benchmark"]["scores"].pop("runtime")
    return bundle


@pytest.mark.slow
@pytest.mark.serial
def test_25_kills(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say("6", delay=0.05))
    calm = serve("6")
    one = bench(sums(PROBLEMS), repeats=REPEATS, max_concurrent=CONCURRENT)
    # Repeats must differ on the wire for the server to tell them apart: it sees each problem exactly twice.
    undisturbed = nel.config(
        "calm.yaml", services={"model": api(calm.url)}, benchmarks=[one], output={"dir": "calm"}
    )
    nel("eval", "run", undisturbed)
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[one], output={"dir": "out"}
    )
    rng = random.Random(7)
    kills = 0
    while kills < KILLS:
        before = server.count
        process = nel.start("eval", "run", config, "--resume")
        until = before + rng.randint(0, PROBLEMS * REPEATS // KILLS)
        while process.poll() is None and server.count < until:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            break
        kills += 1
    assert kills >= KILLS * 0.8, "the run ended before it could be killed often enough"
    nel("eval", "run", config, "--resume")
    assert rows(nel.folder / "out" / "sums", drop=TIMING) == rows(
        nel.folder / "calm" / "sums", drop=TIMING
    )
    assert _bundle(nel.folder / "out" / "sums") | {"config": 0} == _bundle(
        nel.folder / "calm" / "sums"
    ) | {"config": 0}
    # Only what was in flight at a kill may have been asked twice.
    assert server.count - PROBLEMS * REPEATS <= kills * CONCURRENT
    extra = {digest: count for digest, count in server.counts.items() if count > REPEATS}
    assert sum(count - REPEATS for count in extra.values()) == server.count - PROBLEMS * REPEATS
    answers = [
        json.loads(line)
        for line in (nel.folder / "out" / "sums" / "journal.jsonl").read_text().splitlines()
    ]
    keys = [
        (record["problem_idx"], record["repeat"])
        for record in answers
        if record["kind"] == "answer"
    ]
    assert len(keys) == len(set(keys)) == PROBLEMS * REPEATS, "an answered request was asked again"
