"""A setting that stops the first problem is reported at its own path."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.config import load_config
from nemo_evaluator.preflight import find_problems

BENCH = """
from nemo_evaluator import benchmark, scorer
from nemo_evaluator.scoring import exact_match

@benchmark(name="toy", dataset=lambda: [{"q": "1+1", "a": "2"}], prompt="{q}", target_field="a")
@scorer
def toy(sample):
    return exact_match(sample)
"""


@pytest.mark.parametrize("only", ["3", "deadbeef"])
def test_a_problem_that_is_not_there_is_reported_at_only(tmp_path: Path, only: str) -> None:
    bench = tmp_path / "bench.py"
    bench.write_text(BENCH)
    path = tmp_path / "config.yaml"
    entry = f"{{name: '{bench}:toy', solver: {{type: oracle}}, only: [{only}]}}"
    path.write_text(f"services: {{}}\nbenchmarks: [{entry}]\n")
    problems = find_problems(load_config(path))
    assert [problem.path for problem in problems] == ["benchmarks[0].only"]
