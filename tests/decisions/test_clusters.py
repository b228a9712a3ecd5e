"""Comparisons, gates, plans and stop rules over clusters of problems."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.decisions import check_path, compare_runs, gate_runs
from nemo_evaluator.decisions.compare.verdict import Verdict
from nemo_evaluator.decisions.gate.report import GateVerdict
from nemo_evaluator.decisions.power.plan import plan_from_runs
from nemo_evaluator.decisions.power.question import PowerQuestion
from nemo_evaluator.decisions.stop_rule import build_stop_rule
from nemo_evaluator.environments.clusters import Independent


def clustered(make_rows: Any, rewards: list[float], size: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = make_rows(rewards)
    for row in rows:
        row["cluster"] = f"passage {row['problem_idx'] // size}"
    return rows


def sides(clusters: int, size: int, lost: int) -> tuple[list[float], list[float]]:
    """A baseline that is always right, and a candidate that loses whole clusters."""
    before = [1.0] * (clusters * size)
    after = [0.0] * (lost * size) + [1.0] * ((clusters - lost) * size)
    return before, after


def write_pair(
    write_run: Any, make_rows: Any, *, clusters: int, size: int, lost: int, known: bool = True
) -> tuple[Path, Path]:
    before, after = sides(clusters, size, lost)
    if not known:
        return write_run("a/toy", before), write_run("b/toy", after)
    baseline = write_run("a/toy", rows=clustered(make_rows, before, size))
    return baseline, write_run("b/toy", rows=clustered(make_rows, after, size))


def test_whole_clusters_that_are_lost_prove_less(write_run: Any, make_rows: Any) -> None:
    pair = write_pair(write_run, make_rows, clusters=40, size=10, lost=2)
    comparison = compare_runs(*pair, max_drop=0.01)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.difference.method == "cluster_flips"
    assert comparison.difference.n == 400
    assert comparison.pairing.to_dict()["clusters"] == 40
    assert comparison.test.method == "cluster_permutation"
    assert comparison.test_reason == "problems belong to clusters"
    assert comparison.test.p_value == pytest.approx(0.25)
    assert comparison.test.effect == pytest.approx(-0.05)


def test_the_same_rows_without_clusters_are_a_certain_drop(write_run: Any, make_rows: Any) -> None:
    pair = write_pair(write_run, make_rows, clusters=40, size=10, lost=2, known=False)
    comparison = compare_runs(*pair, max_drop=0.01)
    assert comparison.verdict is Verdict.BLOCK
    assert "clusters" not in comparison.pairing.to_dict()


def test_too_few_clusters_decide_nothing(write_run: Any, make_rows: Any, tmp_path: Path) -> None:
    pair = write_pair(write_run, make_rows, clusters=19, size=50, lost=0)
    comparison = compare_runs(*pair, max_drop=0.3)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.reasons[0] == (
        "950 problems in 19 clusters: nel decides on 20 clusters or more"
    )
    gate = gate_runs(
        tmp_path / "a", tmp_path / "b", GatePolicy.model_validate({"defaults": {"max_drop": 0.3}})
    )
    assert gate.verdict is GateVerdict.INCONCLUSIVE
    assert "19 clusters" in gate.benchmarks[0].reasons[0]


def test_a_gate_counts_clusters(write_run: Any, make_rows: Any, tmp_path: Path) -> None:
    """Without a lost answer, 40 clusters rule out about nine points, as 40 problems do."""
    write_pair(write_run, make_rows, clusters=40, size=10, lost=0)
    verdicts = []
    for max_drop in (0.02, 0.2):
        policy = GatePolicy.model_validate({"defaults": {"max_drop": max_drop}})
        verdicts.append(gate_runs(tmp_path / "a", tmp_path / "b", policy).verdict)
    assert verdicts == [GateVerdict.INCONCLUSIVE, GateVerdict.GO]


def test_a_plan_needs_more_problems_in_clusters(write_run: Any, make_rows: Any) -> None:
    rng = np.random.default_rng(0)
    rewards = (rng.random(60) < 0.6).repeat(10).astype(float).tolist()
    rows = clustered(make_rows, rewards, 10)
    together = write_run("together", rows=rows)
    alone = write_run("alone", rewards)
    question = PowerQuestion(drop=0.05)
    (with_clusters,) = plan_from_runs(together, None, question)
    (without,) = plan_from_runs(alone, None, question)
    needed = with_clusters.lines[0].problems
    independent = without.lines[0].problems
    assert needed is not None and independent is not None
    assert needed == pytest.approx(10 * independent, rel=0.05)
    assert "60 clusters" in with_clusters.basis


def test_a_stop_rule_is_refused_for_clusters(tmp_path: Path) -> None:
    stop_when = SimpleNamespace(
        decided_against=None,
        interval_width=0.1,
        confidence=0.95,
        min_problems=30,
    )
    bench: Any = SimpleNamespace(key="reading", stop_when=stop_when, min_coverage=0.95)
    with pytest.raises(UsageError, match="stop_when needs independent problems"):
        build_stop_rule(bench, "reading", tmp_path, cluster="passage")
    independent = Independent("each question was written on its own")
    assert build_stop_rule(bench, "reading", tmp_path, cluster=independent) is not None


def on_passages(make_rows: Any, size: int) -> list[dict[str, Any]]:
    """Rows whose prompts have a passage that ``size`` problems share, and an instruction that all share."""
    instruction = "Read the passage and answer the question. " * 8
    rows: list[dict[str, Any]] = make_rows([1.0] * 100)
    for row in rows:
        passage = f"Passage {row['problem_idx'] // size}: " + "a long text " * 30
        row["prompt"] = f"{instruction}\n{passage}\nQuestion {row['problem_idx']}?"
    return rows


@pytest.mark.parametrize(("size", "noted"), [(5, True), (1, False)])
def test_the_check_notes_passages_that_problems_share(
    write_run: Any, make_rows: Any, size: int, noted: bool
) -> None:
    (report,) = check_path(write_run("run", rows=on_passages(make_rows, size)))
    messages = [finding.message for finding in report.findings if finding.check == "clusters"]
    assert bool(messages) is noted
    if noted:
        assert "20 texts, up to 5 problems each" in messages[0]


def test_the_check_is_silent_when_rows_name_their_clusters(write_run: Any, make_rows: Any) -> None:
    rows = on_passages(make_rows, 5)
    for row in rows:
        row["cluster"] = str(row["problem_idx"] // 5)
    (report,) = check_path(write_run("run", rows=rows))
    assert not [finding for finding in report.findings if finding.check == "clusters"]
