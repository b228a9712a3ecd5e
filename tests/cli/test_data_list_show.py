"""``nel list``, ``nel show`` and ``nel data``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nemo_evaluator.benchmarks import builtin_names
from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.datasets.mirror import MirrorEntry, write_index

ROWS = [
    {"question": f"What is {n} + {n}?", "answer": f"{n} + {n} = <<{n}+{n}={2 * n}>>\n#### {2 * n}"}
    for n in range(5)
]


def run(*args: str) -> Result:
    return CliRunner().invoke(nel, args, catch_exceptions=False)


@pytest.fixture
def small_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with five GSM8K-like rows in each split."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    write_index(
        folder,
        [
            MirrorEntry("openai/gsm8k", split, "rows.jsonl", 5, config="main")
            for split in ("test", "train")
        ],
    )
    monkeypatch.setenv("NEL_DATA_MIRROR", str(folder))
    return folder


def test_list_has_every_built_in_with_what_it_needs() -> None:
    shown = run("list").output
    assert all(f"  {name} " in shown for name in builtin_names())
    facts = {
        fact["name"]: fact
        for fact in json.loads(run("list", "--json").output)
        if fact["source"] == "builtin"
    }
    assert set(facts) == builtin_names()
    assert facts["humaneval"]["needs"] == ["sandbox"]
    assert facts["mmmu_pro"]["needs"] == ["images"]
    assert facts["simpleqa"]["needs"] == ["judge"]
    assert (facts["gsm8k"]["size"], facts["gsm8k"]["fewshot"], facts["gsm8k"]["license"]) == (
        1319,
        True,
        "MIT",
    )


def test_list_by_source() -> None:
    assert "gsm8k" not in run("list", "--source", "skills").output
    assert "skills://" in run("list", "-s", "skills").output
    assert run("list", "-s", "nonsense").exit_code != 0


def test_show_prints_what_is_sent(small_mirror: Path) -> None:
    shown = run("show", "gsm8k", "--index", "2")
    assert "gsm8k, problem 2 of 5" in shown.output
    assert "Problem: What is 2 + 2?" in shown.output
    assert "--- expected\n4" in shown.output
    problem = json.loads(
        run("show", "gsm8k", "-i", "2", "--json", "--system-prompt", "Be brief.").output
    )
    assert [message["role"] for message in problem["messages"]] == ["system", "user"]
    assert problem["messages"][0]["content"] == "Be brief."
    examples = json.loads(run("show", "gsm8k", "-i", "2", "--fewshot", "2", "--json").output)
    assert examples["messages"][0]["content"].count("The answer is ") == 2
    assert "<<" not in examples["messages"][0]["content"]


def test_show_says_what_is_wrong(small_mirror: Path) -> None:
    with pytest.raises(UsageError, match="has 5 problems"):
        run("show", "gsm8k", "-i", "5")
    with pytest.raises(UsageError, match="has no parameter"):
        run("show", "gsm8k", "-p", "colour=red")
    with pytest.raises(UsageError, match="has no value"):
        run("show", "gsm8k", "-p", "colour")
    with pytest.raises(UsageError, match="is not YAML"):
        run("show", "gsm8k", "-p", "colour=[")


def test_a_problem_cannot_move_the_cursor(small_mirror: Path) -> None:
    rows = [{"question": "a\tb\x1b[2J\x9b\u202ec?\nd", "answer": "#### \x1b[31m1"}]
    (small_mirror / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_index(small_mirror, [MirrorEntry("openai/gsm8k", "test", "rows.jsonl", 1, config="main")])
    shown = run("show", "gsm8k").output
    assert "a\tb [2J  c?\nd" in shown
    assert "\x1b" not in shown
    as_sent = json.loads(run("show", "gsm8k", "--json").output)
    assert "\x1b[2J\x9b\u202ec?" in as_sent["messages"][0]["content"]


def test_mirror_and_verify(
    small_mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "new"
    made = run("data", "mirror", "gsm8k", "--to", str(target))
    assert "openai/gsm8k config=main split=train: 5 rows" in made.output
    assert "2 of 2 files" in run("data", "verify", str(target)).output
    monkeypatch.setenv("NEL_DATA_FROZEN", "1")
    monkeypatch.setenv("NEL_DATA_MIRROR", str(target))
    assert "problem 0 of 5" in run("show", "gsm8k").output
    (target / "openai_gsm8k" / "main-test.jsonl").write_text("{}\n")
    checked = run("data", "verify", str(target), "--json")
    assert checked.exit_code == 2
    assert len(json.loads(checked.stdout)["problems"]) == 1


def test_mirroring_what_is_shipped_is_said() -> None:
    with pytest.raises(UsageError, match="nothing to mirror"):
        run("data", "mirror", "quickstart", "--to", "x")


def test_the_lock_is_shown_and_updated(small_mirror: Path) -> None:
    run("show", "gsm8k")
    key = "hf://openai/gsm8k?config=main&split=test"
    assert list(json.loads(run("data", "lock", "--json").output)) == [key]
    assert "5 rows" in run("data", "lock").output
    assert run("data", "update", "openai/gsm8k").output == f"dropped {key}\n"
    assert json.loads(run("data", "lock", "--json").output) == {}
    with pytest.raises(UsageError, match="nothing in the lock begins with"):
        run("data", "update", "openai/gsm8k")


def test_tasks_of_lm_eval_are_listed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nemo_evaluator.environments.schemes.lm_eval.task_names", lambda: ["arc_easy", "mmlu"]
    )
    assert run("list", "-s", "lm-eval").output.split() == ["lm-eval://arc_easy", "lm-eval://mmlu"]
