"""The page in a real browser: plots are there, nothing is loaded or run, hostile text stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.reports import write_reports

pytestmark = [pytest.mark.needs("chromium")]


@pytest.fixture
def page_file(write_task: Any, bundle_of: Any, row_of: Any, hostile: str) -> Path:
    """A page about two models, one of them with hostile names and answers, one run invalid."""
    rows = [row_of(at) for at in range(60)]
    rows[2] |= {"model_response": hostile, "prompt": hostile}
    rows[0] |= {"status": "failed", "reward": None, "failure": {"cause": "transport", "message": hostile}}
    bad = bundle_of(model=hostile, bench={"categories": {hostile: {"mean_reward": 0.5, "n": 2}}})
    bad["validity"] = {"status": "INVALID", "reasons": [hostile]}
    write_task(bad, rows, folder="a/gsm8k")
    path = write_task(bundle_of(model="b"), rows, folder="b/gsm8k")
    (page,) = write_reports(path.parents[2], ["html"])
    return page


def test_the_page_shows_plots_and_runs_nothing(open_quietly: Any, page_file: Path, hostile: str) -> None:
    page = open_quietly(page_file)
    assert page.title() == "Evaluation Report"

    for kind, at_least in {"forest.desk": 1, "bars.desk": 4, "histogram": 4, "shares": 2}.items():
        plots = page.locator(f"svg.{kind}")
        assert plots.count() >= at_least, kind
        box = plots.first.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 20
    assert page.locator("svg.forest.desk path.dot").count() == 2
    assert page.locator("svg.forest.desk path.doubtful").count() == 1
    assert page.locator("svg.forest.phone").first.is_hidden()
    # Models differ by shape too, not by colour alone.
    shapes = page.locator("svg.forest.desk path.dot").evaluate_all("all => all.map(one => one.getAttribute('d'))")
    assert len(set(shapes)) == 2

    answer = page.locator("details.wrong pre").filter(has_text="onerror").first
    assert answer.text_content() == hostile
    assert hostile in page.locator(".alarm").text_content()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_and_light_differ_and_the_switch_turns_them(browser: Any, page_file: Path, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(page_file.as_uri())

    def shade() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(colour.split("(")[1].split(",")[0])

    before = shade()
    assert (before > 200) == (scheme == "light")
    page.locator("label.switch").click()
    assert (shade() > 200) == (scheme == "dark")
    page.close()


def test_a_phone_shows_everything_and_nothing_sticks_out(browser: Any, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("svg.forest.phone").first.is_visible()
    assert page.locator("svg.forest.desk").first.is_hidden()
    # The table of scores is read downwards, each number beside its name.
    table = page.locator("div.scroll").first
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    label = page.locator("table.scores td.big").first.evaluate("one => getComputedStyle(one, '::before').content")
    assert label == '"Score"'
    for text in page.locator("svg.phone text").all():
        box = text.bounding_box()
        assert box["height"] > 11, text.text_content()
    page.close()


def test_the_whole_table_fits_a_desk_and_labels_do_not_collide(browser: Any, write_task: Any, bundle_of: Any) -> None:
    for model in ("meta/llama-3.3-70b-instruct", "nvidia/nemotron-3-super-120b-a12b", "qwen/qwen3-32b"):
        for name in ("gsm8k", "humaneval_plus", "professional_psychology"):
            path = write_task(bundle_of(name=name, model=model), folder=f"{model.replace('/', '_')}/{name}")
    (file,) = write_reports(path.parents[2], ["html"])
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri())
    assert page.locator("div.scroll").first.evaluate("one => one.scrollWidth <= one.clientWidth")
    boxes = page.locator("svg.forest.desk text").evaluate_all(
        "all => all.map(one => [one.textContent, one.getBoundingClientRect().toJSON()])"
    )
    for at, (text, box) in enumerate(boxes):
        for other, place in boxes[:at]:
            apart = box["left"] >= place["right"] or place["left"] >= box["right"]
            assert apart or box["top"] >= place["bottom"] - 4 or place["top"] >= box["bottom"] - 4, (text, other)
    page.close()


def test_every_image_and_control_has_a_name(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    for plot in page.locator("svg[role=img]").all():
        assert len(plot.get_attribute("aria-label") or "") > 10
    assert page.get_by_label("Switch between dark and light").count() >= 1
    assert page.locator("th:not([scope])").count() == 0
    page.close()
