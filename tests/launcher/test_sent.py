"""What ``nel run`` would send for each task of the catalogue.

The files of ``sent/`` hold it, for people to review. After a change on purpose, write them again and read the
difference: ``NEL_WRITE_GOLDEN=1 pytest tests/launcher/test_sent.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from launcher_plans import plan_of

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.catalogue import Task, catalogue
from nemo_evaluator.launcher.routes import Preference, native_route

_SENT = Path(__file__).parent / "sent"
_FACTS = Path(__file__).parents[2] / "src/nemo_evaluator/launcher/data/catalogue.json"
_HARNESSES = sorted({task.harness for task in catalogue()})
_GENERATION = {"temperature": "temperature", "top_p": "top_p", "max_new_tokens": "max_tokens"}


def lines_of(tasks: Iterable[Task], prefer: Preference) -> list[str]:
    return [json.dumps(plan_of(task, prefer)) for task in tasks]


def compare(file: Path, lines: list[str]) -> None:
    if os.environ.get("NEL_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
    assert lines == file.read_text().splitlines()


@pytest.mark.parametrize("harness", _HARNESSES)
def test_what_is_sent_is_what_people_have_read(harness: str) -> None:
    tasks = [task for task in catalogue() if task.harness == harness]
    compare(_SENT / f"{harness}.jsonl", lines_of(tasks, "same"))


def test_what_native_sends_is_what_people_have_read() -> None:
    tasks = [task for task in catalogue() if native_route(task) is not None]
    compare(_SENT / "native.jsonl", lines_of(tasks, "native"))


def test_there_is_a_file_for_each_harness_and_no_other() -> None:
    assert {path.stem for path in _SENT.iterdir()} == {*_HARNESSES, "native"}


def facts_of(task: Task) -> JsonDict:
    """The launcher's defaults of a task, put together here and not by the code under test."""
    harness = json.loads(_FACTS.read_text())["harnesses"][task.harness]
    row = harness["tasks"][task.name]
    extra = harness["extra"] | row.get("extra", {})
    for key in row.get("without", []):
        del extra[key]
    params = harness["params"] | row.get("params", {})
    (endpoint,) = row.get("types", harness["types"])
    return {"params": params, "extra": extra, "endpoint": endpoint, "image": harness["image"]}


def pruned(value: Any) -> Any:
    """A value without its unset parts."""
    if not isinstance(value, dict):
        return value
    parts = {key: pruned(part) for key, part in value.items()}
    return {key: part for key, part in parts.items() if part not in (None, {})}


def container_differences(plan: JsonDict, facts: JsonDict) -> list[str]:
    sent = plan.get("params", {})
    expected = pruned({**facts["params"], "extra": facts["extra"]})
    differences = [
        f"{key}: {sent.get(key)} instead of {expected.get(key)}"
        for key in sorted({*sent, *expected})
        if sent.get(key) != expected.get(key)
    ]
    if plan["image"] != f"nvcr.io/nvidia/eval-factory/{facts['image']}:26.03":
        differences.append(f"image {plan['image']}")
    return differences


def request_differences(plan: JsonDict, facts: JsonDict) -> list[str]:
    generation = {
        own: facts["params"][name]
        for name, own in _GENERATION.items()
        if facts["params"].get(name) is not None
    }
    if plan["task"] == "ifeval" and plan["benchmark"] == "ifeval":
        # The limit of lm-eval's own task, which a harness without a limit of its own uses.
        generation = {"max_tokens": 1280, **generation}
    repeats = facts["extra"].get("num_repeats") or facts["extra"].get("n_samples") or 1
    expected = {
        "generation": generation,
        "fewshot": facts["extra"].get("num_fewshot"),
        "repeats": repeats,
        "max_concurrent": facts["params"].get("parallelism"),
        "max_retries": facts["params"].get("max_retries"),
        # lm-eval's own client builds messages for a chat endpoint.
    }
    sent = {
        "generation": plan.get("generation", {}),
        "fewshot": plan.get("fewshot"),
        "repeats": plan.get("repeats", 1),
        "max_concurrent": plan.get("max_concurrent"),
        "max_retries": plan.get("max_retries"),
    }
    return [
        f"{key}: {sent[key]} instead of {expected[key]}"
        for key in sent
        if sent[key] != expected[key]
    ]


def differences_of(task: Task, prefer: Preference) -> list[str]:
    """What would be sent otherwise than the launcher's catalogue says."""
    plan = plan_of(task, prefer)
    facts = facts_of(task)
    if facts["endpoint"] == "embedding":
        # nel evaluates no embeddings, and says so.
        return [] if "embedding endpoint" in plan.get("refused", "") else [str(plan)]
    if "refused" in plan:
        return [plan["refused"]]
    path = "/v1/completions" if facts["endpoint"] == "completions" else "/v1/chat/completions"
    differences = [] if plan["url"].endswith(path) else [f"url {plan['url']}"]
    if "image" in plan:
        return differences + container_differences(plan, facts)
    return differences + request_differences(plan, facts)


@pytest.mark.parametrize("prefer", ["same", "native", "containers"])
def test_every_task_sends_the_launchers_defaults(prefer: Preference) -> None:
    differences = {task.full_name: differences_of(task, prefer) for task in catalogue()}
    assert len(differences) == 421
    wrong = {name: found for name, found in differences.items() if found}
    print(f"{len(wrong)} differences in {len(differences)} tasks")
    assert wrong == {}


def test_the_users_parameters_replace_the_defaults() -> None:
    tasks = {task.full_name: task for task in catalogue()}
    own = {"temperature": 0.6, "extra": {"n_samples": 3, "judge": {"model_id": "mine"}}}
    contained = plan_of(tasks["simple_evals.AIME_2025"], params=own)["params"]
    assert contained["temperature"] == 0.6 and contained["top_p"] == 1e-05
    assert contained["extra"]["n_samples"] == 3
    assert contained["extra"]["judge"]["model_id"] == "mine"
    assert contained["extra"]["judge"]["api_key"] == "JUDGE_API_KEY"
    native = plan_of(
        tasks["simple_evals.AIME_2025"], "native", params={"extra": {"num_repeats": 2}}
    )
    assert native["repeats"] == 2
    examples = plan_of(
        tasks["lm-evaluation-harness.hellaswag"], params={"extra": {"num_fewshot": 0}}
    )
    assert examples["fewshot"] == 0


def test_arguments_of_lm_eval_have_their_effect_or_are_refused() -> None:
    tasks = {task.name: task for task in catalogue() if task.harness == "lm-evaluation-harness"}
    plan = plan_of(
        tasks["hellaswag"],
        params={
            "limit_samples": 10,
            "extra": {"tokenizer": "org/tokenizer", "args": "--trust_remote_code"},
        },
    )
    assert plan["params"] == {"limit": 10, "tokenizer": "org/tokenizer"}
    assert plan_of(tasks["hellaswag"], params={"limit_samples": 0.5})["params"] == {"limit": 0.5}
    refused = plan_of(tasks["hellaswag"], params={"extra": {"args": "--add_instruction"}})[
        "refused"
    ]
    assert "--add_instruction" in refused and "--containers" in refused


def test_a_container_cannot_use_a_judge_that_the_run_starts() -> None:
    (simpleqa,) = (task for task in catalogue() if task.name == "simpleqa")
    judge = {"judge": {"url": "auxiliary_deployments.judge.chat_url", "model_id": "j"}}
    assert "--native" in plan_of(simpleqa, params={"extra": judge})["refused"]
