"""What this version cannot run is refused by name, with its line; every kind of every group has its declaration."""

from __future__ import annotations

import pytest

from nemo_evaluator.config import groups, load_config
from nemo_evaluator.core.kinds import Kind, Kinds
from nemo_evaluator.preflight import find_problems

TEXT = """
services:
  m: {type: api, url: "http://h/v1", protocol: chat_completions, tokenizer: t}
sandboxes:
  named: {type: docker}
benchmarks:
  - name: gsm8k
    solver: {type: simple, service: m}
    sandbox: named
  - name: arc_challenge
    solver: {type: oracle}
    context_window: 5
cluster: {type: local, gpus: [0]}
"""
WORDS = {
    groups.SERVICES: "api custom docker_model dynamo gym llama_cpp nat nat_agent nim sglang shared trt_llm vllm",
    groups.SANDBOXES: "apptainer custom docker ecs_fargate local none slurm",
    groups.SOLVERS: "agent container custom gym_delegation harbor nat nat_agent openclaw oracle simple tool_calling",
    groups.METRICS: "custom ensemble_judge judge pairwise_judge reward_model sandbox scorer",
    groups.CLUSTERS: "docker local ray slurm",
    groups.SCHEMES: "container gym harbor lm-eval skills vlmevalkit",
    groups.EXPORTERS: "inspect local mlflow wandb",
}


def test_what_cannot_run_is_named_with_its_line(write, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_config(write(a=TEXT))
    for kinds, word in (
        (groups.SANDBOXES, "docker"),
        (groups.SOLVERS, "oracle"),
        (groups.SERVICES, "api"),
    ):
        monkeypatch.setitem(kinds._targets, word, Kind(kinds.schema(word), missing="gone"))
    problems = find_problems(loaded, file_only=True)
    said = {problem.path: (problem.line, problem.message) for problem in problems}
    assert said == {
        "services.m.type": (3, "service type 'api' is gone"),
        "services.m.tokenizer": (3, "the setting 'tokenizer' is not supported yet"),
        "sandboxes.named.type": (5, "sandbox type 'docker' is gone"),
        "benchmarks[1].solver.type": (11, "solver type 'oracle' is gone"),
        "benchmarks[1].context_window": (12, "the setting 'context_window' is not supported yet"),
        "cluster.gpus": (13, "the setting 'gpus' is not supported yet"),
    }
    assert all("oracle" not in str(problem.hint) for problem in problems)


def test_what_can_run_passes(write) -> None:
    text = """
services:
  m: {type: api, url: "http://h/v1", protocol: chat_completions}
benchmarks:
  - {name: gsm8k, solver: {type: simple, service: m}}
"""
    assert find_problems(load_config(write(a=text)), file_only=True) == []


@pytest.mark.parametrize("kinds", WORDS, ids=lambda kinds: kinds.kind)
def test_every_word_has_its_declaration(kinds: Kinds) -> None:
    assert set(WORDS[kinds].split()) <= set(kinds.names())
    for word in WORDS[kinds].split():
        kind = kinds.get(word)
        assert isinstance(kind, Kind)
        if kind.missing is None and word not in ("api", "none", "local", "shared"):
            assert callable(kind.builder())
