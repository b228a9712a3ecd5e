"""A config error names the key of the user, whatever that key is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from nemo_evaluator.config import load_config, load_mapping
from nemo_evaluator.config._document import Document
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config.fields import Model
from nemo_evaluator.config.kind_settings import check_settings
from nemo_evaluator.core.errors import ConfigError, Problem
from nemo_evaluator.core.kinds import Kind, Kinds

CONFIG = """\
services:
  m: {type: api, url: "http://host/v1/chat/completions", model: m}
benchmarks:
  - name: gsm8k
    solver: {type: simple, service: m}
"""
SERVICE = "m: {type: api, "
SOLVER = "{type: simple, service: m}"

# What to replace in CONFIG, by what, the path of the only problem, its message, a part of its hint.
WRONG_KEYS = [
    ("services:", "cluster: {type: local, local: true}\nservices:", "cluster.local", "unknown key 'local'", "known keys: container_env"),
    (SERVICE, f"{SERVICE}api: x, ", "services.m.api", "unknown key 'api'", "'api_key'"),
    (SOLVER, "{type: simple, service: m, simple: 1}", "benchmarks[0].solver.simple", "unknown key 'simple'", "known keys: generation"),
    (SOLVER, f"{SOLVER}\n    scoring: {{metrics: [{{type: scorer, name: exact_match, scorer: x}}]}}", "benchmarks[0].scoring.metrics[0].scorer", "unknown key 'scorer'", "known keys: name, type"),
    (SOLVER, f"{SOLVER}\n    sandbox: {{type: docker, docker: true}}", "benchmarks[0].sandbox.docker", "unknown key 'docker'", "known keys: capture_cmd"),
    (SOLVER, f"{SOLVER}\n    sandbox: code\nsandboxes: {{code: {{type: docker, imge: x}}}}", "sandboxes.code.imge", "unknown key 'imge'", "'image'"),
    (SOLVER, f"{SOLVER}\n    sandbox: docker\nsandboxes: {{docker: {{type: docker, docker: x}}}}", "sandboxes.docker.docker", "unknown key 'docker'", "known keys: capture_cmd"),
    (SOLVER, f"{SOLVER}\n    sandbox: code\nsandboxes: {{code: 5}}", "sandboxes.code", "a mapping with a type is expected, found 5", "types: apptainer"),
    (SOLVER, "{type: simple, service: m}\n    type: solver", "benchmarks[0].type", "unknown key 'type'", "known keys: budget"),
    ("services:\n", "services:\n  model: {type: vllm, model: x, vllm: 1}\n", "services.model.vllm", "unknown key 'vllm'", "known keys: balancer"),
    ("services:\n", "services:\n  url: {type: api, url: 7}\n", "services.url.url", "text is expected, found 7", 'quotes: "7"'),
    (SERVICE, f"{SERVICE}proxy: {{interceptors: [{{name: logging, config: {{logging: 1}}}}]}}, ", "services.m.proxy.interceptors[0].config.logging", "'logging' has no setting 'logging'", "preview_chars"),
    (SERVICE, f"{SERVICE}proxy: {{interceptors: [{{name: system_message}}]}}, ", "services.m.proxy.interceptors[0].config", "'system_message' needs the setting 'system_message'", "it takes"),
    (SOLVER, f"{SOLVER}\noutput: {{export: [{{type: mlflow, mlflow: 1}}]}}", "output.export[0].mlflow", "'mlflow' has no setting 'mlflow'", "it takes"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "path", "message", "hint"), WRONG_KEYS)
def test_a_key_with_the_name_of_a_type(
    write: Callable[..., Path], old: str, new: str, path: str, message: str, hint: str
) -> None:
    assert old in CONFIG
    with pytest.raises(ConfigError) as caught:
        load_config(write(config=CONFIG.replace(old, new, 1)))
    [problem] = caught.value.problems
    assert (problem.path, problem.message) == (path, message)
    assert hint in (problem.hint or "")
    assert problem.line is not None


@pytest.mark.parametrize("type_name", ["services", "cluster"])
def test_a_type_at_the_top_named_like_a_section(write: Callable[..., Path], type_name: str) -> None:
    text = f"type: {type_name}\ncluster: {{type: local, gpu: 1}}\n{CONFIG}"
    with pytest.raises(ConfigError) as caught:
        load_config(write(config=text))
    assert [problem.path for problem in caught.value.problems] == ["type", "cluster.gpu"]


def test_a_key_that_is_not_text() -> None:
    data = {
        "services": {3: {"type": "gym", "url": "http://host"}},
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "oracle"}}],
    }
    with pytest.raises(ConfigError) as caught:
        load_mapping(data)
    [problem] = caught.value.problems
    assert problem.path == "services[3]"
    assert problem.message == "text is expected, found 3"
    assert problem.hint == 'put it in quotes: "3"'


class _Cat(Model):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class _Dog(Model):
    kind: Literal["dog"] = "dog"
    name: str


class _Shelter(Model):
    """Unions, as a kind of a third party may have them: pydantic puts their tags into the location of an error."""

    size: int | dict[str, int] = 1
    pet: Annotated[_Cat | _Dog, Field(discriminator="kind")] = _Cat()
    first: _Cat | str = "none"


def problems_of(data: dict[str, Any]) -> list[Problem]:
    with pytest.raises(ValidationError) as caught:
        _Shelter.model_validate(data)
    return explain(caught.value, Document(data), _Shelter)


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ({"size": {"int": "x"}}, {"size", "size.int"}),
        ({"size": {"a": 1, "dict[str,int]": "x"}}, {"size", "size.dict[str,int]"}),
        ({"pet": {"kind": "cat", "cat": 1}}, {"pet.cat"}),
        ({"pet": {"kind": "dog", "dog": 1, "name": "x"}}, {"pet.dog"}),
        ({"pet": {"kind": "dog"}}, {"pet.name"}),
        ({"pet": {"kind": "cat", "lives": "x", "cat": {"lives": 1}}}, {"pet.cat", "pet.lives"}),
        ({"first": {"_Cat": 1, "str": 2}}, {"first._Cat", "first.str", "first"}),
    ],
)
def test_a_tag_of_a_union_is_never_a_key(data: dict[str, Any], paths: set[str]) -> None:
    problems = problems_of(data)
    assert {problem.path for problem in problems} == paths
    for problem in problems:
        if problem.message.startswith("unknown key"):
            assert problem.message == f"unknown key {problem.path.rpartition('.')[2]!r}"


def test_the_settings_of_a_kind_with_unions(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = Kinds("shelter", group="nel_test.shelters", home="nemo_evaluator.config")
    monkeypatch.setattr(kinds, "get", lambda name: Kind(_Shelter))
    with pytest.raises(ValidationError) as caught:
        check_settings(kinds, "shelter", {"pet": {"kind": "cat", "cat": 1}, "size": []}, "config")
    errors = caught.value.errors()
    assert {error["loc"] for error in errors} == {("config", "pet", "cat"), ("config", "size")}
    assert "shelter' has no setting 'cat'" in str(caught.value)
    assert "setting 'size' of 'shelter'" in str(caught.value)


def test_a_key_that_could_be_two_has_one_answer(write: Callable[..., Path]) -> None:
    """``service`` of a pairwise judge: the hints said "under solver", and that it misspells both other keys."""
    metric = "{type: pairwise_judge, name: p, service: m}"
    scoring = f"{SOLVER}\n    scoring: {{metrics: [{metric}]}}"
    with pytest.raises(ConfigError) as caught:
        load_config(write(config=CONFIG.replace(SOLVER, scoring, 1)))
    hints = {problem.path.rpartition(".")[2]: problem.hint for problem in caught.value.problems}
    section = "benchmarks[0].scoring.metrics[0]"
    assert hints == {
        "service": "write baseline_service: and judge_service:",
        "baseline_service": f"add baseline_service: under {section}",
        "judge_service": f"add judge_service: under {section}",
    }
