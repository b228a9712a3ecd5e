"""Tasks of Inspect give the scores of `inspect eval`; rows go through our journal, and its errors are never zeros."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, rows

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.testing import Say, ScriptedServer

pytestmark = pytest.mark.needs("inspect")
TASKS = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, choice, match, mean, scorer, std, stderr
from inspect_ai.solver import generate, multiple_choice, system_message

@task
def sums(size=8):
    samples = [Sample(input=f"How much is {n} plus {n}?", target=str(2 * n)) for n in range(size)]
    return Task(samples, solver=[system_message("Be brief."), generate()], scorer=match())

@task
def letters():
    samples = [Sample(input=f"Which is letter {n}?", choices=["x", "y", "z"], target="ABC"[n % 3], id=f"l{n}")
               for n in range(6)]
    return Task(samples, solver=multiple_choice(), scorer=choice())

@scorer(metrics={"long": [mean(), std()], "even": [accuracy()]})
def shape():
    async def score(state, target):
        text = state.output.completion
        return Score(value={"long": len(text), "even": len(text) % 2}, answer=text)
    return score

@task
def shapes():
    return Task([Sample(input="a" * n, target="") for n in range(1, 6)], scorer=[shape(), match()])
"""
NAMES = ["sums", "letters", "shapes"]


def say(seen: Any) -> Say:
    text = json.dumps(seen.body["messages"][-1])
    if "How much" in text:
        return Say(str(int(text.split("plus ")[1].split("?")[0]) * 2 + ("3 plus" in text)))
    return Say("ANSWER: B") if "letter" in text else Say("b" * (len(text) % 7))


def config(nel: Nel, url: str, *names: str, **service: Any) -> list[Path]:
    (nel.folder / "own.py").write_text(TASKS)
    block = {
        "type": "api",
        "url": f"{url}/chat/completions",
        "model": "m",
        "generation": {"temperature": 0},
        **service,
    }
    benches = [{"name": f"inspect://own.py@{name}"} for name in names]
    nel.config("c.json", services={"model": block}, benchmarks=benches, output={"dir": "o"})
    return [nel.folder / "o" / safe_name(one["name"]) for one in benches]


def own_scores(folder: Path, url: str) -> dict[str, dict[str, float]]:
    """What `inspect eval` itself makes of the tasks."""
    env = os.environ | {"OWN_BASE_URL": url, "OWN_API_KEY": "k"}
    words = [
        str(Path(sys.executable).with_name("inspect")),
        "eval",
        *(f"own.py@{name}" for name in NAMES),
    ]
    words += [
        "--model",
        "openai-api/own/m",
        "--temperature",
        "0",
        "--log-dir",
        "logs",
        "--log-format",
        "json",
    ]
    subprocess.run(
        [*words, "--display", "none"],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        timeout=600,
    )
    found = {}
    for path in (folder / "logs").glob("*.json"):
        log = json.loads(path.read_text())
        values = {
            f"{s['name']}/{k}": m["value"]
            for s in log["results"]["scores"]
            for k, m in s["metrics"].items()
        }
        found[log["eval"]["task"].rpartition("/")[2]] = values
    return found


def test_scores_are_those_of_inspect(nel: Nel) -> None:
    with ScriptedServer(say) as server:
        folders = config(nel, server.url, *NAMES)
        expected = own_scores(nel.folder, server.url)
        nel("eval", "run", "c.json", "--no-progress", timeout=600)
    for name, folder in zip(NAMES, folders, strict=True):
        (bundle,) = folder.glob("eval-*.json")
        scores = json.loads(bundle.read_text())["benchmark"]["scores"]
        assert expected[name]
        assert {key: scores[key]["value"] for key in expected[name]} == expected[name]
    sums = rows(folders[0])
    assert [row["reward"] for row in sums] == [1, 1, 1, 0, 1, 1, 1, 1]
    assert all(row["model_response"] and row["prompt_tokens"] for row in sums)


def test_an_error_is_a_failed_row_and_resume_runs_it_alone(nel: Nel) -> None:
    broken = True

    def flaky(seen: Any) -> Say:
        return (
            Say(status=500, message="broken")
            if broken and "5 plus 5" in json.dumps(seen.body)
            else say(seen)
        )

    with ScriptedServer(flaky) as server:
        (folder,) = config(nel, server.url, "sums", retry={"max_retries": 0})
        nel("eval", "run", "c.json", "--no-progress", timeout=600, code=3)
        failed = [row for row in rows(folder) if row["status"] == "failed"]
        assert [row["problem_idx"] for row in failed] == [5]
        assert failed[0]["reward"] is None and failed[0]["failure"]["cause"] == "transport"
        assert "broken" in failed[0]["failure"]["message"]
        broken, count = False, server.count
        nel("eval", "run", "c.json", "--no-progress", "--resume", timeout=600)
        assert server.count == count + 1
        assert [row["reward"] for row in rows(folder)] == [1, 1, 1, 0, 1, 1, 1, 1]


def test_a_task_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="cannot load 'no_such/task'"):
        get_environment("inspect://no_such/task")
