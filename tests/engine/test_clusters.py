"""Clusters of problems from the declaration to the rows, the bundle and the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import SeedResult, SolveResult, VerifyResult
from nemo_evaluator.engine.evaluation import evaluate
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.environments import EvalEnvironment, get_environment
from nemo_evaluator.environments.clusters import Independent, cluster_label
from nemo_evaluator.runs.row_table import read_table
from nemo_evaluator.suite.results import BenchmarkResult, SuiteResult
from nemo_evaluator.suite.summary import summary_text

FILE = """
from nemo_evaluator.environments.custom import benchmark, scorer, ScorerInput

def rows():
    passages = ["a long passage " * 20, "another passage " * 20]
    return [{"passage": passages[n // 30], "q": str(n), "target": "yes"} for n in range(60)]

@benchmark(name="reading", dataset=rows, prompt="{passage} {q}?", CLUSTER)
@scorer
def reading(sample: ScorerInput) -> dict:
    return {"correct": True}
"""


class Passages(EvalEnvironment):
    """Ten sums on each passage."""

    name = "passages"
    cluster = "passage"

    async def dataset_size(self) -> int:
        return 200

    async def seed(self, idx: int) -> SeedResult:
        category = "odd" if idx % 2 else "even"
        metadata = {"category": category, "passage": f"p{idx // 10}"}
        return SeedResult(f"How much is {idx} + {idx}?", str(2 * idx), metadata)

    async def verify(
        self, response: str, expected: str, sandbox: Any = None, **metadata: Any
    ) -> VerifyResult:
        details = {"method": "sums", "kind": metadata["category"]}
        return VerifyResult(float(response == expected), response, details)


class FirstPassagesRight:
    """Answers the problems of the first ten passages right."""

    async def solve(self, task: SeedResult) -> SolveResult:
        number = int(task.prompt.split()[-1].rstrip("?"))
        return SolveResult(response=str(2 * number) if number < 100 else "?")


async def run(environment: Any, folder: Path, **options: Any) -> Any:
    job = Evaluation(environment, FirstPassagesRight(), folder, **options)
    return await evaluate(job)


async def test_rows_and_every_interval_know_the_clusters(tmp_path: Path) -> None:
    finished = await run(Passages(), tmp_path / "clusters")
    alone = Passages()
    alone.cluster = Independent("for comparison")
    independent = await run(alone, tmp_path / "alone")
    bench = finished.bundle["benchmark"]
    assert bench["clusters"] == {"problems": 200, "clusters": 20, "largest": 10}
    assert bench["notes"][0].startswith("200 problems in 20 clusters of up to 10")
    assert "clusters" not in independent.bundle["benchmark"]

    def width(bundle: Any, group: str | None = None) -> float:
        part = bundle["benchmark"]
        entry = part["categories"][group] if group else part["scores"]["pass@1"]
        return float(entry["ci_upper"] - entry["ci_lower"])

    assert width(finished.bundle) > 2.5 * width(independent.bundle)
    assert width(finished.bundle, "odd") > 1.5 * width(independent.bundle, "odd")
    breakdown = bench["scores"]["breakdowns"]["kind"][0]
    assert breakdown["ci_method"] == "cluster_wilson"
    lines = (tmp_path / "clusters" / "results.jsonl").read_text().splitlines()
    assert {json.loads(line)["cluster"] for line in lines} == {f"p{n}" for n in range(20)}
    result = BenchmarkResult("toy", finished.bundle)
    shown = summary_text(SuiteResult([result]), tmp_path)
    assert "200 in 20" in shown
    assert "200 problems in 20 clusters" in shown


async def test_a_resumed_run_keeps_its_clusters(tmp_path: Path) -> None:
    await run(Passages(), tmp_path, max_problems=40)
    finished = await run(Passages(), tmp_path, resume=True)
    assert finished.bundle["benchmark"]["clusters"]["clusters"] == 20
    table = read_table(tmp_path / "results.jsonl")
    assert len(set(table.cluster.tolist())) == 20


async def test_a_cluster_that_the_user_names_later_reaches_finished_rows(tmp_path: Path) -> None:
    undeclared = Passages()
    undeclared.cluster = None
    first = await run(undeclared, tmp_path)
    assert "clusters" not in first.bundle["benchmark"]
    named = Passages()
    named.cluster = None
    named.cluster_by("passage")
    second = await run(named, tmp_path, resume=True)
    assert second.bundle["benchmark"]["clusters"]["clusters"] == 20


async def test_a_column_that_no_problem_has_is_refused(tmp_path: Path) -> None:
    environment = Passages()
    environment.cluster_by("pasage")
    with pytest.raises(UsageError, match="no column 'pasage'"):
        environment.add_cluster(0, await environment.seed(0))


def of_file(folder: Path, declaration: str, **params: Any) -> Any:
    path = folder / f"reading_{abs(hash((declaration, str(params))))}.py"
    path.write_text(FILE.replace("CLUSTER", declaration))
    return get_environment(f"{path}:reading", params=params)


async def test_a_benchmark_of_ones_own_declares_a_column_or_a_function(tmp_path: Path) -> None:
    column = of_file(tmp_path, 'cluster="passage"')
    function = of_file(tmp_path, 'cluster=lambda row: int(row["q"]) // 30')
    chosen = of_file(tmp_path, "", cluster="passage")
    plain = of_file(tmp_path, "")
    for environment in (column, function, chosen):
        labels = {(await environment.seed(n)).cluster for n in range(60)}
        assert len(labels) == 2
        assert max(map(len, labels)) <= 64
    assert (await plain.seed(0)).cluster == ""
    with pytest.raises(UsageError, match="no column 'pasage'") as caught:
        of_file(tmp_path, "", cluster="pasage")
    assert "passage" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"params\.cluster is not the name of a column"):
        of_file(tmp_path, "", cluster=["passage"])


def test_a_missing_value_is_a_cluster_of_its_own() -> None:
    assert cluster_label("passage", {"passage": None}) == ""
    assert cluster_label("number", {"number": 0}) == "0"
    assert cluster_label("passage", {"passage": "x" * 65}) != cluster_label(
        "passage", {"passage": "x" * 66}
    )
