"""Tasks of lm-eval run by it and by us on the same server, and their comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, rows

from nemo_evaluator.core.files import safe_name


def go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")


def block(url: str, path: str = "completions", **more: Any) -> dict[str, Any]:
    return {
        "type": "api",
        "url": f"{url}/{path}",
        "protocol": "completions",
        "model": "m",
        "generation": {"seed": 1234},
        **more,
    }


def bench(name: str, folder: Path, **params: Any) -> dict[str, Any]:
    return {
        "name": f"lm-eval://{name}",
        "solver": {"type": "simple", "service": "model"},
        "params": {"include_path": str(folder), "tokenizer": str(folder), **params},
        "max_concurrent": 8,
    }


def ours(nel: Nel, url: str, *benches: dict[str, Any], **more: Any) -> list[Path]:
    """The folders of the benchmarks, in order."""
    nel.config(
        "c.json",
        services={"model": block(url, **more)},
        benchmarks=list(benches),
        output={"dir": "o"},
    )
    nel("eval", "run", "c.json", "--no-progress", timeout=1200)
    return [nel.folder / "o" / safe_name(one["name"]) for one in benches]


def scores(task: Path) -> dict[str, float]:
    (bundle,) = task.glob("eval-*.json")
    found = json.loads(bundle.read_text())["benchmark"]["scores"]
    return {key: value["value"] for key, value in found.items() if "," in key}


def theirs(
    url: str,
    names: list[str],
    folder: Path,
    tokenizer: Path | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    where = f"base_url={url}/completions,model=m,tokenizer={tokenizer or folder},tokenizer_backend=huggingface"
    found = simple_evaluate(
        model="local-completions",
        model_args=f"{where},num_concurrent=1,max_length=2048",
        tasks=names,
        limit=limit,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        log_samples=True,
    )
    assert found is not None
    return dict(found)


def theirs_in_chat(
    url: str, names: list[str], folder: Path, *, multiturn: bool = True, limit: int | None = None
) -> dict[str, Any]:
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    found = simple_evaluate(
        model="local-chat-completions",
        model_args=f"base_url={url}/chat/completions,model=m,num_concurrent=1",
        tasks=names,
        limit=limit,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        apply_chat_template=True,
        fewshot_as_multiturn=multiturn,
        log_samples=True,
    )
    assert found is not None
    return dict(found)


def assert_equal(expected: dict[str, Any], task: Path) -> None:
    """Scores to the last digit; every row's metrics and log-probabilities to 1e-4."""
    results = expected["results"]
    grouped = len(results) > 1
    wanted = {
        (f"{part}/{key}" if grouped else key): value
        for part, found in results.items()
        for key, value in found.items()
        if "," in key and value != "N/A"
    }
    assert wanted
    assert scores(task) == wanted
    samples = [one for part in expected["samples"].values() for one in part]
    per_row = {(row["metadata"]["category"], row["metadata"]["doc_id"]): row for row in rows(task)}
    for part, found in expected["samples"].items():
        for sample in found:
            values = per_row[part, sample["doc_id"]]["scoring_details"]["metrics"]
            for metric in sample["metrics"]:
                left, right = values[f"{metric},{sample['filter']}"], sample[metric]
                assert json.loads(json.dumps(left)) == pytest.approx(
                    json.loads(json.dumps(right)), abs=1e-4
                )
    assert samples


def their_messages(url: str, name: str, folder: Path, num_fewshot: int) -> None:
    """Ask lm-eval to run a task with its own client for chat endpoints."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    simple_evaluate(
        model="local-chat-completions",
        model_args=f"base_url={url}/chat/completions,model=m,num_concurrent=1",
        tasks=[name],
        num_fewshot=num_fewshot,
        limit=0.2,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        bootstrap_iters=0,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
    )
