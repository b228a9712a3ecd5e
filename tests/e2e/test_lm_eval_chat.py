"""Tasks of lm-eval on a chat endpoint give the scores and standard errors of `lm_eval --apply_chat_template`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval_runs import assert_equal, bench, go_offline, ours, scores, theirs_in_chat
from nel_support import Nel, rows

from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.testing import Say, ScriptedServer

pytestmark = pytest.mark.needs("lm_eval", "transformers")
STOCK = ("t_number", "t_bbh", "t_vote", "t_custom")
OWN: dict[str, dict[str, Any]] = {
    "c_plain": {"num_fewshot": 0},
    "c_shots": {"num_fewshot": 5},
    "c_described": {"num_fewshot": 2, "description": "Add the two numbers.\n\n"},
    "c_prefixed": {"num_fewshot": 2, "gen_prefix": "The sum is"},
    "c_delimited": {"num_fewshot": 3, "target_delimiter": " = ", "fewshot_delimiter": "\n###\n"},
    "c_first": {"num_fewshot": 3, "fewshot_config": {"sampler": "first_n", "split": "train"}},
    "c_from_test": {"num_fewshot": 2, "fewshot_split": "test"},
    "c_many_stops": {
        "num_fewshot": 1,
        "generation_kwargs": {"until": ["a1", "b2", "c3", "d4", "and"], "max_gen_toks": 20},
    },
    "c_bleu": {
        "num_fewshot": 1,
        "metric_list": [{"metric": "bleu", "aggregation": "bleu", "higher_is_better": True}],
        "filter_list": [{"name": "none", "filter": [{"function": "take_first"}]}],
    },
}
NAMES = [*STOCK, *OWN, "c_group"]


def reply(seen: Any) -> Say:
    """What a model says depends on all that it sees."""
    text = json.dumps(seen.body["messages"])
    value = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 40
    forms = [f"The answer is {value}.", f"#### {value}", f"{value} and then 7", "I do not know"]
    said = forms[value % 4]
    stops = [position for stop in seen.body["stop"] if (position := said.find(stop)) >= 0]
    return Say(said[: min(stops)] if stops else said)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    go_offline(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Task files."""
    tasks = pytest.importorskip("lm_eval_tasks")
    folder = tmp_path_factory.mktemp("chat")
    tasks.write_tasks(folder)
    stock = yaml.safe_load((folder / "t_number.yaml").read_text())
    for name, settings in OWN.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(stock | {"task": name} | settings))
    group = {
        "group": "c_group",
        "task": ["c_plain", "c_shots"],
        "aggregate_metric_list": [
            {"metric": "exact_match", "filter_list": ["strict-match", "flexible-extract"]}
        ],
    }
    (folder / "c_group.yaml").write_text(yaml.safe_dump(group))
    return folder


def in_chat(name: str, folder: Path, **params: Any) -> dict[str, Any]:
    benchmark = bench(name, folder, **params)
    del benchmark["params"]["tokenizer"]
    return benchmark


CHAT = {"path": "chat/completions", "protocol": "chat_completions"}


@pytest.fixture(scope="module")
def both(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[dict[str, Any], Path]]:
    """Of every task, lm-eval's own results and the folder of ours."""
    with pytest.MonkeyPatch.context() as patch, ScriptedServer(reply) as server:
        go_offline(patch)
        expected = [theirs_in_chat(server.url, [name], folder) for name in NAMES]
        benchmarks = [in_chat(name, folder) for name in NAMES]
        nel = Nel(tmp_path_factory.mktemp("ours"))
        tasks = ours(nel, server.url, *benchmarks, **CHAT)
    return dict(zip(NAMES, zip(expected, tasks, strict=True), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_errors_are_those_of_lm_eval(
    name: str, both: dict[str, tuple[dict[str, Any], Path]]
) -> None:
    expected, task = both[name]
    assert_equal(expected, task)
    assert any("_stderr," in key for key in scores(task))


def test_examples_in_one_message(folder: Path, nel: Nel) -> None:
    with ScriptedServer(reply) as server:
        expected = theirs_in_chat(server.url, ["c_described"], folder, multiturn=False)
        benchmark = in_chat("c_described", folder, fewshot_as_multiturn=False)
        (task,) = ours(nel, server.url, benchmark, **CHAT)
        roles = [message["role"] for message in server.requests[-1].body["messages"]]
    assert roles == ["system", "user"]
    assert_equal(expected, task)


def test_the_setting_is_refused_where_it_has_no_effect(folder: Path, nel: Nel) -> None:
    with ScriptedServer(reply) as server:
        benchmark = in_chat("c_plain", folder, fewshot_as_multiturn=True)
        service = {"type": "api", "url": f"{server.url}/completions", "protocol": "completions"}
        nel.config("c.json", services={"model": service | {"model": "m"}}, benchmarks=[benchmark])
        done = nel("eval", "run", "c.json", "--no-progress", "-o", "o", code=None)
        assert "has no effect on a completions endpoint" in done.stdout + done.stderr
        assert server.count == 0


def test_a_fallback_of_a_filter_is_an_unparsed_answer(
    both: dict[str, tuple[dict[str, Any], Path]],
) -> None:
    _, task = both["t_number"]
    unparsed = [row for row in rows(task) if row.get("unparsed")]
    assert unparsed and len(unparsed) < len(rows(task))
    for row in rows(task):
        assert row.get("unparsed", False) == ("#### " not in row["model_response"])
    (bundle,) = task.glob("eval-*.json")
    share = json.loads(bundle.read_text())["benchmark"]["unparsed_share"]
    assert share == pytest.approx(len(unparsed) / len(rows(task)), abs=1e-4)


async def test_only_the_requests_of_the_run_are_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from lm_eval.api.task import ConfigurableTask

    built: list[int] = []
    construct = ConfigurableTask.construct_requests

    def counted(self: Any, doc: Any, ctx: Any, **more: Any) -> Any:
        built.append(more["metadata"][1])
        return construct(self, doc, ctx, **more)

    monkeypatch.setattr(ConfigurableTask, "construct_requests", counted)
    environment = get_environment("lm-eval://c_group", params={"include_path": str(folder)})
    assert await environment.dataset_size() == 58
    assert built == []
    for problem in (40, 3, 40):
        await environment.seed(problem)
    assert sorted(built) == [3, 11]
    assert "it/s" not in capfd.readouterr().err


def test_a_dry_run_builds_and_prints_nothing(folder: Path, nel: Nel) -> None:
    with ScriptedServer(reply) as server:
        benchmark = in_chat("c_group", folder) | {"max_problems": 3}
        service = {"type": "api", "url": f"{server.url}/chat/completions", "model": "m"}
        nel.config("c.json", services={"model": service}, benchmarks=[benchmark])
        done = nel("eval", "run", "c.json", "--dry-run", "-o", "o")
        assert "3 problems x 1 = 3 steps" in done.stdout
        assert "it/s" not in done.stderr and "examples/s" not in done.stderr
        assert server.count == 0
