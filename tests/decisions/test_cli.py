"""``nel compare`` and ``nel gate`` as commands: exit codes, formats, what goes to which stream."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nemo_evaluator.cli.compare import compare
from nemo_evaluator.cli.gate import gate
from nemo_evaluator.core.errors import NelError

_OPEN = "INCONCLUSIVE"
GOOD = [1.0] * 300 + [0.0] * 200
BAD = [0.0] * 100 + GOOD[100:]
NOISY = [
    1 - value if at % 10 == 0 and not 200 <= at < 300 else value for at, value in enumerate(GOOD)
]


def run(command: Any, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit | NelError):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, write_to: Any, make_rows: Any) -> Path:
    root = tmp_path_factory.mktemp("runs")
    hostile = {
        "model_response": "<script>alert(1)</script> | `x`\n\x07\x1b[31m",
        "extracted_answer": None,
    }
    for side, rewards in (("base", GOOD), ("same", GOOD), ("bad", BAD), ("noisy", NOISY)):
        for name in ("math", "chat"):
            rows = make_rows(rewards, metadata={"category": "a|<b>\x07"}, **hostile)
            write_to(root / side / name, rows, name=name)
    return root


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    ("side", "code", "word"), [("same", 0, "PASS"), ("bad", 1, "BLOCK"), ("noisy", 2, "INC")]
)
def test_compare_exit_codes(side: str, code: int, word: str, runs: Path) -> None:
    result = run(compare, runs / "base/math", runs / side / "math", "--max-drop", "0.02")
    assert result.stdout.startswith(word)
    assert result.exit_code == code
    assert run(compare, runs / "base/math", runs / side / "math", "--no-strict").exit_code == 0


def test_json_is_alone_on_stdout(runs: Path) -> None:
    """W26: with -o a line used to come before the JSON."""
    out = runs / "r.json"
    result = run(compare, runs / "base/math", runs / "bad/math", "--format", "json", "-o", out)
    assert json.loads(result.stdout) == json.loads(out.read_text())
    assert "written" in result.stderr


def test_report_is_written_beside_the_candidate_and_hostile_text_is_text(runs: Path) -> None:
    run(compare, runs / "base/math", runs / "bad/math")
    text = (runs / "bad/math/regression_report.md").read_text()
    assert "## Regressed Problems" in text
    assert "<script>" not in text
    assert all(
        line.count("|") - line.count("\\|") == 5
        for line in text.splitlines()
        if line.startswith("| #")
    )
    assert not (runs / "base/math/regression_report.md").exists()
    run(compare, runs / "base/math", runs / "same/math", "--no-report")
    assert not (runs / "same/math/regression_report.md").exists()


def test_html_report(runs: Path) -> None:
    page = runs / "out.html"
    run(compare, runs / "base/math", runs / "bad/math", "--report", page)
    text = page.read_text()
    assert "<svg" in text
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert (
        run(compare, runs / "base", runs / "bad", "--format", "html", "--no-report").stdout.count(
            "<section "
        )
        == 2
    )


def test_terminal_output_has_no_control_characters(runs: Path) -> None:
    result = run(compare, runs / "base/math", runs / "bad/math", "--show-flips", "--verbose")
    # A bell, because click itself takes colour codes out of what is not a terminal.
    assert "\x07" not in result.stdout
    assert "regressions (the first 50 of 100):" in result.stdout
    assert "improvements: none" in result.stdout
    assert "flips" in result.stdout


def test_colour_is_for_terminals_and_can_be_refused(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(runs / "base/math"), str(runs / "bad/math"), "--no-report"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert (
        CliRunner()
        .invoke(compare, words, color=True)
        .stdout.startswith("\x1b[31m\x1b[1mBLOCK\x1b[0m")
    )
    assert CliRunner().invoke(compare, words).stdout.startswith("BLOCK")
    monkeypatch.setenv("NO_COLOR", "1")
    assert CliRunner().invoke(compare, words, color=True).stdout.startswith("BLOCK")


def test_folders_of_benchmarks_take_the_worst(runs: Path, write_run: Any) -> None:
    write_run("mixed/math", GOOD, name="math")
    write_run("mixed/chat", BAD, name="chat")
    write_run("mixed/extra", BAD, name="extra")
    result = run(compare, runs / "base", runs / "mixed", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert {name: entry["verdict"] for name, entry in document.items()} == {
        "math": "PASS",
        "chat": "BLOCK",
    }
    assert "extra is only in" in result.stderr


def test_one_bundle_against_a_folder_of_several(runs: Path) -> None:
    """W26: this used to crash."""
    bundle = next((runs / "base/math").glob("eval-*.json"))
    result = run(compare, bundle, runs / "same", "--json")
    assert [entry["benchmark"] for entry in json.loads(result.stdout).values()] == ["math"]
    assert result.exit_code == 0


def test_several_candidates_share_the_error(runs: Path) -> None:
    result = run(compare, runs / "base/math", runs / "same/math", runs / "bad/math", "--json")
    document = json.loads(result.stdout)
    assert [entry["verdict"] for entry in document.values()] == ["PASS", "BLOCK"]
    assert {entry["confidence"] for entry in document.values()} == {0.975}
    assert result.exit_code == 1


def test_compare_paths_without_runs(runs: Path) -> None:
    (runs / "empty").mkdir()
    result = run(compare, runs / "empty", runs / "base")
    assert isinstance(result.exception, NelError)
    assert result.exception.exit_code == 2
    (runs / "empty" / "eval-20260101T000000Z-x.json").write_text('{"stopped": "no mapping"}')
    for bad in ("nowhere", "empty"):
        result = run(compare, runs / "base", runs / bad)
        assert isinstance(result.exception, NelError)
        assert result.exception.exit_code == 2, "1 would be taken for a BLOCK"


def test_runs_without_a_common_benchmark(runs: Path, write_run: Any) -> None:
    write_run("other/one", GOOD, name="one")
    write_run("other/two", GOOD, name="two")
    result = run(compare, runs / "base", runs / "other")
    assert isinstance(result.exception, NelError)
    assert result.exception.exit_code == 1
    assert "have no benchmark in common: chat, math and one, two" in result.exception.message


@pytest.mark.parametrize("flag", ["--max-drop", "--confidence", "--correct-above"])
def test_what_is_no_number_decides_nothing(flag: str, runs: Path) -> None:
    result = run(compare, runs / "base/math", runs / "bad/math", flag, "nan")
    assert result.exit_code == 2
    assert "a finite number is expected" in result.output


def test_direction(runs: Path) -> None:
    words = [runs / "base/math", runs / "bad/math", "--direction", "lower_is_better", "--no-report"]
    result = run(compare, *words)
    assert result.stdout.startswith("PASS")
    assert run(compare, words[1], words[0], *words[2:]).stdout.startswith("BLOCK")
    page = run(compare, words[1], words[0], *words[2:], "--format", "html").stdout
    assert "largest rise allowed" in page


def test_one_report_of_several_comparisons(runs: Path) -> None:
    """Accepted means effective: it used to be ignored with a warning."""
    page = runs / "all.md"
    result = run(compare, runs / "base", runs / "same", runs / "bad", "--report", page)
    text = page.read_text()
    assert text.startswith("# 🔴 BLOCK: 2 candidates against base, 4 comparisons, the worst counts")
    assert text.count("## Executive Summary") == 4
    assert f"| {runs / 'bad'}: math | 0.6000 | 0.4000 | -0.2000 [" in text
    assert not (runs / "bad/math/regression_report.md").exists()
    assert "report written" in result.stderr


def test_several_candidates_are_told_apart_in_text(runs: Path) -> None:
    result = run(
        compare,
        runs / "base/math",
        runs / "same/math",
        runs / "bad/math",
        "--no-report",
        "--compact",
    )
    assert result.stdout.startswith(f"{runs / 'same/math'}:\nPASS")
    assert f"\n{runs / 'bad/math'}:\nBLOCK" in result.stdout
    assert "BLOCK  (the worst of 2)" in result.stdout
    again = run(compare, runs / "base/math", runs / "bad/math", runs / "bad/math", "--json")
    assert json.loads(again.stdout)["confidence"] == 0.95, (
        "one candidate named twice is one candidate"
    )


def test_text_fits_a_narrow_terminal(
    runs: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    words = run(
        compare, runs / "base/math", runs / "noisy/math", "--show-flips", "--verbose", "--no-report"
    ).stdout
    lines = words.splitlines()
    assert max(map(len, lines[1:])) <= 60
    assert any(line.startswith("  baseline   0.6000 [") for line in lines)
    decision = run(
        gate, runs / "base", runs / "noisy", "-p", policy, "--explain"
    ).stdout.splitlines()
    assert max(map(len, decision[1:])) <= 60
    monkeypatch.delenv("COLUMNS")
    piped = run(compare, runs / "base/math", runs / "noisy/math", "--no-report").stdout
    assert max(map(len, piped.splitlines())) > 90, "a pipe gets whole lines"


@pytest.mark.parametrize("fmt", ["text", "markdown", "html"])
def test_no_format_turns_the_reading_direction_round(
    fmt: str, tmp_path: Path, write_to: Any, make_rows: Any
) -> None:
    turned = "\u202eabc\u2066\u200b\x07\x1b[31m"
    for side, rewards in (("one", GOOD), ("two", BAD)):
        write_to(
            tmp_path / side,
            make_rows(rewards, model_response=turned, metadata={"category": turned}),
        )
    result = run(
        compare, tmp_path / "one", tmp_path / "two", "--format", fmt, "--show-flips", "--no-report"
    )
    assert "abc" in result.stdout
    assert not {"\u202e", "\u2066", "\u200b", "\x07", "\x1b"} & set(result.stdout)


def test_names_cannot_break_a_table(tmp_path: Path, write_to: Any, make_rows: Any) -> None:
    name = "a|b\n<c> `d`"
    for side, rewards in (("one", GOOD), ("two", BAD)):
        folder = write_to(
            tmp_path / side / "x", make_rows(rewards), name="x", config={"model": name}
        )
        path = next(folder.glob("eval-*.json"))
        document = json.loads(path.read_text())
        document["benchmark"]["name"] = name
        path.write_text(json.dumps(document))
    rules = tmp_path / "empty.yaml"
    rules.write_text("version: 1\n")
    for command in (
        [compare, tmp_path / "one", tmp_path / "two", "--format", "markdown", "--no-report"],
        [gate, tmp_path / "one", tmp_path / "two", "-p", rules, "--format", "markdown"],
    ):
        lines = run(*command).stdout.splitlines()
        assert any(line.startswith("|") and "a\\|b &lt;c&gt;" in line for line in lines)
        assert not any(line.startswith("<c>") for line in lines)


def test_the_gate_shows_what_was_not_looked_at(runs: Path, policy: Path, write_run: Any) -> None:
    write_run("base/extra", GOOD, name="extra")
    result = run(gate, runs / "base", runs / "same", "-p", policy)
    assert result.exit_code == 0
    assert "  ! extra is only in the baseline" in result.stdout.splitlines()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "version: 1\ndefaults: {max_drop: 0.02}\nbenchmarks:\n  math: {tier: critical}\n"
    )
    return path


@pytest.mark.parametrize(
    ("side", "code", "word"), [("same", 0, "GO"), ("bad", 1, "NO-GO"), ("noisy", 2, _OPEN)]
)
def test_gate_exit_codes(side: str, code: int, word: str, runs: Path, policy: Path) -> None:
    result = run(gate, runs / "base", runs / side, "-p", policy)
    assert result.stdout.split()[0] == word
    assert result.exit_code == code
    assert run(gate, runs / "base", runs / side, "-p", policy, "--no-strict").exit_code == 0


def test_gate_explains_what_would_settle_it(runs: Path, policy: Path) -> None:
    quiet = run(gate, runs / "base", runs / "noisy", "-p", policy)
    result = run(gate, runs / "base", runs / "noisy", "-p", policy, "--explain")
    assert re.search(r"about [\d,]+ paired problems \(now 500\)", result.stdout)
    assert "paired problems" not in quiet.stdout


def test_gate_writes_json_and_markdown(runs: Path, policy: Path) -> None:
    out = runs / "gate.json"
    result = run(gate, runs / "base", runs / "bad", "-p", policy, "-o", out)
    assert json.loads(out.read_text())["verdict"] == "NO-GO"
    assert "NO-GO" in (runs / "gate.md").read_text()
    assert result.exit_code == 1
    (runs / "gate.md").unlink()
    as_json = run(gate, runs / "base", runs / "bad", "-p", policy, "-o", out, "--json")
    assert json.loads(as_json.stdout)["verdict"] == "NO-GO"
    assert not (runs / "gate.md").exists()
    run(gate, runs / "base", runs / "bad", "-p", policy, "-o", out, "--no-report")
    assert not (runs / "gate.md").exists()
    run(gate, runs / "base", runs / "bad", "-p", policy, "--report", runs / "own.md")
    assert (runs / "own.md").read_text().startswith("# 🔴 NO-GO")
    markdown = run(gate, runs / "base", runs / "bad", "-p", policy, "--format", "markdown")
    assert "| math | critical | 🔴 BLOCK |" in markdown.stdout


@pytest.mark.parametrize(
    "text",
    ["- a", "", "version: 2", "defaults: {max_dorp: 1}", "benchmarks: {math: {tier: vital}}"],
)
def test_a_bad_policy_is_an_error(text: str, runs: Path, policy: Path) -> None:
    policy.write_text(text)
    result = run(gate, runs / "base", runs / "same", "-p", policy)
    assert isinstance(result.exception, NelError)
    assert result.exception.exit_code == 1
