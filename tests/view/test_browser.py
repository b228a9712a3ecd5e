"""Every page in a real browser: filters, order, keys, comparison, review, a run that writes; no error is logged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import until
from click.testing import CliRunner
from made_runs import PICTURE, finish, records, trajectory, write_run

from nemo_evaluator.cli.main import nel
from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.sealed import seal

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browsed") / "runs"
    steps = [records(at) for at in range(300)]
    steps[1][0]["trajectory"] = trajectory()
    image = {"type": "image_url", "image_url": {"url": PICTURE}}
    steps[2][0]["messages"][1]["content"] = [{"type": "text", "text": "What is this?"}, image]
    steps[4] = records(4, response="y" * 400_000 + "the very end")
    write_run(root / "base", steps=[*steps, records(5, 1, right=False)])
    settings = {"generation": {"temperature": 0.7}}
    write_run(root / "cand", 300, model="model-b", wrong=tuple(range(1, 60, 4)), config=settings)
    write_run(
        root / "live", 50, model="model-c", finished=False, steps=[records(at) for at in range(10)]
    )
    return root


@pytest.fixture(scope="module")
def served(runs: Path, serve: Callable[[Path], Any]) -> Any:
    return serve(runs)


def _text(page: Any, selector: str) -> str:
    return str(page.locator(selector).first.inner_text())


def test_runs_are_searched_and_picked_to_compare(served: Any, page: Any) -> None:
    page.goto(served.url)
    page.wait_for_selector("tbody[data-run]")
    assert page.locator("tbody[data-run]").count() == 3
    page.keyboard.press("/")
    page.keyboard.type("model-b")
    until(page, "document.querySelectorAll('tbody[data-run]').length === 1")
    assert "q=model-b" in page.url
    page.get_by_label("Search runs").fill("")
    for name in ("base", "cand"):
        page.locator(f"tbody[data-run='{served.key(name)}'] input").check()
    page.get_by_role("button", name="Compare 2").click()
    page.wait_for_selector(".flips .diff ins")
    assert _text(page, "h1 .verdict") in ("BLOCK", "INCONCLUSIVE", "WARN")
    assert "got worse" in _text(page, ".flips .tabs") and page.locator(".flips .diff del").count()
    assert "generation.temperature" in page.content() and page.locator("figure").count() >= 2
    page.keyboard.press("j")
    until(page, "document.querySelector('.flips .pager').innerText.includes('2 of')")


def test_a_run_shows_its_summary_and_leads_to_its_rows(served: Any, page: Any) -> None:
    page.goto(f"{served.url}#/run/{served.key('base')}")
    page.wait_for_selector(".panels figure")
    assert "Latency of a step" in page.content() and "coverage" in _text(page, ".benchmark .facts")
    page.get_by_role("link", name="Failed").click()
    page.wait_for_selector(".grid-row .chip.failed")
    assert _text(page, ".counted") == "23 rows"


def test_rows_are_filtered_ordered_and_walked_by_keys_and_the_url_tells_all(
    served: Any, page: Any
) -> None:
    page.goto(f"{served.url}#/rows/{served.key('base')}/sums")
    page.wait_for_selector(".grid-row .chip")
    assert _text(page, ".counted") == "301 rows"
    page.get_by_label("Category", exact=True).select_option("logic")
    until(page, "document.querySelector('.counted').innerText === '101 rows'")
    page.get_by_role("button", name="Tokens").click()
    page.get_by_role("button", name="Tokens ▲").click()
    until(page, "document.querySelector('.grid-row .number').innerText === '299'")
    assert "category=logic" in page.url and "sort=-tokens" in page.url
    page.reload()
    until(page, "document.querySelector('.grid-row .number').innerText === '299'")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('h1').innerText.startsWith('Problem 296')")
    assert "2 of 101" in _text(page, ".pager")
    page.keyboard.press("j")
    until(page, "document.querySelector('h1').innerText.startsWith('Problem 293')")
    page.keyboard.press("u")
    page.wait_for_selector(".grid-row .chip")
    page.get_by_label("Search in prompts and answers").fill("what is 11 ")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.counted').innerText === '1 row found'")
    page.get_by_role("button", name=re.compile("Clear")).click()
    until(page, "document.querySelector('.counted').innerText === '301 rows'")
    page.keyboard.press("End")
    until(page, "document.querySelector('.grid-row.chosen .number')?.innerText === '0'")


def test_a_row_shows_request_answer_trajectory_and_the_rest_of_a_long_answer(
    served: Any, page: Any
) -> None:
    where = f"{served.url}#/row/{served.key('base')}/sums"
    page.goto(f"{where}/1/0")
    page.wait_for_selector(".answer .md h1")
    assert page.locator(".message.system pre").inner_text() == "Answer with one number."
    page.locator(".answer").get_by_role("button", name="raw").click()
    until(
        page, "document.querySelector('.answer > .text-box pre')?.innerText.startsWith('# Working')"
    )
    page.locator(".reasoning summary").click()
    assert "I add two to 1." in page.locator(".reasoning").inner_text()
    assert page.locator(".timeline li.step").count() == 9
    page.keyboard.press("]")
    until(page, "document.activeElement.id === 'step-4'")
    assert "nel eval run" in page.content() and "nel show" in page.content()
    page.goto(f"{where}/2/0")
    until(page, "document.querySelector('.message img.picture')?.naturalWidth === 10")
    page.goto(f"{where}/4/0")
    page.wait_for_selector(".cut")
    for _ in range(2):
        page.get_by_role("button", name="Show more").first.click()
        page.wait_for_timeout(200)
    until(page, "document.querySelector('.answer pre').innerText.endsWith('the very end')")
    page.goto(f"{where}/5/1")
    page.get_by_text("Answers side by side").click()
    until(page, "document.querySelectorAll('.sides pre').length === 2")


def test_labels_by_keys_blind_and_kept(served: Any, page: Any, runs: Path) -> None:
    page.goto(f"{served.url}#/rows/{served.key('cand')}/sums?review=1")
    page.wait_for_selector(".review")
    page.get_by_label("Your name").fill("ada")
    page.locator("h1").first.click()
    assert page.locator("h1 .chip").count() == 1
    page.keyboard.press("b")
    until(page, "!document.querySelector('h1 .chip')")
    assert "Reward" not in page.content() and "model-b" not in page.locator("main").inner_text()
    page.keyboard.press("2")
    until(page, "document.querySelector('h1').innerText === 'Problem 1'")
    page.keyboard.press("n")
    page.keyboard.type("hard to say")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('h1').innerText === 'Problem 2'")
    until(page, "document.querySelector('.review .note').innerText.includes('2 of 300 labelled')")
    found = read_labels(runs / "cand" / "sums")
    assert [(one.label, one.note, one.who) for one in found.values()] == [
        ("wrong", "", "ada"),
        ("unsure", "hard to say", "ada"),
    ]


def test_labels_of_the_drawn_rows_correct_the_score(served: Any, page: Any, runs: Path) -> None:
    folder = runs / "base" / "sums"
    assert (
        CliRunner().invoke(nel, ["judge", "sample", str(folder), "--labels", "12"]).exit_code == 0
    )
    page.goto(f"{served.url}#/run/{served.key('base')}")
    page.get_by_role("link", name="Review").click()
    page.wait_for_selector(".review")
    drawn = {
        (row["problem_idx"], row["repeat"])
        for row in json.loads((folder / "label_draw.json").read_text())["rows"]
    }
    # The judge's verdict is out of sight, and only drawn rows come up.
    assert page.locator("h1 .chip").count() == 0
    for number in range(12):
        until(page, f"document.querySelector('.pager span')?.innerText === '{number + 1} of 12'")
        until(page, "document.querySelector('.review .note')?.innerText.startsWith('no label')")
        page.keyboard.press("1" if number % 2 else "2")
    until(page, "document.querySelector('.review .note')?.innerText.includes('12 of 12 labelled')")
    assert set(read_labels(folder)) == drawn
    found = json.loads(
        CliRunner().invoke(nel, ["judge", "calibrate", str(folder), "--json"]).output
    )
    assert (found["labels"], found["convenience"]) == (12, False)
    page.goto(f"{served.url}#/run/{served.key('base')}")
    page.reload()
    until(
        page,
        f"document.querySelector('.corrected b')?.innerText == {found['corrected']['value']:.4f}",
    )
    page.goto(f"{served.url}#/")
    until(page, "document.querySelector('.runs')?.innerText.includes('corrected ')")


def test_rows_appear_while_a_run_writes(served: Any, page: Any, browser: Any, runs: Path) -> None:
    task = runs / "live" / "sums"
    with folder_lock(runs / "live"):
        page.goto(f"{served.url}#/run/{served.key('live')}")
        until(page, "document.querySelector('.live .done')?.innerText === '10'")
        other = browser.new_page()
        other.goto(f"{served.url}#/rows/{served.key('live')}/sums")
        until(other, "document.querySelector('.counted')?.innerText === '10 rows'")
        with (task / "journal.jsonl").open("ab") as file:
            for at in range(10, 30):
                file.write(b"".join(seal(record)[0] for record in records(at)))
        until(page, "document.querySelector('.live .done')?.innerText === '30'")
        until(other, "document.querySelector('.counted')?.innerText === '30 rows'")
        other.close()
        finish(task, [records(at) for at in range(30)], "sums", "model-c", {})
    until(page, "document.querySelector('.benchmark .chip.valid')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_every_page_and_nothing_sticks_out(
    served: Any, browser: Any, scheme: Any
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    base, cand = served.key("base"), served.key("cand")
    for place, there in {
        "": "tbody[data-run]",
        f"run/{base}": ".panels figure",
        f"rows/{base}/sums": ".grid-row .chip",
        f"row/{base}/sums/1/0": ".timeline li",
        f"compare/{base},{cand}": ".flips .diff",
    }.items():
        page.goto(f"{served.url}#/{place}")
        page.wait_for_selector(there)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.keyboard.press("?")
    page.wait_for_selector(".help")
    page.close()


# Texts whose colour is too near to what is behind them, by the rule of WCAG AA.
_FAINT = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const part = value => value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] > 250) return found;
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  for (const one of document.querySelectorAll("#app *")) {
    const said = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!said || one.closest("svg, :disabled, .unseen, .skip") || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), a = light(rgba(style.color)), b = light(behind(one));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) faint.add(`${one.tagName}.${one.className} ${ratio.toFixed(2)} ${one.innerText}`);
  }
  return [...faint];
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_told_from_what_is_behind_them(served: Any, page: Any, scheme: str) -> None:
    base = served.key("base")
    page.emulate_media(color_scheme=scheme)
    for place, content in (
        ("", "tbody[data-run]"),
        (f"#/run/{base}", ".panels figure"),
        (f"#/rows/{base}/sums", ".grid-row .chip"),
        (f"#/row/{base}/sums/1/0", ".timeline li.step"),
        (f"#/compare/{base},{served.key('cand')}", ".flips .diff ins"),
    ):
        page.goto(served.url + place)
        page.wait_for_selector(content)
        assert page.evaluate(_FAINT) == [], place


def test_what_is_printed_is_dark_on_white_and_whole(served: Any, page: Any) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(f"{served.url}#/row/{served.key('base')}/sums/1/0")
    page.wait_for_selector(".timeline li.step")
    assert not page.locator("header.bar").is_visible() and not page.locator(".review").is_visible()
    assert page.evaluate(_FAINT) == []
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.answer')).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    cut = "[...document.querySelectorAll('main pre, .md')].filter(one => one.scrollHeight > one.clientHeight + 2).length"
    assert page.evaluate(cut) == 0
