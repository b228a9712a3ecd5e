"""A server that limits, fails, resets and stalls: everything is answered, little is wasted, no wait is unbounded."""

import json

import pytest
from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.testing import Say, Weather

PROBLEMS = 5000


@pytest.mark.slow
@pytest.mark.serial
def test_a_storm_is_weathered(nel: Nel, serve: Serve, sums: Sums) -> None:
    storm = Weather(rate_limit=200, p500=0.02, preset=0.01, pstall=0.01, seed=3)
    server = serve(Say("6", delay=0.02), weather=storm, record=0)
    service = api(server.url, timeouts={"connect": 5, "first_byte": 2, "idle": 2, "total": 10})
    one = bench(sums(PROBLEMS), max_concurrent=64)
    config = nel.config("c.yaml", services={"model": service}, benchmarks=[one])
    nel("eval", "run", config, timeout=180)
    found = rows(nel.folder / "eval_results" / "sums")
    assert {row["status"] for row in found} == {"scored"}
    assert len(found) == PROBLEMS
    wasted = server.count - PROBLEMS
    assert wasted <= 0.15 * PROBLEMS, f"{wasted} requests were wasted"
    (bundle,) = (nel.folder / "eval_results" / "sums").glob("eval-*.json")
    assert json.loads(bundle.read_text())["benchmark"]["coverage"]["share"] == 1.0
