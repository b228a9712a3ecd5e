"""Data that would score every answer 0 is refused before the first request."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import ScorerError, UsageError
from nemo_evaluator.core.types import ModelResponse, SeedResult, SolveResult
from nemo_evaluator.decisions import check_path
from nemo_evaluator.engine import run_evaluation
from nemo_evaluator.environments import (
    ScorerInput,
    benchmark,
    get_environment,
    registry,
)
from nemo_evaluator.scoring import exact_match

QUESTIONS = [{"q": f"q{i}", "answer": f"a{i}", "blank": ""} for i in range(30)]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = dict(registry._environments._targets)
    yield
    registry._environments._targets.clear()
    registry._environments._targets.update(before)


class Echo:
    """Answers every question with the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def solve(self, task: SeedResult) -> SolveResult:
        return SolveResult(self.text, ModelResponse(self.text))


def declare(function: Any = None, **keywords: Any) -> Any:
    """Register a benchmark; without a function, answers are compared with the target."""

    def plain() -> None: ...

    settings = {"name": "checked", "dataset": lambda: QUESTIONS, "prompt": "{q}", **keywords}
    return benchmark(**settings)(function or plain)


def refusal() -> UsageError:
    with pytest.raises(UsageError) as caught:
        get_environment("checked")
    return caught.value


def matches(sample: ScorerInput) -> dict[str, Any]:
    return exact_match(sample)


def is_short(sample: ScorerInput) -> dict[str, Any]:
    return {"correct": len(sample.response) < 3}


@pytest.mark.parametrize("function", [None, matches])
@pytest.mark.parametrize("value", ["", "  ", None, float("nan")])
def test_a_target_that_is_empty_in_every_row_is_refused(function: Any, value: Any) -> None:
    declare(function, dataset=lambda: [{**row, "answer": value} for row in QUESTIONS], target_field="answer")  # fmt: skip
    error = refusal()
    assert "'answer' (target_field) is empty in all 30 rows" in error.message
    assert error.hint == "set target_field to the column of the right answer"


def test_a_scorer_without_a_target_may_have_an_empty_one() -> None:
    declare(is_short, target_field="blank")
    assert not get_environment("checked").compares_target


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (float("nan"), ""), (42.0, "42"), (0.5, "0.5"), (7, "7"), (True, "True"), ("x", "x")],
)  # fmt: skip
async def test_the_text_of_a_target(value: Any, text: str) -> None:
    declare(dataset=lambda: [*QUESTIONS, {"q": "last", "answer": value}], target_field="answer")
    assert (await get_environment("checked").seed(30)).expected_answer == text


@pytest.mark.parametrize("value", [["a", "b"], {"text": "a"}])
async def test_a_target_that_no_text_equals_needs_a_scorer(value: Any) -> None:
    rows = [{"q": "q", "answer": value}]
    declare(dataset=lambda: rows, target_field="answer")
    error = refusal()
    assert f"holds a {type(value).__name__}, which no answer equals as text" in error.message
    declare(matches, dataset=lambda: rows, target_field="answer")
    assert (await get_environment("checked").seed(0)).expected_answer == str(value)


def test_a_misspelt_field_mapping_is_refused() -> None:
    declare(field_mapping={"anser": "target"})
    error = refusal()
    assert "field_mapping renames the column 'anser'" in error.message
    assert error.hint is not None and "did you mean 'answer'?" in error.hint


def test_a_prompt_of_empty_columns_is_refused_and_one_of_several_is_a_warning() -> None:
    declare(prompt="Do: {blank}", target_field="answer")
    assert "the prompt shows {blank}, which is empty in all 30 rows" in refusal().message
    declare(prompt="{blank} {q}", target_field="answer")
    (warning,) = get_environment("checked").warnings
    assert "the prompt shows {blank}" in warning


def wrong_get(sample: ScorerInput) -> dict[str, Any]:
    return {"correct": sample.response == sample.metadata.get("anwser")}


def wrong_item(sample: ScorerInput) -> dict[str, Any]:
    return {"correct": sample.response == sample.metadata["anwser"]}


def through_a_helper(sample: ScorerInput) -> dict[str, Any]:
    return wrong_item(sample)


@pytest.mark.parametrize("function", [wrong_get, wrong_item, through_a_helper])
def test_a_scorer_that_reads_a_missing_metadata_column_is_refused(function: Any) -> None:
    declare(function)
    error = refusal()
    assert "the scorer reads metadata['anwser']" in error.message
    assert error.hint is not None and "did you mean 'answer'?" in error.hint


def optional(sample: ScorerInput) -> dict[str, Any]:
    return {"correct": sample.metadata.get("bonus", 0) == 0 and bool(sample.metadata["benchmark"])}


def test_an_optional_metadata_column_may_be_missing() -> None:
    declare(optional)
    get_environment("checked")


@pytest.mark.parametrize("name", ["Answer", "ANSWER"])
def test_another_case_of_the_target_column_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"q": "1", name: "2"}) + "\n")
    declare(matches, dataset=str(path), target_field="answer")
    error = refusal()
    assert "no column 'answer' (target_field)" in error.message
    assert error.hint is not None and f"did you mean '{name}'?" in error.hint


def test_an_empty_column_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["q", "answer"], ["1", ""], ["2", ""]])
    declare(matches, dataset=str(path), target_field="answer")
    assert "is empty in all 2 rows" in refusal().message


@pytest.mark.parametrize(
    "returned",
    [{"length": 3, "corect": True}, {"length": 3, "rewards": 1}, {"f1": 12.0, "precision": 0.4}],
)
async def test_a_scorer_whose_reward_is_unclear_is_an_error(returned: Any) -> None:
    def unclear(sample: ScorerInput) -> Any:
        return returned

    declare(unclear)
    with pytest.raises(ScorerError, match="no 'correct' and no 'reward'"):
        await get_environment("checked").verify("a", "b")


@pytest.mark.parametrize(("empty", "status"), [(0, "VALID"), (1, "DEGRADED"), (29, "DEGRADED")])
async def test_some_empty_expected_answers_degrade_the_run(
    empty: int, status: str, tmp_path: Path
) -> None:
    rows = [{**row, "answer": None if i < empty else "a"} for i, row in enumerate(QUESTIONS)]
    declare(dataset=lambda: rows, target_field="answer")
    environment = get_environment("checked")
    await run_evaluation(environment, Echo("a"), step_log_dir=tmp_path)
    (check,) = check_path(tmp_path)
    assert check.status == status
    if empty:
        share = f"{empty / 30:.1%} of the expected answers are empty (limit 1%)"
        assert check.reasons == [share]


async def test_a_run_over_rows_without_any_expected_answer_is_invalid(tmp_path: Path) -> None:
    rows = [{**row, "answer": None if i < 10 else "a"} for i, row in enumerate(QUESTIONS)]
    declare(dataset=lambda: rows, target_field="answer")
    environment = get_environment("checked")
    await run_evaluation(environment, Echo("a"), problem_range=(0, 10), step_log_dir=tmp_path)
    (check,) = check_path(tmp_path)
    assert check.status == "INVALID"
    assert "all expected answers are empty, so no answer could be right" in check.reasons
