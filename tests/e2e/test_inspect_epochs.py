"""Epochs and roles of Inspect tasks give the metrics of `inspect eval`, and no model grades its own answers unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, rows

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.testing import Say, ScriptedServer

pytestmark = pytest.mark.needs("inspect")
TASKS = """
import sys
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import (
    Score, accuracy, at_least, match, mean, model_graded_qa, score_reducer, scorer, std, stderr,
)
from inspect_ai.solver import generate, solver

def samples(name):
    return [Sample(input=f"{name}: {n} plus {n}?", target=str(2 * n)) for n in range(6)]

@score_reducer
def worst():
    def reduce(scores):
        return Score(value=min(1.0 if s.value == "C" else 0.0 for s in scores))
    return reduce

@scorer(metrics={"long": [mean(), std()], "even": [accuracy(), stderr()]})
def shape():
    async def score(state, target):
        text = state.output.completion
        return Score(value={"long": len(text), "even": len(text) % 2}, answer=text)
    return score

def of(epochs, scorer=None):
    name = sys._getframe(1).f_code.co_name
    return Task(samples(name), solver=generate(), scorer=scorer or match(), epochs=epochs)

@task
def plain(): return of(3)
@task
def one_of_several(): return of(Epochs(4, ["at_least_2"]))
@task
def several(): return of(Epochs(4, ["mean", "at_least_1", "at_least_3", "pass_at_2", "max"]))
@task
def median_of(): return of(Epochs(3, "median"))
@task
def mode_of(): return of(Epochs(5, "mode"))
@task
def max_of(): return of(Epochs(2, "max"))
@task
def pass_at(): return of(Epochs(4, "pass_at_3"))
@task
def own_reducer(): return of(Epochs(3, worst()))
@task
def of_dicts(): return of(Epochs(3, "mean"), [shape(), match()])

@task
def graded(): return of(2, model_graded_qa())

@scorer(metrics=[accuracy(), stderr()])
def by_own_words(role="critic"):
    async def score(state, target):
        verdict = await get_model(role=role).generate(f"Good? {state.output.completion}")
        return Score(value="C" if "GRADE: C" in verdict.completion else "I")
    return score

@task
def criticised(): return of(1, by_own_words())

@solver
def talk(user):
    async def solve(state, generate):
        state = await generate(state)
        question = await user.generate("Say more. " + state.output.completion)
        state.messages.append(question.message.model_copy())
        return await generate(state)
    return solve

@task
def simulated():
    return Task(samples("simulated"), solver=talk(get_model(role="user")), scorer=match())
"""
EPOCHS = {
    "plain": 3,
    "one_of_several": 4,
    "several": 4,
    "median_of": 3,
    "mode_of": 5,
    "max_of": 2,
    "pass_at": 4,
    "own_reducer": 3,
    "of_dicts": 3,
    "graded": 2,
    "criticised": 1,
    "simulated": 1,
}
ROLES = {"graded": "grader", "criticised": "critic", "simulated": "user"}


class Model:
    """Answers the same question differently each time, in the same sequence for everybody."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.roles: Counter[str] = Counter()

    def __call__(self, seen: Any) -> Say:
        text = json.dumps(seen.body["messages"])
        self.roles[seen.body["model"]] += 1
        if seen.body["model"] == "other":
            return Say(f"GRADE: {'CI'[len(text) % 2]}")
        if "plus " not in text:
            return Say("more")
        with self._lock:
            self._asked[text] += 1
            time = self._asked[text]
        number = int(text.split("plus ")[1].split("?")[0])
        return Say(str(2 * number + (time + number) % 3 // 2))


def config(nel: Nel, url: str, names: Iterable[str], **params: Any) -> list[Path]:
    (nel.folder / "own.py").write_text(TASKS)
    services: dict[str, Any] = {}
    for name, model in (("model", "m"), ("other", "other")):
        services[name] = {"type": "api", "url": f"{url}/chat/completions", "model": model}
    services["model"]["generation"] = {"temperature": 0}
    benchmarks = []
    for name in names:
        benchmark: dict[str, Any] = {"name": f"inspect://own.py@{name}"}
        benchmark["solver"] = {"type": "simple", "service": "model"}
        if name in ROLES:
            benchmark["params"] = params or {"roles": {ROLES[name]: "other"}}
        benchmarks.append(benchmark)
    nel.config("c.json", services=services, benchmarks=benchmarks, output={"dir": "o"})
    return [nel.folder / "o" / safe_name(benchmark["name"]) for benchmark in benchmarks]


def native(folder: Path) -> dict[str, dict[str, float]]:
    """The metrics of `inspect eval` of each task, under the names of nel."""
    words = [str(Path(sys.executable).with_name("inspect")), "eval"]
    words += [f"own.py@{name}" for name in EPOCHS]
    words += ["--model", "openai-api/own/m", "--temperature", "0", "--display", "none"]
    words += ["--log-dir", "logs", "--log-format", "json"]
    for role in ROLES.values():
        words += ["--model-role", f"{role}=openai-api/own/other"]
    with ScriptedServer(Model()) as server:
        env = os.environ | {"OWN_BASE_URL": server.url, "OWN_API_KEY": "k"}
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    metrics: dict[str, dict[str, float]] = {}
    for path in (folder / "logs").glob("*.json"):
        log = json.loads(path.read_text())
        name = log["eval"]["task"].rpartition("/")[2]
        metrics[name] = metrics_of(log["results"]["scores"])
    return metrics


def metrics_of(results: list[dict[str, Any]]) -> dict[str, float]:
    """The metrics of one log."""
    reducers = {score.get("reducer") for score in results}
    metrics: dict[str, float] = {}
    for score in results:
        scorer = score["name"]
        if len(reducers) > 1:
            scorer += f"/{score['reducer']}"
        for key, metric in score["metrics"].items():
            metrics[f"{scorer}/{key}"] = metric["value"]
    return metrics


def scores_of(folder: Path) -> dict[str, float]:
    (bundle,) = folder.glob("eval-*.json")
    document = json.loads(bundle.read_text())
    assert document["validity"]["status"] == "VALID"
    scores = document["benchmark"]["scores"]
    return {key: entry["value"] for key, entry in scores.items() if "/" in key}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, float], Path]]:
    """Of every task, the metrics of `inspect eval` and the folder of ours."""
    nel = Nel(tmp_path_factory.mktemp("epochs"))
    with ScriptedServer(Model()) as server:
        folders = config(nel, server.url, EPOCHS)
        expected = native(nel.folder)
        nel("eval", "run", "c.json", "--no-progress", timeout=1200)
    pairs: dict[str, tuple[dict[str, float], Path]] = {}
    for name, folder in zip(EPOCHS, folders, strict=True):
        pairs[name] = expected[name], folder
    return pairs


@pytest.mark.parametrize("name", EPOCHS)
def test_metrics_are_those_of_inspect_eval(
    name: str, both: dict[str, tuple[dict[str, float], Path]]
) -> None:
    expected, folder = both[name]
    assert expected
    assert scores_of(folder) == expected
    repeats = Counter(row["problem_idx"] for row in rows(folder))
    assert repeats == dict.fromkeys(range(6), EPOCHS[name])


def test_a_killed_run_asks_only_for_the_epochs_that_are_missing(nel: Nel) -> None:
    with ScriptedServer(Model()) as server:
        (folder,) = config(nel, server.url, ["plain"])
        nel("eval", "run", "c.json", "--no-progress", timeout=600)
        journal = folder / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(b"".join(lines[: len(lines) // 2]))
        count = server.count
        nel("eval", "run", "c.json", "--no-progress", "--resume", timeout=600)
        assert 0 < server.count - count < count
    assert len(rows(folder)) == 18


@pytest.mark.parametrize("name", ROLES)
def test_a_role_without_a_model_is_refused_before_the_run(name: str, nel: Nel) -> None:
    with ScriptedServer(Model()) as server:
        config(nel, server.url, [name], max_samples=4)
        done = nel("eval", "run", "c.json", "--no-progress", code=None, timeout=600)
        text = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0
        assert f"asks for the role '{ROLES[name]}'" in text
        assert f"params.roles: {{{ROLES[name]}: SERVICE}}" in text
        assert server.count == 0


def test_a_model_that_would_grade_itself_is_refused_as_everywhere(nel: Nel) -> None:
    with ScriptedServer(Model()) as server:
        config(nel, server.url, ["graded"], model_roles={"grader": "model"})
        done = nel("eval", "run", "c.json", "--no-progress", code=1)
        assert "the model 'model' would judge its own answers" in done.stdout + done.stderr
        config(nel, server.url, ["graded"], roles={"grader": "modle"})
        done = nel("eval", "run", "c.json", "--no-progress", code=1)
        assert "no service is called 'modle'" in done.stdout + done.stderr
        assert server.count == 0


def test_alias_and_allowed_self_judging(nel: Nel) -> None:
    model = Model()
    with ScriptedServer(model) as server:
        (folder,) = config(nel, server.url, ["graded"], model_roles={"grader": "other"})
        nel("eval", "run", "c.json", "--no-progress", timeout=600)
        assert model.roles == {"m": 12, "other": 12}
        assert {row["scoring_details"]["role_tokens"]["grader"] > 0 for row in rows(folder)} == {
            True
        }
        config(nel, server.url, ["simulated"], allow_self_judge=True)
        nel("eval", "run", "c.json", "--no-progress", timeout=600)


def test_fewer_repeats_than_the_reducer_needs_are_refused(nel: Nel) -> None:
    with ScriptedServer(Model()) as server:
        config(nel, server.url, ["one_of_several"])
        done = nel(
            "eval", "run", "c.json", "-O", "benchmarks.0.repeats=1", "--no-progress", code=None
        )
        assert "aggregates at least 2 answers per problem, not 1" in done.stdout + done.stderr
        assert server.count == 0
        dry = nel("eval", "run", "c.json", "--dry-run")
        assert "6 problems x 4 = 24 steps" in dry.stdout + dry.stderr
