"""Tasks of lm-eval give the scores of lm-eval's own run, to the last digit; rows go through our journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lm_eval_runs import assert_equal, bench, block, go_offline, ours, theirs
from nel_support import Nel, rows

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.testing import Say, ScriptedServer

pytestmark = pytest.mark.needs("lm_eval", "transformers")
NAMES = [
    "t_choice",
    "t_number",
    "t_bbh",
    "t_vote",
    "t_rolling",
    "t_lambada",
    "t_custom",
    "g_weighted",
    "g_plain",
]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    go_offline(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Task files and a tokenizer."""
    tasks = pytest.importorskip("lm_eval_tasks")
    folder = tmp_path_factory.mktemp("lm_eval")
    tasks.write_tasks(folder)
    tasks.write_tokenizer(folder)
    return folder


@pytest.fixture
def model(folder: Path) -> Iterator[tuple[Any, ScriptedServer]]:
    """The model and where it is served."""
    tasks = pytest.importorskip("lm_eval_tasks")
    said = tasks.Model(folder)
    with ScriptedServer(said) as server:
        yield said, server


@pytest.fixture(scope="module")
def both(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[dict[str, Any], Path]]:
    """Of every family, lm-eval's own results and the folder of ours."""
    said = pytest.importorskip("lm_eval_tasks").Model(folder)
    with pytest.MonkeyPatch.context() as patch, ScriptedServer(said) as server:
        go_offline(patch)
        expected = [theirs(server.url, [name], folder) for name in NAMES]
        said.asked.clear()
        tasks = ours(
            Nel(tmp_path_factory.mktemp("ours")),
            server.url,
            *(bench(name, folder) for name in NAMES),
        )
    return dict(zip(NAMES, zip(expected, tasks, strict=True), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_lm_eval(
    name: str, both: dict[str, tuple[dict[str, Any], Path]]
) -> None:
    expected, task = both[name]
    assert_equal(expected, task)


def test_a_server_without_prompt_logprobs_is_found_out_before_the_first_problem(
    folder: Path, nel: Nel
) -> None:
    with ScriptedServer(lambda seen: Say("x")) as server:
        nel.config(
            "c.json", services={"model": block(server.url)}, benchmarks=[bench("t_choice", folder)]
        )
        done = nel("eval", "run", "c.json", "--no-progress", "-o", "o", code=2)
        assert "does not give the log-probabilities of a prompt" in done.stdout + done.stderr
        assert "vLLM" in done.stdout + done.stderr
        assert server.count == 2


def test_log_probabilities_that_are_one_token_off_are_found_out(folder: Path, nel: Nel) -> None:
    said = pytest.importorskip("lm_eval_tasks").Model(folder, shift=1)
    with ScriptedServer(said) as server:
        nel.config(
            "c.json", services={"model": block(server.url)}, benchmarks=[bench("t_choice", folder)]
        )
        done = nel("eval", "run", "c.json", "--no-progress", "-o", "o", code=2)
        assert (
            "the log-probabilities of prompts are not those of generation"
            in done.stdout + done.stderr
        )
        assert "llama-cpp-python" in done.stdout + done.stderr
        assert server.count <= 4


def test_log_likelihoods_over_chat_are_refused_before_the_first_request(
    folder: Path, nel: Nel
) -> None:
    with ScriptedServer("x") as server:
        chat = {"type": "api", "url": f"{server.url}/chat/completions", "model": "m"}
        one = {
            "name": "lm-eval://t_choice",
            "params": {"include_path": str(folder), "tokenizer": str(folder)},
        }
        nel.config("c.json", services={"model": chat}, benchmarks=[one], output={"dir": "o"})
        done = nel("eval", "run", "c.json", "--no-progress", code=None)
        assert done.returncode != 0
        assert "asks for log-likelihoods" in done.stdout + done.stderr
        assert server.count == 0


def test_without_a_tokenizer_the_offsets_of_the_server_split_the_text(
    folder: Path,
    model: tuple[Any, ScriptedServer],
    nel: Nel,
    both: dict[str, tuple[dict[str, Any], Path]],
) -> None:
    _, server = model
    (with_text,) = ours(nel, server.url, bench("t_choice", folder, tokenizer=None))
    assert [row["reward"] for row in rows(with_text)] == [
        row["reward"] for row in rows(both["t_choice"][1])
    ]


def test_a_killed_run_asks_nothing_twice(
    folder: Path, model: tuple[Any, ScriptedServer], nel: Nel
) -> None:
    _, server = model
    (task,) = ours(nel, server.url, bench("t_small", folder))
    count, before = server.count, rows(task)
    journal = task / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    nel("eval", "run", "c.json", "--no-progress", "--resume")
    assert 0 < server.count - count < count
    changing = {"latency_ms", "queue_ms", "attempts", "model_response"}
    assert [{k: v for k, v in row.items() if k not in changing} for row in rows(task)] == [
        {k: v for k, v in row.items() if k not in changing} for row in before
    ]


@pytest.mark.needs("model", "xllamacpp")
def test_the_embedded_model_gives_log_likelihoods_token_by_token(folder: Path, nel: Nel) -> None:
    served = {
        "type": "llama_cpp",
        "model": "smollm2-135m",
        "protocol": "completions",
        "backend": "xllamacpp",
    }
    served |= {"context_size": 1024, "slots": 2}
    capitals = [
        {"question": "The capital of France", "choices": ["Paris", "Berlin"], "gold": 0},
        {"question": "The capital of Germany", "choices": ["Paris", "Berlin"], "gold": 1},
    ]
    (folder / "capitals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in capitals))
    text = (folder / "t_small.yaml").read_text().replace("more.jsonl", "capitals.jsonl")
    text = text.replace("t_small", "t_capitals").replace(
        "Question: {{question}}\n\n  Answer:", "{{question}} is"
    )
    (folder / "t_capitals.yaml").write_text(text)
    nel.config(
        "c.json",
        services={"model": served},
        benchmarks=[bench("t_capitals", folder, tokenizer=None)],
    )
    nel("eval", "run", "c.json", "--no-progress", "-o", "o", timeout=300)
    (task,) = (path.parent for path in (nel.folder / "o").glob("*/results.jsonl"))
    assert [row["reward"] for row in rows(task)] == [1.0, 1.0]
    for row in rows(task):
        values = [value for value, _ in json.loads(row["model_response"])]
        assert all(-30 < value < 0 for value in values)


def test_names_and_parameters_are_checked(folder: Path) -> None:
    with pytest.raises(UsageError, match="no task, group or tag 't_choise'") as wrong:
        get_environment("lm-eval://t_choise", params={"include_path": str(folder)})
    assert wrong.value.hint == "did you mean 't_choice'?"
    with pytest.raises(UsageError, match="no metric 'bleu'"):
        get_environment(
            "lm-eval://t_choice", params={"include_path": str(folder), "metric": "bleu"}
        )
    with pytest.raises(UsageError, match="runs what the model wrote on this machine"):
        get_environment("lm-eval://t_unsafe", params={"include_path": str(folder)})
