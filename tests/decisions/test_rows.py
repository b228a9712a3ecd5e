"""RowTable of any writer: what is odd in them is tidied or counted, never a crash and never a measurement."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.decisions import compare_results, compare_runs
from nemo_evaluator.runs.row_table import read_table, table_of


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": [{"role": "user", "content": "x"}]},
        {"model_response": 5},
        {"model_response": ["x"]},
        {"finish_reason": ["stop"]},
        {"tokens": "many", "completion_tokens": [1], "latency_ms": "x", "cost_usd": {}},
        {"latency_ms": 10**400},
        {"problem_idx": 3.0, "repeat": None},
        {"metadata": "x", "scoring_details": [], "scorer_rewards": [1]},
        {"expected_answer": {"a": [1]}},
        {"problem_hash": 7},
    ],
)
def test_an_odd_field_costs_nothing_else(change: dict[str, Any], make_rows: Any) -> None:
    rows = make_rows([1.0] * 6)
    rows[3] |= change
    found = table_of(rows)
    assert (len(found), found.malformed) == (6, 0)
    assert found.reward.tolist() == [1.0] * 6
    assert found.problem.tolist() == list(range(6))


@pytest.mark.parametrize("index", ["q3", None, True, 2**40, 1.5, [3]])
def test_a_row_that_names_no_problem_is_counted(index: Any, make_rows: Any) -> None:
    rows = make_rows([1.0] * 6)
    rows[3]["problem_idx"] = index
    found = table_of(rows)
    assert (len(found), found.malformed) == (5, 1)


@pytest.mark.parametrize("reward", [math.inf, -math.inf, math.nan, "1", None, [1]])
def test_what_is_no_number_is_no_measurement(reward: Any, make_rows: Any) -> None:
    rows = make_rows([1.0] * 6)
    rows[3]["reward"] = reward
    assert table_of(rows).scored.tolist() == [True, True, True, False, True, True]


def test_rows_out_of_order_and_rewritten_keep_their_texts(make_rows: Any, tmp_path: Path) -> None:
    """In memory as in a file, a flip shows the answers of its own problem, whatever came before it."""
    base = make_rows([1.0] * 4)
    for row in base:
        row["model_response"] = f"base {row['problem_idx']}"
    shuffled: list[Any] = [
        {"torn": 1},
        base[2] | {"model_response": "an earlier try"},
        *reversed(base),
    ]
    candidate = make_rows([1.0, 1.0, 0.0, 1.0])
    report = compare_results(shuffled, candidate)
    assert report.flips is not None
    assert [(flip.problem_idx, flip.baseline_response) for flip in report.flips.regressions] == [
        (2, "base 2")
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in shuffled))
    rows = read_table(path)
    assert [rows.full(at)["model_response"] for at in range(4)] == [f"base {at}" for at in range(4)]
    assert (rows.malformed, rows.repeated) == (1, 1)


def test_the_category_may_stand_in_the_details(make_rows: Any) -> None:
    rows = make_rows([1.0] * 20, scoring_details={"category": "old"})
    assert set(compare_results(rows, rows).category_deltas) == {"old"}


def test_tokens_are_counted_alike_on_both_sides(make_rows: Any) -> None:
    new = make_rows([1.0] * 20)
    old = [
        {key: row[key] for key in ("problem_idx", "reward", "tokens", "problem_hash")}
        for row in new
    ]
    (shift,) = [
        shift for shift in compare_results(old, new).shifts if shift.name.startswith("tokens")
    ]
    assert (shift.name, shift.baseline, shift.candidate) == ("tokens_per_exchange", 30.0, 30.0)
    (shift,) = [
        shift for shift in compare_results(new, new).shifts if shift.name.startswith("tokens")
    ]
    assert (shift.name, shift.baseline) == ("tokens_per_answer", 20.0)


def test_a_file_that_was_cut_never_passes(write_run: Any) -> None:
    """The bundle still says that everything was scored."""
    base, cut = write_run("a", [1.0] * 500), write_run("b", [1.0] * 500)
    path = cut / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:300]))
    report = compare_runs(base, cut)
    assert report.verdict == "INCONCLUSIVE"
    assert report.reasons[0] == "the candidate has scored 60.0% of its 500 rows, the minimum is 95%"
