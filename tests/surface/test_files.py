"""What a user keeps in files beside the config: benchmarks, solvers, scorers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, api

from nemo_evaluator.config.eval_config import declared_name
from nemo_evaluator.testing import ScriptedServer

BENCH = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer

@benchmark(name="my-bench", dataset=lambda: [{"q": "ok"}, {"q": "ok"}], prompt="{q}", target_field="q")
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""
SOLVER = """
from nemo_evaluator import SolveResult
from loudness import mark

class Shouter:
    def __init__(self, client, times: int = 1) -> None:
        self.client, self.times = client, times

    async def solve(self, task):
        reply = await self.client.chat(task.messages)
        return SolveResult(response=reply.content + mark * self.times, model_response=reply)
"""
METRIC = """
def loud(sample):
    return {"correct": sample.response.endswith("!")}
"""


@pytest.fixture
def nel(tmp_path: Path) -> Nel:
    return Nel(tmp_path)


def bundle_of(folder: Path) -> Any:
    (path,) = folder.glob("*/eval-*.json")
    return path, json.loads(path.read_text())


def test_a_benchmark_file_runs_under_its_own_name(nel: Nel, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BENCH)
    with ScriptedServer("ok") as server:
        for side in ("a", "b"):
            nel(
                "eval",
                "run",
                "--bench",
                "./mine.py",
                "--model-url",
                server.url,
                "--model-id",
                "m",
                "-o",
                side,
            )
    path, bundle = bundle_of(tmp_path / "a")
    assert (path.parent.name, bundle["benchmark"]["name"]) == ("my-bench", "my-bench")
    assert path.name.endswith("-my-bench.json")
    (tmp_path / "policy.yaml").write_text("version: 1\nbenchmarks: {my-bench: {tier: advisory}}\n")
    gated = json.loads(nel("gate", "a", "b", "-p", "policy.yaml", "--json", code=None).stdout)
    assert [(one["benchmark"], one["tier"]) for one in gated["benchmarks"]] == [
        ("my-bench", "advisory")
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (BENCH, "my-bench"),
        ('@nel.benchmark("by-place", "rows.jsonl")\ndef f(sample): ...', "by-place"),
        ('@register("an-environment")\nclass E: ...', "an-environment"),
        ('@benchmark(name="one")\ndef f(): ...\n@benchmark(name="mine")\ndef g(): ...', "mine"),
        ('@benchmark(name="one")\ndef f(): ...\n@benchmark(name="two")\ndef g(): ...', None),
        ("@benchmark(name=NAME)\ndef f(): ...", None),
        ("def f(:", None),
        ("", None),
    ],
)
def test_the_name_is_read_without_running_the_file(
    tmp_path: Path, text: str, name: str | None
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert declared_name(str(file)) == name


def test_a_solver_and_a_scorer_beside_the_config_are_found(nel: Nel, tmp_path: Path) -> None:
    work = tmp_path / "configs"
    work.mkdir()
    for name, text in (
        ("bench.py", BENCH),
        ("solver.py", SOLVER),
        ("metric.py", METRIC),
        ("loudness.py", "mark='!'"),
    ):
        (work / name).write_text(text)

    def config(class_path: str, url: str) -> str:
        entry = {
            "name": str(work / "bench.py"),
            "solver": {"type": "custom", "class_path": class_path, "service": "model"},
            "scoring": {
                "metrics": [{"type": "custom", "name": "loud", "class_path": "metric.py:loud"}]
            },
        }
        return nel.config(
            "configs/run.yaml",
            services={"model": api(url)},
            benchmarks=[entry],
            output={"dir": str(tmp_path / "out")},
        )

    with ScriptedServer("ok") as server:
        nel("eval", "run", config("solver.py:Shouter", server.url))
        _, bundle = bundle_of(tmp_path / "out")
        assert bundle["benchmark"]["scores"]["scorer:loud"]["value"] == 1.0
        nel("eval", "run", "configs/run.yaml", "--resume")
        assert server.count == 2
        # The text of the file is part of what answers.
        (work / "solver.py").write_text(SOLVER + "# edited\n")
        nel("eval", "run", "configs/run.yaml", "--resume")
        assert server.count == 4
        failed = nel("eval", "run", config("nowhere.py:Shouter", server.url), "-o", "other", code=2)
        assert "there is no file nowhere.py" in failed.stdout + failed.stderr
