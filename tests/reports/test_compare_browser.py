"""The page of a comparison in a real browser: plots are there, nothing is loaded or run, hostile text stays text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.reports.conftest import weak_contrasts

from nemo_evaluator.cli.compare import compare
from nemo_evaluator.cli.gate import gate

pytestmark = [pytest.mark.needs("chromium")]


def _write(folder: Path, name: str, lost: int, text: str, model: str) -> None:
    folder.mkdir(parents=True)
    rows = [
        {
            "problem_idx": at,
            "repeat": 0,
            "status": "scored",
            "reward": 0.0 if at < lost else 1.0,
            "prompt": text,
            "model_response": text,
            "expected_answer": text,
            "metadata": {"category": (text, "plain")[at % 2]},
            "problem_hash": f"{at + 1:032x}",
            "completion_tokens": 20,
            "latency_ms": 100.0,
        }
        for at in range(120)
    ]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bundle = {
        "run_id": text,
        "validity": {"status": "VALID", "reasons": []},
        "config": {
            "benchmark": name,
            "model": model,
            "generation": {"stop": text if lost else "x"},
        },
        "benchmark": {"name": name, "coverage": {"planned": 120}, "scores": {}},
    }
    (folder / f"eval-20260101T000000Z-{folder.name}.json").write_text(json.dumps(bundle))


@pytest.fixture
def page_file(tmp_path: Path, hostile: str) -> Path:
    """Two candidates on two benchmarks, hostile names, settings and answers; a third benchmark is on one side only."""
    for side, lost in (("base", 0), ("one", 1), ("two", 60)):
        _write(tmp_path / side / "a", f"a {hostile}", lost, hostile, f"{side} {hostile}")
        _write(tmp_path / side / "b", "b", lost, hostile, side)
    _write(tmp_path / "base/c", f"c {hostile}", 0, "x", "x")
    page = tmp_path / "compare.html"
    arguments = [
        *(str(tmp_path / side) for side in ("base", "one", "two")),
        "--report",
        str(page),
        "--no-strict",
    ]
    result = CliRunner().invoke(compare, arguments)
    assert result.exit_code == 0, result.output
    return page


def test_the_page_shows_the_decision_and_runs_nothing(
    open_quietly: Any, page_file: Path, hostile: str
) -> None:
    page = open_quietly(page_file)
    assert page.title() == "BLOCK: 4 candidates against 2 baselines"

    assert page.locator(".dots").first.locator(".mark").count() == 4
    assert page.locator(".dots").first.locator(".mark.BLOCK").count() == 2
    assert page.locator("section.comparison").count() == 4
    assert page.locator("section.comparison .dots").count() == 4
    assert page.locator("section.comparison .shares").count() == 4
    box = page.locator(".dots").first.bounding_box()
    assert box["width"] > 600
    assert box["height"] > 100
    assert "BLOCK: the loss is beyond the limit for certain" in page.locator("body").text_content()
    assert hostile in page.locator(".alarm").text_content()
    page.close()


def test_flips_are_read_side_by_side(browser: Any, page_file: Path, hostile: str) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    worse = page.locator("section.comparison").nth(2).locator("details.flips").first
    assert worse.locator("> summary").text_content() == "Got worse: 60 (the first 50 are shown)"
    worse.locator("> summary").click()
    assert worse.locator("details.row").count() == 50
    row = worse.locator("details.row").first
    row.locator("> summary").click()
    before, after = (row.locator(".sides pre").nth(at) for at in (0, 1))
    assert before.text_content() == after.text_content() == hostile
    left, right = before.bounding_box(), after.bounding_box()
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    page.close()


def test_the_header_names_both_models(browser: Any, tmp_path: Path) -> None:
    for side, model in (("base", "vendor/old-model"), ("new", "vendor/new-model")):
        _write(tmp_path / side / "b", "b", 0, "x", model)
    page_file = tmp_path / "compare.html"
    arguments = [str(tmp_path / "base"), str(tmp_path / "new"), "--report", str(page_file)]
    CliRunner().invoke(compare, arguments, catch_exceptions=False)
    page = browser.new_page()
    page.goto(page_file.as_uri())
    assert page.locator("h1").text_content() == "PASS: vendor/new-model against vendor/old-model"
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_and_mark_can_be_read(browser: Any, page_file: Path, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(page_file.as_uri())
    assert weak_contrasts(page) == []
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_limit_and_zero_lines_are_seen_at_every_width(
    browser: Any, page_file: Path, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(page_file.as_uri())
    for mark in page.locator(".mark").all():
        track = mark.locator(".track").bounding_box()
        limit, zero = (mark.locator(f"i.{line}").bounding_box() for line in ("limit", "zero"))
        assert track["x"] <= limit["x"] < zero["x"] <= track["x"] + track["width"]
        assert min(limit["height"], zero["height"]) > 20
    said = page.locator(".axis .tick.limit").first
    assert said.text_content() == "limit -0.05"
    assert said.is_visible()
    page.close()


def test_nothing_sticks_out_on_a_phone(browser: Any, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(page_file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_of_a_gate(
    open_quietly: Any, browser: Any, page_file: Path, hostile: str, width: int, scheme: Any
) -> None:
    """The same runs through `nel gate`: every benchmark with its own limit, nothing run, readable on a phone."""
    folder = page_file.parent
    policy = {
        "version": 1,
        "defaults": {"max_drop": 0.03},
        "benchmarks": {"b": {"max_drop": 0.2}, "gone": {}},
    }
    (folder / "policy.yaml").write_text(json.dumps(policy))
    decision = folder / "gate.html"
    arguments = [
        str(folder / "base"),
        str(folder / "two"),
        "-p",
        str(folder / "policy.yaml"),
        "--report",
        str(decision),
    ]
    result = CliRunner().invoke(gate, arguments)
    assert result.exit_code == 1, result.output
    quiet = open_quietly(decision)
    assert quiet.title().startswith("NO-GO: ")
    quiet.close()
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.goto(decision.as_uri())
    assert page.locator("h1 .verdict.NO-GO").count() == 1
    assert hostile in page.locator("table.scores").text_content()
    assert [one.text_content() for one in page.locator("td .chip").all()] == [
        "BLOCK",
        "BLOCK",
        "MISSING",
    ]
    places = [mark.locator("i.limit").bounding_box()["x"] for mark in page.locator(".mark").all()]
    assert len(set(places)) == 2, "20 points and 3 points on one axis"
    assert weak_contrasts(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (
        CliRunner().invoke(gate, [*arguments[:4], "--format", "html", "--no-strict"]).stdout
        == decision.read_text()
    )
    page.close()
