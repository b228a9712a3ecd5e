"""Runs as a folder of pages: opened from a plain web server, without nel, and without secrets."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from browsing import until
from click.testing import CliRunner
from made_runs import records, trajectory, write_run

from nemo_evaluator.cli.view import view
from nemo_evaluator.core import secrets
from nemo_evaluator.view import exported_rows, static_export

KEY = "sk-this-key-is-known-0123456789"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("exported")
    steps = [records(at) for at in range(300)]
    steps[1][0]["trajectory"] = trajectory()
    steps[7] = records(7, response=f"a needle, and {KEY}" + "z" * 2_000_000)
    steps[1][0]["trajectory"][0]["steps"][2]["subagents"] = [
        {"name": "helper", "steps": trajectory()[0]["steps"][:3]}
    ]
    steps.append(records(5, 1, right=False))
    write_run(root / "runs" / "base", steps=steps)
    write_run(root / "runs" / "other", 20, model="model-b", wrong=(3, 4))
    secret = secrets.Secret(KEY)
    patch = pytest.MonkeyPatch()
    patch.setattr(exported_rows, "_CHUNK", 100_000)
    try:
        done = CliRunner().invoke(view, [str(root / "runs"), "--export", str(root / "site")])
        assert done.exit_code == 0, done.output
        assert done.output.startswith("2 runs written to ")
        assert (
            CliRunner().invoke(view, [str(root / "runs"), "--export", str(root / "site")]).exit_code
            != 0
        )
    finally:
        patch.undo()
        secrets.forget(secret)
    return root / "site"


@pytest.fixture(scope="module")
def site(exported: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(exported))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_no_secret_and_no_page_of_elsewhere_is_in_it(exported: Path) -> None:
    files = [path for path in exported.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert len(list(exported.glob("data/*/rows-*.jsonl"))) > 3, "the rows lie in several files"


@pytest.mark.needs("chromium")
def test_runs_rows_and_a_row_are_shown_filtered_and_searched(site: str, page: Any) -> None:
    page.goto(site)
    page.wait_for_selector("tbody[data-run]")
    assert page.locator("tbody[data-run]").count() == 2
    listed = page.evaluate("fetch('data/export.json').then(reply => reply.json())")["runs"]
    key = next(run["key"] for run in listed if run["path"].endswith("/base"))
    page.goto(f"{site}#/run/{key}")
    page.wait_for_selector(".panels figure")
    page.goto(f"{site}#/rows/{key}/sums")
    page.wait_for_selector(".grid-row .chip")
    assert page.locator(".counted").inner_text() == "301 rows"
    page.get_by_label("Category", exact=True).select_option("logic")
    until(page, "document.querySelector('.counted').innerText === '101 rows'")
    page.goto(f"{site}#/rows/{key}/sums?text=a+needle")
    until(page, "document.querySelector('.counted').innerText === '1 row found'")
    page.goto(f"{site}#/row/{key}/sums/7/0")
    until(page, "document.body.innerText.includes('a needle, and ***')")
    assert "The rest is in the run." in page.inner_text("body")
    page.goto(f"{site}#/row/{key}/sums/1/0")
    page.wait_for_selector(".timeline li.step")
    assert page.locator(".timeline > ol > li.step").count() == 9
    page.get_by_text("Sub-session 1: helper").click()
    assert page.locator(".sub li.step").count() == 3


def _compared(page: Any, root: str) -> None:
    """Pick both runs, compare them, and go to a row of one that flipped."""
    page.goto(root)
    page.wait_for_selector("tbody[data-run]")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare 2").click()
    page.wait_for_selector(".flips .tabs")
    assert page.locator("h1 .verdict").inner_text() and page.locator("figure").count() >= 2
    if not page.locator(".flips .diff").count():
        page.locator(".flips .tabs button").nth(1).click()
    page.wait_for_selector(".flips .diff ins")
    page.locator(".flips .sides a").first.click()
    page.wait_for_selector(".answer .md")


@pytest.mark.needs("chromium")
def test_runs_are_compared_and_repeats_stand_side_by_side(site: str, page: Any) -> None:
    _compared(page, site)
    listed = page.evaluate("fetch('data/export.json').then(reply => reply.json())")["runs"]
    key = next(run["key"] for run in listed if run["path"].endswith("/base"))
    page.goto(f"{site}#/row/{key}/sums/5/1")
    page.get_by_text("Answers side by side").click()
    until(page, "document.querySelectorAll('.sides pre').length === 2")


@pytest.mark.needs("chromium")
def test_small_runs_are_one_file_that_a_browser_opens_from_the_disk(
    tmp_path: Path, page: Any
) -> None:
    bad = "</script><script>document.title = 'taken'</script><!-- <img src=x onerror=alert(1)>"
    write_run(
        tmp_path / "runs" / "base",
        steps=[*(records(at) for at in range(20)), records(20, response=bad)],
    )
    write_run(tmp_path / "runs" / "other", 20, model="model-b", wrong=(4, 5))
    target = tmp_path / "runs.html"
    done = CliRunner().invoke(view, [str(tmp_path / "runs"), "--export", str(target)])
    assert done.exit_code == 0 and "2 runs written to" in done.output, done.output
    _compared(page, target.as_uri())
    page.goto(target.as_uri())
    page.locator("tbody[data-run]", has_text="model-a").get_by_role("link", name="sums").click()
    page.wait_for_selector(".grid-row .chip")
    assert page.locator(".counted").inner_text() == "21 rows"
    page.get_by_label("Search in prompts and answers").fill("taken")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.counted').innerText === '1 row found'")
    page.locator(".grid-row").first.click()
    until(page, "document.querySelector('.answer').innerText.includes('onerror=alert(1)')")
    assert page.title() == "nel view"
    again = CliRunner().invoke(view, [str(tmp_path / "runs"), "--export", str(target)])
    assert again.exit_code != 0, "nothing is overwritten"


def test_rows_that_are_too_many_for_one_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "runs" / "base", 20)
    monkeypatch.setattr(static_export, "_MOST_IN_A_FILE", 10_000)
    done = CliRunner().invoke(
        view, [str(tmp_path / "runs"), "--export", str(tmp_path / "all.html")]
    )
    assert done.exit_code != 0 and "too much for one file" in str(done.exception)
    assert not (tmp_path / "all.html").exists()
