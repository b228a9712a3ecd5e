"""On a chat endpoint, tasks of lm-eval send the messages that lm-eval's own client sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lm_eval_runs import go_offline, their_messages
from nel_support import Nel

from nemo_evaluator.testing import ScriptedServer

pytestmark = pytest.mark.needs("lm_eval", "transformers")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Task files, also one with a prefix for the reply."""
    go_offline(monkeypatch)
    pytest.importorskip("lm_eval_tasks").write_tasks(tmp_path)
    (tmp_path / "t_prefixed.yaml").write_text(
        "include: t_number.yaml\ntask: t_prefixed\ngen_prefix: The answer is\n"
    )
    return tmp_path


def messages_of(server: ScriptedServer) -> list[str]:
    return sorted(json.dumps(request.body["messages"]) for request in server.requests)


@pytest.mark.parametrize("name", ["t_number", "t_prefixed"])
def test_messages_are_those_of_lm_evals_own_client(
    name: str, folder: Path, nel: Nel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    with ScriptedServer("7") as server:
        their_messages(server.url, name, folder, num_fewshot=2)
        theirs = messages_of(server)
    with ScriptedServer("7") as server:
        service = {"type": "api", "url": f"{server.url}/chat/completions", "model": "m"}
        params: dict[str, Any] = {"include_path": str(folder), "limit": 0.2}
        bench = {"name": f"lm-eval://{name}", "fewshot": 2, "params": params}
        nel.config("c.json", services={"model": service}, benchmarks=[bench], output={"dir": "o"})
        nel("eval", "run", "c.json", "--no-progress", code=None)
        ours = messages_of(server)
    # A fifth of 29 documents, rounded up, each with two examples as turns.
    assert len(ours) == 6 and "assistant" in ours[0]
    assert ours == theirs
