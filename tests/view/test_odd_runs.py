"""Runs that are not as they should be, in a browser: killed, torn, of an older format, with an answer of 100 MB."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import until
from made_runs import records, write_run

pytestmark = pytest.mark.needs("chromium")

_LONG = 100_000_000
# The longest time in which the page drew nothing, from the beginning on.
_WATCH = """
window.longest = 0;
let last = performance.now();
const look = () => {
  const now = performance.now();
  window.longest = Math.max(window.longest, now - last);
  last = now;
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def _old(folder: Path) -> None:
    """A run from before coverage, validity, status and journals: a failed step was a zero that said so."""
    task = folder / "sums"
    task.mkdir(parents=True)
    rows: list[dict[str, Any]] = [
        {
            "problem_idx": at,
            "repeat": 0,
            "reward": float(at % 2),
            "prompt": f"What is {at}?",
            "model_response": "odd",
        }
        for at in range(20)
    ]
    rows[3] |= {
        "reward": 0.0,
        "scoring_details": {"error_category": "infra_error", "error": "no route to host"},
    }
    (task / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench = {"name": "sums", "samples": 20, "scores": {"mean_reward": {"value": 0.45}}}
    bundle = {
        "run_id": "eval-old",
        "config": {"model": "model-o"},
        "benchmark": bench,
        "n_results": 20,
    }
    (task / "eval-20250101T000000Z-sums.json").write_text(json.dumps(bundle))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], Any]) -> Any:
    root = tmp_path_factory.mktemp("odd") / "runs"
    write_run(root / "killed", 50, finished=False, steps=[records(at) for at in range(10)])
    write_run(root / "torn", 20)
    for name in ("journal.jsonl", "results.jsonl"):
        path = root / "torn" / "sums" / name
        path.write_bytes(path.read_bytes()[:-40])
    _old(root / "old")
    return serve(root)


@pytest.mark.parametrize(
    ("name", "rows", "missing"),
    [
        ("killed", 10, ("has no bundle", "nel eval resume")),
        ("torn", 19, ("was cut off", "counts 20 rows, 19 can be read")),
        ("old", 20, ("There is no journal", "was written by an older version")),
    ],
)
def test_its_pages_open_and_say_what_is_missing(
    served: Any, page: Any, name: str, rows: int, missing: tuple[str, ...]
) -> None:
    page.goto(f"{served.url}#/run/{served.key(name)}")
    page.wait_for_selector(".panels figure")
    for words in missing:
        assert words in page.inner_text("main")
    page.goto(f"{served.url}#/rows/{served.key(name)}/sums")
    page.wait_for_selector(".grid-row .chip")
    assert page.locator(".counted").inner_text() == f"{rows} rows"
    page.goto(f"{served.url}#/row/{served.key(name)}/sums/3/0")
    page.wait_for_selector(".answer > .text-box")


def test_a_failed_step_of_the_older_format_is_no_zero(served: Any, page: Any) -> None:
    page.goto(f"{served.url}#/rows/{served.key('old')}/sums?status=failed")
    page.wait_for_selector(".grid-row .chip.failed")
    assert page.locator(".counted").inner_text() == "1 row"


@pytest.mark.large
@pytest.mark.serial
def test_an_answer_of_100_mb_opens_in_part_and_the_page_does_not_stand_still(
    tmp_path: Path, serve: Callable[[Path], Any], page: Any
) -> None:
    text = "A line of the answer, neither short nor long.\n" * (_LONG // 46)
    write_run(
        tmp_path / "runs" / "long", steps=[records(0), records(1, response=text + "the very end")]
    )
    served = serve(tmp_path / "runs")
    page.add_init_script(_WATCH)
    page.goto(f"{served.url}#/rows/{served.key('long')}/sums")
    until(page, "document.body.innerText.includes('long row, ')", 60)
    page.goto(f"{served.url}#/row/{served.key('long')}/sums/1/0")
    page.wait_for_selector(".answer .cut", timeout=60_000)
    assert f"of {len(text) + 12:,} characters shown" in page.locator(".answer .cut").inner_text()
    before = len(page.locator(".answer > .text-box").inner_text())
    page.locator(".answer").get_by_role("button", name="Show more").click()
    until(
        page,
        f"document.querySelector('.answer > .text-box').innerText.length > {before} + 200000",
        60,
    )
    assert page.evaluate("window.longest") < 1_000
    part = f"problem=1&repeat=0&path=row/model_response&from={len(text)}"
    status, end = served.ask(f"/{served.token}/api/text?run={served.key('long')}&bench=sums&{part}")
    assert (status, end) == (200, b"the very end")
