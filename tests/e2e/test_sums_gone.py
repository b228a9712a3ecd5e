"""A bundle that was edited after its checksums were deleted is INVALID, whoever reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.runs.find import find_runs

pytestmark = pytest.mark.needs("inspect")


@pytest.fixture
def run(nel: Nel, serve: Serve, sums: Sums) -> Path:
    services = {"model": api(serve("4").url)}
    nel(
        "eval",
        "run",
        nel.config("c.yaml", services=services, benchmarks=[bench(sums(6))]),
        "-o",
        "out",
    )
    return nel.folder / "out"


def _edit(run: Path, *, score: float | None = None) -> None:
    for sums_file in run.rglob("SHA256SUMS"):
        sums_file.unlink()
    (path,) = run.rglob("eval-*.json")
    document = json.loads(path.read_text())
    for name, entry in document["benchmark"]["scores"].items():
        if score is not None and name in ("pass@1", "mean_reward"):
            entry["value"] = score
    path.write_text(json.dumps(document))


def test_every_reader_gives_the_same_answer(nel: Nel, run: Path) -> None:
    _edit(run, score=0.99)
    assert [bundle.status for bundle in find_runs(run)] == ["INVALID"]
    assert json.loads(nel("check", "out", "--json", code=3).stdout)["status"] == "INVALID"
    assert "INVALID" in nel("report", "out", code=None).stdout
    assert (
        "INVALID"
        in nel("eval", "runs", "out", code=None).stdout + nel("harvest", "out", code=None).stdout
    )
    assert json.loads(nel("compare", "out", "out", "--json", code=None).stdout)["verdict"] != "PASS"
    policy = "benchmarks: {sums: {tier: critical, max_relative_drop: 0.5}}\n"
    (nel.folder / "policy.yaml").write_text(policy)
    gate = json.loads(nel("gate", "out", "out", "-p", "policy.yaml", "--json", code=None).stdout)
    assert gate["verdict"] != "GO"
    assert "INVALID" in nel("show", "out").stderr
    assert "INVALID" in nel("export", "out", "-d", "inspect", "--output-dir", "logs").stderr
    nel("view", "out", "--export", "page.html")
    assert "INVALID" in (nel.folder / "page.html").read_text()


def _edited_rows(run: Path) -> None:
    (path,) = run.rglob("results.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"reward": 1.0}) + "\n" for row in rows))


def _fewer_rows(run: Path) -> None:
    (path,) = run.rglob("results.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))


def _no_rows(run: Path) -> None:
    (path,) = run.rglob("results.jsonl")
    path.unlink()


@pytest.mark.parametrize("edit", [_edited_rows, _fewer_rows, _no_rows])
def test_edited_rows_are_invalid_too(nel: Nel, run: Path, edit: Callable[[Path], None]) -> None:
    _edit(run)
    edit(run)
    assert [bundle.status for bundle in find_runs(run)] == ["INVALID"]
    assert json.loads(nel("check", "out", "--json", code=3).stdout)["status"] == "INVALID"
    assert (
        "INVALID" in nel("export", "out", "-d", "inspect", "--output-dir", "logs", code=None).stderr
    )


def test_without_an_edit_the_run_stays_valid(nel: Nel, run: Path) -> None:
    before = [bundle.status for bundle in find_runs(run)]
    _edit(run)
    assert [bundle.status for bundle in find_runs(run)] == before
    assert before == ["VALID"]
