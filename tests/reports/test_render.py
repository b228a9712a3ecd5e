"""Every format says the same and lets nothing through unescaped."""

from __future__ import annotations

import copy
import csv
import functools
import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.report import eval_report, report
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.reports import RENDERERS, load_report, render, write_reports
from nemo_evaluator.store.run_registry import RunMeta


@pytest.fixture
def run(write_task: Any, bundle_of: Any, row_of: Any) -> Path:
    """Two benchmarks, one of them invalid."""
    path = write_task(bundle_of(), [row_of(at) for at in range(12)])
    bad = bundle_of(
        name="mmlu", validity={"status": "INVALID", "reasons": ["coverage 0.40 is under 0.95"]}
    )
    write_task(bad, [row_of(0)])
    return Path(path.parents[1])


def test_markdown_has_the_facts_beside_the_headline(run: Path) -> None:
    text = render(load_report(run), "markdown")
    assert text.startswith("# Evaluation Report: m-1\n")
    (line,) = (line for line in text.splitlines() if line.startswith("| gsm8k"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "gsm8k",
        "pass@1 (native)",
        "12 × 2",
        "0.2500",
        "[0.0000, 0.5500]",
        "12",
        "91.7% (22/24)",
        "12.5%",
        "0.0%",
        "VALID",
    ]
    assert "| strict | | 0.2000 | [0.1000, 0.4000] |" in text
    assert "- **mmlu** is INVALID: coverage 0.40 is under 0.95" in text
    assert "| algebra | 5 × 2 | 0.4000 | [0.2000, 0.6000] |" in text
    assert "| transport | 2 | 8.3% | connection reset |" in text


def test_unknown_facts_are_dashes(write_task: Any) -> None:
    path = write_task(
        {
            "config": {},
            "benchmark": {"name": "old", "samples": 3, "scores": {"acc": {"value": 0.5}}},
        }
    )
    (line,) = (
        line
        for line in render(load_report(path), "markdown").splitlines()
        if line.startswith("| old")
    )
    assert line == "| old | acc | 3 | 0.5000 | – | 3 | – | – | – | UNCHECKED |"


def test_json_keeps_the_documented_keys(run: Path) -> None:
    document = json.loads(render(load_report(run), "json"))
    assert (document["model"], document["n_benchmarks"]) == ("m-1", 2)
    first = document["benchmarks"][0]
    assert (first["benchmark"], first["metric"], first["score"], first["n"]) == (
        "gsm8k",
        "pass@1",
        0.25,
        12,
    )
    assert first["scores"]["scorer:strict"]["correct"] == 5
    assert document["benchmarks"][1]["validity"] == {
        "status": "INVALID",
        "reasons": ["coverage 0.40 is under 0.95"],
    }


def test_csv_starts_with_the_documented_columns(run: Path) -> None:
    text = render(load_report(run), "csv")
    assert text.startswith("benchmark,samples,repeats,metric,score,ci_lower,ci_upper,")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["metric"] for row in rows[:3]] == ["pass@1", "pass@2", "scorer:strict"]
    assert (rows[0]["ci_lower"], rows[0]["coverage"], rows[0]["headline"]) == (
        "0.0",
        str(22 / 24),
        "true",
    )


def test_latex_marks_the_invalid_and_has_as_many_cells_as_columns(run: Path) -> None:
    text = render(load_report(run), "latex")
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert columns is not None
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns[1])}
    assert r"mmlu$^\dagger$" in text


@pytest.mark.parametrize("fmt", list(RENDERERS))
def test_hostile_names_are_text_in_every_format(
    write_task: Any, bundle_of: Any, row_of: Any, hostile: str, fmt: str
) -> None:
    bundle = bundle_of(model=hostile, bench={"categories": {hostile: {"mean_reward": 0.5, "n": 2}}})
    bundle["benchmark"]["name"] = "bad"
    path = write_task(bundle, [row_of(0, model_response=hostile, prompt=hostile)])
    text = render(load_report(path, rows=True), fmt)
    if fmt == "json":
        assert json.loads(text)["model"] == hostile
    elif fmt == "csv":
        assert next(csv.DictReader(io.StringIO(text)))["model"] == hostile
    else:
        assert "<script>document" not in text
        assert "<img src=x" not in text
    if fmt == "markdown":
        (line,) = (line for line in text.splitlines() if line.startswith("| &lt;script"))
        assert len(re.findall(r"(?<!\\)\|", line)) == 5
    if fmt == "latex":
        assert r"\$\{\{7*7\}\}" in text


@pytest.mark.parametrize(
    "model",
    ['=HYPERLINK("http://x")', "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", " =1", "\t=1", "＝1"],
)
def test_a_spreadsheet_gets_no_formula(write_task: Any, bundle_of: Any, model: str) -> None:
    text = render(load_report(write_task(bundle_of(model=model))), "csv")
    assert next(csv.DictReader(io.StringIO(text)))["model"].startswith("'")


@pytest.mark.parametrize("fmt", [fmt for fmt in RENDERERS if fmt != "json"])
def test_no_text_can_move_the_cursor_or_turn_the_line_around(
    write_task: Any, bundle_of: Any, row_of: Any, fmt: str
) -> None:
    name = "a\x1b[2J\x07\x9b31m\u202egnp\u2066b\rc"
    bundle = bundle_of(model=name, bench={"categories": {name: {"mean_reward": 0.5, "n": 2}}})
    text = render(load_report(write_task(bundle, [row_of(0, model_response=name)]), rows=True), fmt)
    assert not {
        char for char in text if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160)
    }
    assert not set(text) & set("\u202e\u2066")


def test_names_in_other_scripts_are_kept(write_task: Any, bundle_of: Any) -> None:
    name = "שלום עולם 模型 नमस्ते می‌خواهم 👩‍🔬"
    path = write_task(bundle_of(model=name))
    for fmt in RENDERERS:
        assert fmt == "csv" or name in render(load_report(path, rows=True), fmt)
    assert next(csv.DictReader(io.StringIO(render(load_report(path), "csv"))))["model"] == name


def test_markdown_shows_no_picture_and_no_link(write_task: Any, bundle_of: Any) -> None:
    text = render(
        load_report(write_task(bundle_of(model="![x](http://evil/p.png) [y](javascript:z)"))),
        "markdown",
    )
    assert "](" not in text


@pytest.mark.parametrize("name", ["[1em]", "*", "* x"])
def test_a_latex_row_does_not_begin_with_what_belongs_to_the_one_before(
    write_task: Any, bundle_of: Any, name: str
) -> None:
    bundle = bundle_of(name="a")
    bundle["benchmark"]["name"] = name
    text = render(load_report(write_task(bundle, folder="x")), "latex")
    rows = text.split("\\midrule\n")[1].splitlines()
    assert not [row for row in rows if row.startswith(("[", "*"))]


def test_benchmarks_that_did_not_finish_are_in_every_format(run: Path) -> None:
    state = {"failed_benchmarks": {"<b>": {"error": "HTTP 401: bad | key", "cause": "auth"}}}
    (run / "checkpoint.json").write_text(json.dumps(state))
    texts = {fmt: render(load_report(run), fmt) for fmt in RENDERERS}
    assert (
        r"- **&lt;b&gt;** is INVALID, it did not finish: HTTP 401: bad \| key" in texts["markdown"]
    )
    assert (
        "<li><bdi>&lt;b&gt;</bdi> is <b>INVALID</b>, it did not finish: <bdi>HTTP 401: bad | key</bdi></li>"
        in texts["html"]
    )
    last = list(csv.DictReader(io.StringIO(texts["csv"])))[-1]
    assert (last["benchmark"], last["validity"], last["score"]) == ("<b>", "INVALID", "")
    assert json.loads(texts["json"])["unfinished"] == [
        {"benchmark": "<b>", "reason": "HTTP 401: bad | key", "cause": "auth"}
    ]
    (row,) = (line for line in texts["latex"].splitlines() if "textgreater{}$^\\dagger$ &" in line)
    (columns,) = re.findall(r"\\begin\{tabular\}\{(\w+)\}", texts["latex"])
    assert row.count("&") + 1 == len(columns)
    assert "or the benchmark did not finish." in texts["latex"]


def test_a_run_of_which_nothing_finished_says_why(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json").write_text(
        json.dumps({"failed_benchmarks": {"a": {"error": "HTTP 401"}}})
    )
    with pytest.raises(UsageError, match="no benchmark has finished: a: HTTP 401"):
        load_report(tmp_path)
    (tmp_path / "checkpoint.json").unlink()
    with pytest.raises(UsageError, match="no bundle"):
        load_report(tmp_path)


_ODD: tuple[Any, ...] = (
    None,
    "x",
    [],
    {},
    -1,
    0,
    1e308,
    True,
    "<b>",
    [1],
    {"a": 1},
    1e30,
    [None],
    1e-320,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield (*path, key)
        yield from _places(value[key], (*path, key))


@pytest.mark.parametrize("seed", range(60))
def test_odd_bundles_and_rows_are_reported_or_refused(
    write_task: Any, bundle_of: Any, row_of: Any, seed: int
) -> None:
    chance = random.Random(seed)
    bundle, rows = bundle_of(), [row_of(at) for at in range(6)]
    for target in (bundle, chance.choice(rows)):
        *way, last = chance.choice(list(_places(target)))
        functools.reduce(lambda inner, key: inner[key], way, target)[last] = copy.deepcopy(
            chance.choice(_ODD)
        )
    name = bundle["benchmark"].get("name") if isinstance(bundle["benchmark"], dict) else None
    path = write_task({"benchmark": {"name": "odd"}}, rows, folder="odd")
    path.write_text(json.dumps(bundle))
    try:
        report = load_report(path, rows=True)
    except UsageError:
        assert not isinstance(bundle["benchmark"], dict)
        return
    for fmt in RENDERERS:
        assert render(report, fmt)
    assert name is None or len(report.benchmarks) == 1


def test_lines_that_are_no_rows_are_counted_and_left_out(
    write_task: Any, bundle_of: Any, row_of: Any
) -> None:
    path = write_task(bundle_of(), [row_of(0), row_of(1)])
    with (path.parent / "results.jsonl").open("ab") as file:
        file.write(b'[1]\n{"torn": \n\xff\n\n{"problem_idx": 7, "rew')
    (bench,) = load_report(path, rows=True).benchmarks
    assert bench.details is not None
    assert (bench.details.rows, bench.details.unreadable) == (2, 4)
    assert "4 lines of results.jsonl cannot be read" in render(load_report(path, rows=True), "html")


def test_two_models_have_a_column_and_two_runs_of_one_a_folder(
    write_task: Any, bundle_of: Any
) -> None:
    for model, folder in (("a", "x/gsm8k"), ("b", "y/gsm8k"), ("b", "z/gsm8k")):
        path = write_task(bundle_of(model=model), folder=folder)
    text = render(load_report(path.parents[2]), "markdown")
    assert "| Benchmark | Model |" in text
    assert "| gsm8k | a |" in text
    assert "z/gsm8k) | b |" in text


def test_an_unknown_format_is_refused_with_the_nearest(run: Path) -> None:
    with pytest.raises(UsageError) as caught:
        render(load_report(run), "latexx")
    assert caught.value.hint == "did you mean 'latex'?"


def test_write_reports_writes_each_file_once(run: Path) -> None:
    written = write_reports(run, ["markdown", "json", "markdown"])
    assert [path.name for path in written] == ["report.md", "report.json"]
    assert write_reports(run, []) == []
    # Reports are no bundles: writing them twice changes nothing.
    assert len(json.loads((run / "report.json").read_text())["benchmarks"]) == 2


def test_the_commands_print_write_and_keep_stdout_clean(run: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    printed = runner.invoke(report, [str(run), "-f", "json"], catch_exceptions=False)
    assert json.loads(printed.stdout)["n_benchmarks"] == 2
    target = tmp_path / "r.json"
    quiet = runner.invoke(
        report, [str(run / "gsm8k"), "-f", "json", "-o", str(target)], catch_exceptions=False
    )
    assert quiet.stdout == ""
    assert json.loads(target.read_text())["n_benchmarks"] == 1
    folder = tmp_path / "all"
    runner.invoke(
        eval_report, [str(run), "--all-formats", "-o", str(folder)], catch_exceptions=False
    )
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"report.{suffix}"
        for suffix in ("md", "html", "csv", "json", "tex")
        if suffix != "html" or "html" in RENDERERS
    )


def test_where_a_report_is_written(run: Path, tmp_path: Path) -> None:
    def said(command: Any, *words: str) -> str:
        result = CliRunner().invoke(command, [str(run), *words])
        assert result.exception is None or isinstance(result.exception, UsageError), (
            result.exception
        )
        return result.stderr if result.exception is None else result.exception.message

    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.touch()
    assert said(report, "-f", "latex", "-o", str(folder)).splitlines() == [
        f"written: {folder}/report.tex",
        f"rows in a browser: nel view {run}",
    ]
    assert said(report, "-o", str(file / "r.md")).startswith(f"cannot write {file}")
    assert said(eval_report, "--all-formats", "-o", str(file)).startswith(f"cannot write {file}")
    assert (
        said(eval_report, "--all-formats", "-f", "json")
        == "give --format or --all-formats, not both"
    )


def test_a_folder_that_is_not_there_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, words in ((eval_report, []), (report, ["nope"])):
        error = CliRunner().invoke(command, words).exception
        assert isinstance(error, UsageError)
        assert "nel eval runs" in str(error.hint)


def test_a_run_is_found_by_its_id(run: Path) -> None:
    RunMeta("20261115_001752_aa", "local", str(run), "2026-11-15", "gsm8k").save()
    runner = CliRunner()
    found = runner.invoke(
        eval_report, ["-r", "20261115_001752_aa", "-f", "json"], catch_exceptions=False
    )
    assert json.loads(found.stdout)["n_benchmarks"] == 2
    with pytest.raises(UsageError, match="not both"):
        runner.invoke(eval_report, [str(run), "-r", "x"], catch_exceptions=False)


def _parts(text: str) -> list[str]:
    """The legend of the first bar of outcomes."""
    (found,) = re.findall(r'<ul class="parts">(.*?)</ul>', text)[:1]
    return re.findall(r"<li[^>]*>(.*?)</li>", found)


def test_what_became_of_the_steps_adds_up(write_task: Any, bundle_of: Any, row_of: Any) -> None:
    rows = [row_of(at) for at in range(20)]
    rows[0] |= {"status": "failed", "reward": None, "failure": {"cause": "judge", "message": "x"}}
    rows[2] |= {"unparsed": True, "finish_reason": "length"}
    rows[4] |= {"finish_reason": "length"}
    path = write_task(bundle_of(), rows)
    assert _parts(render(load_report(path, rows=True), "html")) == [
        "right: 10 (41.7%)",
        "wrong: 7 (29.2%)",
        "wrong, cut off: 1 (4.2%)",
        "no answer found: 1 (4.2%)",
        "failed: judge: 1 (4.2%)",
        "not done: 4 (16.7%)",
    ]
    assert _parts(render(load_report(path), "html")) == ["scored: 22 (91.7%)", "failed: 2 (8.3%)"]
    graded = write_task(bundle_of(), [row_of(at, reward=7.5) for at in range(24)], folder="graded")
    assert _parts(render(load_report(graded, rows=True), "html")) == ["scored: 24 (100.0%)"]


def test_a_flaw_of_a_scored_answer_is_no_failure(write_task: Any, bundle_of: Any) -> None:
    bundle = bundle_of()
    categories = bundle["benchmark"]["scores"]["failures"]["categories"]
    categories |= {
        name: {"count": 3, "percentage": 0.125, "exemplars": []}
        for name in ("format_error", "refusal", "context_exceeded", "budget")
    }
    report = load_report(write_task(bundle))
    (bench,) = report.benchmarks
    assert [line.cause for line in bench.failures] == ["transport"]
    assert [line.cause for line in bench.flaws] == [
        "budget",
        "context_exceeded",
        "format_error",
        "refusal",
    ]
    text = render(report, "markdown")
    assert (
        text.index("### Failures by cause")
        < text.index("| transport |")
        < text.index("### Answer problems")
    )
    assert text.index("### Answer problems") < text.index("| format_error |")
