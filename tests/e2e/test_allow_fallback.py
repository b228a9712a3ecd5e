"""A benchmark that needs a judge, from the command line: refused, or named a fallback wherever its score is shown."""

from __future__ import annotations

import json

from nel_support import Nel, Serve, api

FILE = """
from nemo_evaluator.environments.custom import ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import exact_match

@benchmark(name="stand_in", dataset=lambda: [{"q": str(n), "target": "x"} for n in range(30)], prompt="{q}")
@scorer
def stand_in(sample: ScorerInput):
    return {**exact_match(sample), "needs_judge": True, "fallback": "exact match"}
"""


def test_without_a_judge_nothing_is_asked_unless_a_fallback_is_allowed(
    nel: Nel, serve: Serve
) -> None:
    server = serve("x")
    (nel.folder / "own.py").write_text(FILE)
    quick = ("eval", "run", "--bench", "own.py", "--model-url", server.url, "--model-id", "m")
    refused = nel(*quick, "-o", "out", code=1)
    assert "scored by a judge" in refused.stdout + refused.stderr
    assert "--allow-fallback" in refused.stdout + refused.stderr
    assert server.count == 0
    said = nel(*quick, "--allow-fallback", "-n", "2", "-o", "out").stdout
    assert "pass@1 (fallback)" in said
    assert "no judge: 60 of 60 rows scored by a fallback (exact match)" in said
    assert "at temperature 0, 2 repeats" in said
    assert "pass@1 (fallback)" in nel("report", "out").stdout
    # The config that was kept says it too, so that resuming needs no flag.
    asked = server.count
    nel("eval", "run", "out/full_config.yaml", "--resume", "-o", "out")
    assert server.count == asked
    compared = nel("compare", "out", "out", "--no-strict", "--no-report", "--json").stdout
    warnings = json.loads(compared)["warnings"]
    assert any(line.startswith("the candidate: no judge") for line in warnings)


def test_a_built_in_is_refused_with_the_rest_of_what_is_wrong(nel: Nel, serve: Serve) -> None:
    server = serve("x")
    solver = {"type": "simple", "service": "model"}
    benchmarks = [{"name": "quickstart", "solver": solver}, {"name": "simpleqa", "solver": solver}]
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=benchmarks, output={"dir": "out"}
    )
    for words in (("eval", "run", config), ("config", "check", config)):
        refused = nel(*words, code=1)
        assert "benchmarks[1].scoring" in refused.stdout + refused.stderr
        assert "--allow-fallback" in refused.stdout + refused.stderr
    assert server.count == 0
    allowed = ("-O", "benchmarks.1.scoring.allow_fallback=true", "--file-only")
    assert "simpleqa" in nel("config", "check", config, *allowed).stdout
