"""``nel doctor``, what the shell offers, and the rows of a run on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from nel_support import SUMS, Nel

from nemo_evaluator.cli.doctor import doctor
from nemo_evaluator.cli.main import nel
from nemo_evaluator.store.run_registry import RunMeta
from nemo_evaluator.testing import ScriptedServer


def test_it_reports_and_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-shown-0123456789")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:word@proxy:3128")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.delenv("NEL_DATA_MIRROR", raising=False)
    done = CliRunner().invoke(doctor, ["--json"])
    assert done.exit_code == 0
    found = {one["about"]: one for one in json.loads(done.output)}
    assert {
        "python",
        "extra export",
        "sandbox local",
        "gpu",
        "slurm",
        "disk",
        "keys",
        "datasets",
    } <= set(found)
    assert "OPENAI_API_KEY" in found["keys"]["text"]
    assert found["proxy HTTPS_PROXY"]["text"] == "http://***@proxy:3128"
    assert "cannot reach" in found["sandbox docker"]["text"]
    assert "DOCKER_HOST" in found["sandbox docker"]["fix"]
    text = CliRunner().invoke(doctor).output
    assert "sk-never" not in text + done.output
    assert "me:word" not in text + done.output
    monkeypatch.setenv("NEL_DATA_MIRROR", "/nowhere")
    assert CliRunner().invoke(doctor).exit_code == 2


def test_benchmark_names_are_completed() -> None:
    complete = ShellComplete(nel, {}, "nel", "_NEL_COMPLETE")
    assert [
        one.value for one in complete.get_completions(["show"], "gsm") if one.type == "plain"
    ] == ["gsm8k"]
    assert "mmlu_pro" in [
        one.value for one in complete.get_completions(["eval", "run", "--bench"], "mmlu")
    ]


def test_runs_and_config_files_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    for name in ("c.yaml", "notes.txt", "configs/deep.yml"):
        (tmp_path / name).touch()
    RunMeta(
        "20260102_030405_ab12cd34", "local", str(tmp_path / "o"), "2026-01-02T03:04:05Z", "gsm8k"
    ).save()
    complete = ShellComplete(nel, {}, "nel", "_NEL_COMPLETE")

    def offered(*words: str) -> list[str]:
        return [
            one.value
            for one in complete.get_completions(list(words[:-1]), words[-1])
            if one.type == "plain"
        ]

    for command in ("status", "stop", "resume", "logs", "rescore", "clean"):
        assert offered("eval", command, "2026") == ["20260102_030405_ab12cd34"], command
    assert offered("show", "2026") == ["20260102_030405_ab12cd34"]
    for words in (("eval", "run"), ("config", "check"), ("proxy",)):
        assert offered(*words, "c") == ["c.yaml", "configs/"], words
    assert offered("eval", "run", "./configs/") == ["./configs/deep.yml"]
    assert offered("eval", "run", f"{tmp_path}/c.") == [f"{tmp_path}/c.yaml"]


def test_prompts_and_answers_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS.format(size=4))
    run = Nel(tmp_path)
    with ScriptedServer("4") as server:
        model = ("--model-url", server.url, "--model-id", "m")
        run("eval", "run", "--bench", "sums.py", *model, "-o", "o")
    shown = run("show", "o", "--wrong").stdout
    assert shown.count("=== sums, problem") == 3
    assert "How much is 3 + 3?" in shown
    assert "--- answer\n4\n" in shown
    assert "--- expected\n6\n" in shown
    assert "right (reward 1)" in run("show", "o", "--row", "2").stdout
    assert json.loads(run("show", "o", "--row", "2", "--json").stdout)["problem_idx"] == 2
    (run_id,) = (one["run_id"] for one in json.loads(run("eval", "runs", "--json").stdout))
    assert run("show", run_id[:18], "--wrong").stdout == shown
    assert "1 row shown" in run("show", "o", "--limit", "1").stderr
    assert "has no failed rows" in run("show", "o", "--failed", code=1).stderr
    assert "is not the folder of a run" in run("show", "gsm8k", "--wrong", code=1).stderr
