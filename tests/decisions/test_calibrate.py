"""Labels beside a run: drawn, given, and what they make of the score, through the commands."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pexpect
import pytest
from click.testing import CliRunner, Result

from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.labels import Label, append_label, read_labels

from .conftest import make_row, write

PRINTS = {"scorer": "s1", "service": "m1", "solver": "o1", "template": "t1"}


def judged(
    folder: Path, rows: int = 400, *, seed: int = 0, graded: bool = False, **config: Any
) -> np.ndarray:
    """A run whose judge is mild: people find 60 % right, the judge 70 %."""
    rng = np.random.default_rng(seed)
    right = (rng.random(rows) < 0.6).astype(float)
    said = np.where(right == 1, rng.random(rows) < 0.95, rng.random(rows) < 0.3).astype(float)
    if graded:
        said = np.where(said == 1, rng.integers(6, 11, rows), rng.integers(1, 6, rows))
    lines = []
    for at, one in enumerate(said.tolist()):
        reward = (one - 1) / 9 if graded else one
        details = {"scorer:judge": {"score": one, "judge_model": "j", "reward": reward}}
        text = f"answer {at} " + "word " * (at % 7)
        lines.append(
            make_row(at, reward, scoring_details=details, model_response=text, scorer_rewards={})
        )
    write(
        folder,
        lines,
        config={"reward_from": "judge", "fingerprints": PRINTS, "model": "m"} | config,
    )
    return right


def run(*args: object, code: int = 0) -> Result:
    done = CliRunner().invoke(nel, [str(arg) for arg in args])
    if isinstance(done.exception, UsageError):
        assert code == 1, done.exception
        return done
    assert done.exit_code == code, (done.output, done.exception)
    return done


def give(folder: Path, right: np.ndarray, *, only: int | None = None) -> list[dict[str, Any]]:
    """Label the drawn rows as people would."""
    drawn = json.loads((folder / "label_draw.json").read_text())["rows"]
    for row in drawn[:only]:
        word = "right" if right[row["problem_idx"]] else "wrong"
        append_label(folder, Label(row["problem_idx"], row["repeat"], word))  # type: ignore[arg-type]
    return drawn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "toy"


@pytest.mark.parametrize("method", ["uniform", "stratified", "uncertainty"])
def test_drawn_labelled_and_corrected(folder: Path, method: str) -> None:
    right = judged(folder, graded=method == "uncertainty")
    said = run("judge", "sample", folder, "--labels", 120, "--method", method, "--seed", 1).output
    assert "±" in said and "labels alone" in said
    drawn = give(folder, right)
    assert abs(len(drawn) - 120) < 30 and all(0 < row["chance"] <= 1 for row in drawn)
    found = json.loads(run("judge", "calibrate", folder, "--json").output)
    assert abs(found["corrected"]["value"] - right.mean()) < 0.08
    assert found["corrected"]["ci_lower"] <= right.mean() <= found["corrected"]["ci_upper"]
    alone = found["judges"][0]["labels_alone"]
    width = found["corrected"]["ci_upper"] - found["corrected"]["ci_lower"]
    assert width < alone["ci_upper"] - alone["ci_lower"]
    assert found["judges"][0]["agreement"]["sensitivity"]["value"] > 0.7
    assert found["length_bias"] is not None
    text = run("judge", "calibrate", folder).output
    assert "Gwet's AC1" in text and "judge alone" in text and "corrected" in text


def test_uncertainty_needs_a_judge_that_can_be_unsure(folder: Path) -> None:
    judged(folder)
    done = run("judge", "sample", folder, "--method", "uncertainty", code=1)
    assert "equally certain" in str(done.exception)


def test_a_changed_judge_makes_it_stale(folder: Path, tmp_path: Path) -> None:
    right = judged(folder)
    run("judge", "sample", folder)
    give(folder, right)
    run("judge", "calibrate", folder)
    file = next(folder.glob("eval-*.json"))
    document = json.loads(file.read_text())
    document["config"]["fingerprints"]["scorer"] = "s2"
    file.write_text(json.dumps(document))
    bundle = load_bundle(next(folder.glob("eval-*.json")))
    assert bundle.corrected is None
    assert any("stale" in note and "rubric" in note for note in bundle.notes)
    other = tmp_path / "other" / "toy"
    judged(other, seed=3, fingerprints=PRINTS)
    assert "stale" in str(run("judge", "calibrate", other, "--from", folder, code=1).exception)
    # People's words on the same answers still hold: calibrating again makes it good.
    run("judge", "calibrate", folder)
    assert load_bundle(next(folder.glob("eval-*.json"))).corrected is not None


def test_other_answers_make_the_draw_stale(folder: Path) -> None:
    right = judged(folder)
    run("judge", "sample", folder)
    give(folder, right)
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        line["model_response"] += "!"
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "stale" in str(run("judge", "calibrate", folder, code=1).exception)


def test_labels_that_were_not_drawn(folder: Path) -> None:
    right = judged(folder)
    file = folder.parent / "labels.csv"
    with file.open("w", newline="") as text:
        out = csv.writer(text)
        out.writerow(["problem_idx", "label"])
        out.writerows([at, "right" if right[at] else "wrong"] for at in range(50))
    done = run("judge", "calibrate", folder, "--labels", file, code=1)
    assert "not drawn" in str(done.exception) and not read_labels(folder)
    found = json.loads(
        run("judge", "calibrate", folder, "--labels", file, "--convenience", "--json").output
    )
    assert found["convenience"] is True and "hand-picked labels" in found["note"]
    assert any(
        "hand-picked labels" in note for note in load_bundle(next(folder.glob("eval-*.json"))).notes
    )


def test_graded_labels_from_a_file(folder: Path) -> None:
    judged(folder, graded=True)
    run("judge", "sample", folder, "--labels", 80)
    drawn = json.loads((folder / "label_draw.json").read_text())["rows"]
    file = folder.parent / "labels.jsonl"
    file.write_text(
        "".join(
            json.dumps({"problem_idx": row["problem_idx"], "grade": 10}) + "\n" for row in drawn
        )
    )
    found = json.loads(run("judge", "calibrate", folder, "--labels", file, "--json").output)
    assert found["corrected"]["value"] == pytest.approx(1.0, abs=0.02)
    assert {label.reward for label in read_labels(folder).values()} == {1.0}
    file.write_text('{"problem_idx": 0, "grade": 11}\n')
    assert "not a label" in str(
        run("judge", "calibrate", folder, "--labels", file, code=1).exception
    )


def test_several_judges_are_told_apart(folder: Path) -> None:
    right = judged(folder)
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        good = right[line["problem_idx"]]
        line["scorer_rewards"] = {"second": float(good)}
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("judge", "sample", folder)
    give(folder, right)
    found = json.loads(run("judge", "calibrate", folder, "--json").output)
    by_name = {judge["judge"]: judge for judge in found["judges"]}
    assert (
        by_name["second"]["agreement"]["accuracy"]
        > 0.999
        > by_name["headline"]["agreement"]["accuracy"]
    )


def test_carried_to_another_run_with_its_assumption(folder: Path, tmp_path: Path) -> None:
    right = judged(folder, rows=1000)
    run("judge", "sample", folder, "--labels", 300)
    give(folder, right)
    run("judge", "calibrate", folder)
    other = tmp_path / "other" / "toy"
    truth = judged(other, rows=1000, seed=7)
    said = run("judge", "calibrate", other, "--from", folder).output
    assert "assumes that the judge errs on this run as often" in said
    found = json.loads(next(other.glob("eval-*.json")).read_text())["benchmark"]["calibration"][
        "corrected"
    ]
    assert (
        found["ci_method"] == "rogan_gladen"
        and found["ci_lower"] <= truth.mean() <= found["ci_upper"]
    )


def test_labelled_in_a_terminal_blind_and_resumed(folder: Path) -> None:
    right = judged(folder)
    run("judge", "sample", folder, "--labels", 12)
    drawn = json.loads((folder / "label_draw.json").read_text())["rows"]
    command = [
        sys.executable,
        ["-m", "nemo_evaluator.cli.main", "judge", "label", str(folder), "--who", "ada"],
    ]
    seen = pexpect.spawn(*command, encoding="utf-8", timeout=60, dimensions=(40, 120))
    keys = ["x", "r", "w", "b", "u", "s", "q"]
    shown = ""
    for key in keys:
        seen.expect(r"\[q\]uit > ")
        shown += seen.before
        seen.sendline(key)
    seen.expect(pexpect.EOF)
    seen.close()
    assert seen.exitstatus == 0 and "is none of these" in shown and "10 rows to go" in seen.before
    assert "question" in shown and "reward" not in shown and "score" not in shown
    first, second = (read_labels(folder)[row["problem_idx"], 0] for row in drawn[:2])
    assert (first.label, second.label, first.who) == ("right", "unsure", "ada")
    again = pexpect.spawn(*command, encoding="utf-8", timeout=60, dimensions=(40, 120))
    again.expect("2 rows labelled, 10 to go")
    for row in drawn[2:]:
        again.expect(r"\[q\]uit > ")
        again.sendline("right" if right[row["problem_idx"]] else "wrong")
    again.expect("all rows are labelled")
    again.expect(pexpect.EOF)
    again.close()
    assert json.loads(run("judge", "calibrate", folder, "--json").output)["labels"] == 11


@pytest.mark.parametrize(
    ("name", "data"),
    [("x.jsonl", b"garbage\n{}\n"), ("x.csv", b"a,b\n\x8a\xff,1\n"), ("x.csv", b"a\n1\n")],
)
def test_a_file_that_holds_no_labels_is_refused(folder: Path, name: str, data: bytes) -> None:
    judged(folder)
    file = folder.parent / name
    file.write_bytes(data)
    done = run("judge", "calibrate", folder, "--labels", file, code=1)
    assert isinstance(done.exception, UsageError) and name in done.exception.message


def test_a_look_at_rows_that_were_not_drawn_does_not_spoil_the_labels(folder: Path) -> None:
    right = judged(folder)
    run("judge", "sample", folder, "--labels", 60)
    drawn = {row["problem_idx"] for row in give(folder, right)}
    before = json.loads(run("judge", "calibrate", folder, "--json").output)
    for other in [at for at in range(400) if at not in drawn][:5]:
        append_label(folder, Label(other, 0, "wrong"))
    after = json.loads(run("judge", "calibrate", folder, "--json").output)
    assert after["corrected"] == before["corrected"]
    assert any("5 labels on rows that were not drawn, left out" in note for note in after["notes"])


def test_damaged_files_beside_a_run_do_not_hide_its_score(folder: Path) -> None:
    judged(folder)
    (folder / "noise.json").write_text("{")
    bundle = load_bundle(next(folder.glob("eval-*.json")))
    assert bundle.headline is not None and bundle.corrected is None and bundle.noise == {}


@pytest.mark.parametrize("hidden", [0.0, 1.0])
def test_the_corrected_score_holds_whatever_the_missing_labels_are(
    folder: Path, hidden: float
) -> None:
    right = judged(folder)
    run("judge", "sample", folder, "--labels", 100, "--seed", 1)
    drawn = json.loads((folder / "label_draw.json").read_text())["rows"]
    given = 0
    for row in drawn:
        if right[row["problem_idx"]] != hidden:
            word = "right" if right[row["problem_idx"]] else "wrong"
            append_label(folder, Label(row["problem_idx"], row["repeat"], word))  # type: ignore[arg-type]
            given += 1
    found = json.loads(run("judge", "calibrate", folder, "--json").output)
    assert found["labels"] == given
    assert found["missing_labels"] == 100 - given
    assert found["corrected"]["ci_lower"] <= right.mean() <= found["corrected"]["ci_upper"]
    assert 0.2 < found["corrected"]["value"] < 0.9
    assert "have no label or an unsure one" in found["note"]


def test_rates_of_incomplete_labels_are_not_carried_to_another_run(
    folder: Path, tmp_path: Path
) -> None:
    right = judged(folder)
    run("judge", "sample", folder, "--labels", 100, "--seed", 1)
    give(folder, right, only=80)
    run("judge", "calibrate", folder)
    other = tmp_path / "other" / "toy"
    judged(other, seed=2)
    refused = run("judge", "calibrate", other, "--from", folder, code=1)
    assert "incomplete: 20 drawn rows without a label" in str(refused.exception)
