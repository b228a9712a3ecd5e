"""Rows that are too long or nested too deep to be shown: a placeholder stands in their place and says why."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.page_rows import RowMatch, search, table_page
from nemo_evaluator.view.row_download import download
from nemo_evaluator.view.row_page import row_page
from nemo_evaluator.view.row_query import RowQuery

_LEVELS = 100_000
_LONG = 80_000_000 if os.environ.get("NEL_TEST_ALL") else 8_000_000


def row(number: int, **fields: Any) -> dict[str, Any]:
    known = {
        "problem_idx": number,
        "repeat": 0,
        "status": "scored",
        "reward": 1.0,
        "prompt": "q",
        "model_response": "a",
    }
    return (
        known | {"finish_reason": "stop", "tokens": 1, "latency_ms": 1.0, "metadata": {}} | fields
    )


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkFolder:
    """Good rows around a long one, one of 100,000 levels, one of 900 levels, and one that is no JSON."""
    task = TaskPaths(tmp_path_factory.mktemp("rows") / "out" / "b")
    task.root.mkdir(parents=True)
    whole = json.dumps(row(2))
    lines = [
        json.dumps(row(0)),
        json.dumps(row(1, model_response="x" * _LONG)),
        f'{whole[:-1]}, "deep": {nested(_LEVELS)}}}',
        json.dumps(row(3)).replace('"metadata": {}', f'"metadata": {{"deep": {nested(900)}}}'),
        json.dumps(row(4))[:-10],
        json.dumps(row(5)),
    ]
    task.results.write_text("".join(f"{line}\n" for line in lines))
    return BenchmarkFolder(task.root)


def test_a_row_that_cannot_be_read_is_listed_with_the_reason(folder: BenchmarkFolder) -> None:
    page = table_page(folder, RowQuery(), 0, 50)
    assert page.total == 6
    listed = {line.problem_idx: line for line in page.rows}
    assert sorted(listed) == [0, 1, 2, 3, 4, 5]
    assert listed[1].prompt == f"(long row, {_LONG / 2**20:.1f} MB)"
    assert (listed[2].cause, listed[2].reward) == ("unreadable", None)
    assert "bytes that cannot be read: it is nested too deep" in listed[2].answer
    assert "it is not JSON" in listed[4].answer
    assert (folder.progress().scored, folder.progress().failed) == (4, 2)


@pytest.mark.parametrize("number", range(6))
def test_every_row_has_a_page(folder: BenchmarkFolder, number: int) -> None:
    page = row_page(folder, number, 0)
    assert page.facts["bytes"] > 0
    assert (page.facts["status"] == "failed") is (number in (2, 4))
    if number in (2, 4):
        assert "cannot be read" in page.facts["error"]
    if number == 1:
        assert page.cut == {"row/model_response": _LONG}


def test_they_are_exported_and_searched_as_placeholders(folder: BenchmarkFolder) -> None:
    lines = b"".join(download(folder, RowQuery(RowFilter(status="failed")), "jsonl")).splitlines()
    assert [json.loads(line)["failure"]["cause"] for line in lines] == ["unreadable", "unreadable"]
    assert len(b"".join(download(folder, RowQuery(), "csv")).splitlines()) == 7
    query = RowQuery(text="a", metadata=(("deep", "["),))
    matches = [result for result in search(folder, query) if isinstance(result, RowMatch)]
    assert [match.indexed_row.key for match in matches] == [(3, 0)]
