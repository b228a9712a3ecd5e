"""Tables of picture benchmarks: what is asked, what counts, and the walkthrough's config as it is written."""

import base64
import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.environments import get_environment
from nemo_evaluator.testing import ScriptedServer

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(300_000)).decode()
ROWS: list[dict[str, Any]] = [
    {
        "index": 1,
        "image": PNG,
        "question": "Which animal?",
        "A": "cat",
        "B": "dog",
        "answer": "B",
        "category": "pets",
    },
    {
        "index": 2,
        "image": "1",
        "question": "And which colour?",
        "A": "red",
        "B": "blue",
        "answer": "A",
        "hint": "Look.",
    },
    {"index": 3, "image": PNG, "question": "Is it a dog?", "answer": "Yes"},
    {"index": 4, "image": PNG, "question": "How many legs?", "answer": "four"},
    {"index": 5, "image": "99", "question": "Broken", "answer": "x"},
]
COLUMNS = ("index", "image", "question", "A", "B", "C", "answer", "category", "hint")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with (tmp_path / "MMBench_DEV_EN.tsv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter="\t")
        writer.writeheader()
        writer.writerows(ROWS)
    monkeypatch.setenv("LMUData", str(tmp_path))
    return "vlmevalkit://MMBench_DEV_EN"


async def test_questions_carry_their_pictures_and_options(table: str) -> None:
    environment = get_environment(table)
    first, second = await environment.seed(0), await environment.seed(1)
    assert "A. cat\nB. dog" in first.prompt
    assert first.images == second.images == [f"data:image/png;base64,{PNG}"]
    assert second.prompt.startswith("Hint: Look.\n")
    assert first.metadata["category"] == "pets"
    with pytest.raises(SeedError, match="index 99"):
        await environment.seed(4)


@pytest.mark.parametrize(
    ("idx", "response", "reward"),
    [
        (0, "B", 1.0),
        (0, "The answer is **B**.", 1.0),
        (0, "A", 0.0),
        (2, "Yes, it is.", 1.0),
        (2, "No.", 0.0),
        (3, "four", 1.0),
        (3, "It has four legs.", 1.0),
        (3, "two", 0.0),
    ],
)
async def test_answers(table: str, idx: int, response: str, reward: float) -> None:
    environment = get_environment(table)
    verdict = await environment.verify_answer(response, await environment.seed(idx))
    assert verdict.reward == reward


def test_a_table_that_is_not_there_says_where_it_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMUData", str(tmp_path))
    with pytest.raises(UsageError) as missed:
        get_environment("vlmevalkit://MME")
    assert "MME.tsv" in (missed.value.hint or "")


def test_the_walkthroughs_config_runs_as_written(table: str, tmp_path: Path) -> None:
    config = yaml.safe_load(
        (Path(__file__).parents[3] / "examples/configs/13_vlmevalkit_mmbench.yaml").read_text()
    )
    with ScriptedServer("B", api_key="key-of-the-test") as server:
        config["services"]["vila"]["url"] = f"{server.url}/chat/completions"
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
        done = subprocess.run(
            [Path(sys.executable).with_name("nel"), "eval", "run", "c.yaml"],
            cwd=tmp_path,
            env=os.environ | {"NVIDIA_API_KEY": "key-of-the-test"},
            capture_output=True,
            text=True,
        )
        # One of the five rows has no picture: it fails, and is not a 0.
        assert done.returncode == 3, done.stderr
        picture = server.requests[0].body["messages"][0]["content"][0]
    assert picture["image_url"]["detail"] == "high"
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")
    folder = next((tmp_path / "eval_results").glob("*/results.jsonl"))
    rows = [json.loads(line) for line in folder.read_text().splitlines()]
    assert [row["status"] for row in rows] == ["scored"] * 4 + ["failed"]
    assert PNG not in (folder.parent / "journal.jsonl").read_text()
