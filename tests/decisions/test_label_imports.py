"""Labels from files and from several people: what is kept, what is refused, what is reported."""

import json
from pathlib import Path

import pytest

from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.labels import Label, append_label, disputed_rows, read_labels

from .test_calibrate import give, judged, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "toy"


def label_file(folder: Path, words: dict[int, str]) -> Path:
    file = folder.parent / "labels.jsonl"
    lines = [json.dumps({"problem_idx": idx, "label": word}) + "\n" for idx, word in words.items()]
    file.write_text("".join(lines))
    return file


def drawn_words(folder: Path, right: list[float]) -> dict[int, str]:
    drawn = json.loads((folder / "label_draw.json").read_text())["rows"]
    return {row["problem_idx"]: "right" if right[row["problem_idx"]] else "wrong" for row in drawn}


def test_importing_a_file_twice_changes_nothing(folder: Path) -> None:
    words_of = judged(folder).tolist()
    run("judge", "sample", folder, "--labels", 40)
    file = label_file(folder, drawn_words(folder, words_of))
    first = json.loads(run("judge", "calibrate", folder, "--labels", file, "--json").output)
    stored = (folder / "labels.jsonl").read_text()
    again = json.loads(run("judge", "calibrate", folder, "--labels", file, "--json").output)
    assert (folder / "labels.jsonl").read_text() == stored
    assert again == first and len(stored.splitlines()) == 40


def test_a_changed_label_replaces_the_earlier_one_with_a_note(folder: Path) -> None:
    words_of = judged(folder).tolist()
    run("judge", "sample", folder, "--labels", 40)
    words = drawn_words(folder, words_of)
    run("judge", "calibrate", folder, "--labels", label_file(folder, words))
    problem = next(iter(words))
    before = words[problem]
    words[problem] = "wrong" if before == "right" else "right"
    file = label_file(folder, words)
    found = json.loads(run("judge", "calibrate", folder, "--labels", file, "--json").output)
    note = f"1 label of the file replaced a different one, such as problem {problem}: {before} became {words[problem]}"
    assert note in found["notes"]
    assert len((folder / "labels.jsonl").read_text().splitlines()) == 41
    assert read_labels(folder)[problem, 0].label == words[problem]


def test_two_labels_of_one_row_in_a_file_are_refused(folder: Path) -> None:
    words_of = judged(folder).tolist()
    run("judge", "sample", folder, "--labels", 40)
    words = drawn_words(folder, words_of)
    problem = next(iter(words))
    file = label_file(folder, words)
    same = json.dumps({"problem_idx": problem, "label": words[problem]}) + "\n"
    file.write_text(file.read_text() + same)
    run("judge", "calibrate", folder, "--labels", file)
    stored = (folder / "labels.jsonl").read_text()
    file.write_text(file.read_text() + json.dumps({"problem_idx": problem, "label": "unsure"}))
    refused = run("judge", "calibrate", folder, "--labels", file, code=1).exception
    assert f"labels problem {problem}, repeat 0 as {words[problem]} and as unsure" in str(refused)
    assert (folder / "labels.jsonl").read_text() == stored


def test_people_who_disagree_are_reported(folder: Path) -> None:
    right = judged(folder)
    run("judge", "sample", folder, "--labels", 40)
    give(folder, right)
    problem = next(iter(read_labels(folder)))[0]
    append_label(folder, Label(problem, 0, "wrong", who="ada"))
    append_label(folder, Label(problem, 0, "right", who="bob"))
    assert disputed_rows(folder) == [(problem, 0)]
    found = json.loads(run("judge", "calibrate", folder, "--json").output)
    disagreement = f"people disagree on 1 row, such as problem {problem}: the last label counts"
    assert disagreement in found["notes"]


def test_a_new_draw_removes_the_old_corrected_score(folder: Path) -> None:
    right = judged(folder)
    run("judge", "sample", folder, "--labels", 40)
    give(folder, right)
    run("judge", "calibrate", folder)
    bundle = load_bundle(next(folder.glob("eval-*.json")))
    assert bundle.corrected is not None
    output = run("judge", "sample", folder, "--labels", 40, "--replace", "--seed", 1).output
    assert "the corrected score of the earlier draw was removed" in output
    bundle = load_bundle(next(folder.glob("eval-*.json")))
    assert bundle.corrected is None and bundle.calibration is None
    assert not any(score.name.startswith("corrected") for score in bundle.scores)
    assert "corrected" not in json.dumps(bundle.document["benchmark"]["scores"])
    run("check", folder)
