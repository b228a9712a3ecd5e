"""The page in a real browser: plots are there, nothing is loaded or run, hostile text stays text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reports.conftest import weak_contrasts

from nemo_evaluator.core.files import write_json
from nemo_evaluator.reports import write_reports

pytestmark = [pytest.mark.needs("chromium")]
# Names that a cut after twenty letters would make alike.
SUBJECTS = [
    f"{place}_government_and_politics_of_the_{at}th_century"
    for place in ("world", "europe")
    for at in range(30)
]


@pytest.fixture
def page_file(write_task: Any, bundle_of: Any, row_of: Any, hostile: str) -> Path:
    """A page about two models, one of them with hostile names and answers, one run invalid."""
    rows = [row_of(at) for at in range(60)]
    rows[2] |= {"model_response": hostile, "prompt": hostile}
    rows[0] |= {
        "status": "failed",
        "reward": None,
        "failure": {"cause": "transport", "message": hostile},
    }
    rows[4] |= {"finish_reason": "length"}
    rows[6] |= {"unparsed": True, "extracted_answer": None}
    bad = bundle_of(model=hostile, bench={"categories": {hostile: {"mean_reward": 0.5, "n": 2}}})
    bad["validity"] = {"status": "INVALID", "reasons": [hostile]}
    write_task(bad, rows, folder="a/gsm8k")
    good = bundle_of(model="b")
    good["validity"] = {"status": "DEGRADED", "reasons": ["13.3% of the answers are cut off"]}
    path = write_task(good, rows, folder="b/gsm8k")
    write_json(
        path.parents[1] / "checkpoint.json",
        {"failed_benchmarks": {"humaneval": {"error": f"no Docker {hostile}"}}},
    )
    (page,) = write_reports(path.parents[2], ["html"])
    return page


def test_the_page_shows_plots_and_runs_nothing(
    open_quietly: Any, page_file: Path, hostile: str
) -> None:
    page = open_quietly(page_file)
    assert page.title() == "Evaluation Report"

    for kind, at_least in {"dots": 1, "bars": 4, "histogram": 4, "shares": 2}.items():
        plots = page.locator(f".plot.{kind}")
        assert plots.count() >= at_least, kind
        box = plots.first.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 20
    assert page.locator(".dots .mark").count() == 2
    assert page.locator(".dots .mark.doubtful").count() == 1
    # Models differ by shape too, not by colour alone.
    shapes = page.locator(".dots .dot path").evaluate_all(
        "all => all.map(one => one.getAttribute('d'))"
    )
    assert len(set(shapes)) == 2

    answer = page.locator("details.wrong pre").filter(has_text="onerror").first
    assert answer.text_content() == hostile
    assert hostile in page.locator(".alarm").text_content()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_and_light_differ_and_every_text_can_be_read(
    browser: Any, page_file: Path, scheme: Any
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(page_file.as_uri())

    def shade() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return int(colour.split("(")[1].split(",")[0])

    assert (shade() > 200) == (scheme == "light")
    assert weak_contrasts(page) == []
    page.locator("label.switch").click()
    assert (shade() > 200) == (scheme == "dark")
    page.close()


def test_a_phone_shows_everything_and_nothing_sticks_out(browser: Any, page_file: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # The table of scores is read downwards, each number beside its name.
    table = page.locator("div.scroll").first
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    label = page.locator("table.scores td.big").first.evaluate(
        "one => getComputedStyle(one, '::before').content"
    )
    assert label == '"Score"'
    # A mark has its label above the line, and the line is as wide as the plot.
    mark = page.locator(".mark").first
    label_box, track = mark.locator(".label").bounding_box(), mark.locator(".track").bounding_box()
    assert label_box["y"] + label_box["height"] <= track["y"] + 1
    assert track["width"] > 280
    for text in page.locator("svg.histogram text, .plot .label, .plot .value").all():
        assert text.bounding_box()["height"] > 11, text.text_content()
    page.close()


def test_the_whole_table_fits_a_desk_and_labels_do_not_collide(
    browser: Any, write_task: Any, bundle_of: Any
) -> None:
    for model in (
        "meta/llama-3.3-70b-instruct",
        "nvidia/nemotron-3-super-120b-a12b",
        "qwen/qwen3-32b",
    ):
        for name in ("gsm8k", "humaneval_plus", "professional_psychology"):
            path = write_task(
                bundle_of(name=name, model=model), folder=f"{model.replace('/', '_')}/{name}"
            )
    (file,) = write_reports(path.parents[2], ["html"])
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri())
    assert page.locator("div.scroll").first.evaluate("one => one.scrollWidth <= one.clientWidth")
    boxes = page.locator(".dots .group, .dots .label, .dots .value, .dots .tick").evaluate_all(
        "all => all.map(one => [one.textContent, one.getBoundingClientRect().toJSON()])"
    )
    assert len(boxes) > 30
    for at, (text, box) in enumerate(boxes):
        for other, place in boxes[:at]:
            apart = box["left"] >= place["right"] or place["left"] >= box["right"]
            assert (
                apart or box["top"] >= place["bottom"] - 1 or place["top"] >= box["bottom"] - 1
            ), (text, other)
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_many_categories_stand_in_two_columns_with_their_whole_names(
    browser: Any, write_task: Any, bundle_of: Any, width: int
) -> None:
    found = {
        name: {"mean_reward": at / 60, "n": 9, "ci_lower": 0.0, "ci_upper": 1.0}
        for at, name in enumerate(SUBJECTS)
    }
    path = write_task(bundle_of(bench={"categories": found}))
    (file,) = write_reports(path.parents[1], ["html"])
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())
    figure = page.locator("figure.wide")
    # The lowest scores first, the rest behind a click.
    assert figure.locator(".label").first.text_content() == SUBJECTS[0]
    figure.locator("summary").click()
    labels = figure.locator(".label")
    assert sorted(labels.all_text_contents()) == sorted(SUBJECTS)
    assert all(labels.evaluate_all("all => all.map(one => one.scrollWidth <= one.clientWidth + 1)"))
    plots = [one.bounding_box() for one in figure.locator(".plot").all()]
    assert len(plots) == 4
    assert (plots[0]["y"] == plots[1]["y"]) == (width > 1000)
    page.close()


def test_breakdowns_are_of_fields_with_few_values(
    browser: Any, write_task: Any, bundle_of: Any
) -> None:
    bundle = bundle_of()
    bundle["benchmark"]["scores"]["breakdowns"] |= {
        "reasoning": [{"group": f"because {at}", "n": 8, "mean_reward": 0.5} for at in range(5)],
        "needs_judge": [{"group": word, "n": 11, "mean_reward": 0.5} for word in ("True", "False")],
        "one_value": [{"group": "True", "n": 22, "mean_reward": 0.5}],
        "note": [{"group": f"note {at}", "n": 1, "mean_reward": 0.5} for at in range(22)],
    }
    path = write_task(bundle)
    page_file, markdown = write_reports(path.parents[1], ["html", "markdown"])
    page = browser.new_page()
    page.goto(page_file.as_uri())
    titles = [
        one for one in page.locator("figcaption").all_text_contents() if one.startswith("By ")
    ]
    assert titles == ["By level, the lowest first"]
    assert [line for line in markdown.read_text().splitlines() if line.startswith("### By")] == [
        "### By level"
    ]
    page.close()


def test_histograms_have_axes(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    for plot in page.locator("svg.histogram").all():
        assert plot.locator("path.axis").count() >= 3
        counts = [
            int(text.replace(",", "")) for text in plot.locator("text.count").all_text_contents()
        ]
        assert counts[0] == 0
        assert len(counts) > 1
        texts = plot.locator("text").all_text_contents()
        assert "rows" in texts
        assert {"ms", "tokens"} & set(texts)
    page.close()


def test_a_benchmark_that_failed_is_in_the_table_with_the_word_of_check(
    open_quietly: Any, page_file: Path
) -> None:
    page = open_quietly(page_file)
    row = page.locator("table.scores tr.unfinished")
    assert row.locator(".name").text_content() == "humaneval"
    assert row.locator(".chip").text_content() == "INVALID"
    assert "no Docker" in row.text_content()
    assert "DEGRADED: the score exists" in page.locator("body").text_content()
    texts = {
        path.suffix: path.read_text()
        for path in write_reports(page_file.parent, ["markdown", "csv", "latex"])
    }
    assert "| humaneval | – | – | – | – | – | – | – | – | – | **INVALID** |" in texts[".md"]
    assert "humaneval,,,,,,,,,,,,,,,,,INVALID," in texts[".csv"]
    assert r"humaneval$^\dagger$ & --" in texts[".tex"]
    page.close()


def test_rows_show_tool_calls_and_what_judges_said(
    open_quietly: Any, write_task: Any, bundle_of: Any, row_of: Any, hostile: str
) -> None:
    said = {
        "reasoning": "Too short.",
        "scorer:style": {"reasoning": hostile},
        "judges": {"b": {"reasoning": "Fine."}},
    }
    path = write_task(bundle_of(), [row_of(at, scoring_details=said) for at in range(4)])
    call = {
        "tool_call_id": "c1",
        "function_name": "bash",
        "arguments": {"command": f"echo {hostile}"},
    }
    steps = [
        {"source": "user", "message": "question"},
        {
            "source": "agent",
            "tool_calls": [call],
            "observation": {"results": [{"source_call_id": "c1", "content": "18"}]},
        },
    ]
    line = {"step_id": "x", "problem_idx": 2, "repeat": 0, "trajectory": [{"steps": steps}]}
    (path.parent / "trajectories.jsonl").write_text(json.dumps(line) + "\n")
    (file,) = write_reports(path.parents[1], ["html"])
    page = open_quietly(file)
    (with_call,) = [
        row for row in page.locator("details.row").all() if "Tool calls" in row.text_content()
    ]
    assert "problem 2" in with_call.locator("summary").text_content()
    text = with_call.locator("pre.call").text_content()
    assert text.startswith("bash(")
    assert text.endswith("\n→ 18")
    row = page.locator("details.row").first
    assert row.locator("pre.judge").all_text_contents() == ["Too short.", hostile, "Fine."]
    heads = [head for head in row.locator("h4").all_text_contents() if head.endswith("said")]
    assert heads == ["What judge said", "What style said", "What b said"]
    page.close()


def test_print_keeps_what_is_folded_on_the_screen(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    answer = page.locator("details.row pre").first
    assert not answer.evaluate("one => one.checkVisibility()")
    page.emulate_media(media="print")
    assert answer.evaluate(
        "one => one.checkVisibility() && one.getBoundingClientRect().height > 10"
    )
    assert page.locator("label.switch").is_hidden()
    page.close()


def test_every_image_and_control_has_a_name(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    for plot in page.locator("[role=img], [role=group]").all():
        assert len(plot.get_attribute("aria-label") or "") > 5
    assert page.get_by_label("Switch between dark and light").count() >= 1
    assert page.locator("th:not([scope])").count() == 0
    page.close()
