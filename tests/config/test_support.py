"""What is not built is refused by name, and the table speaks of every kind."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from nemo_evaluator.config import EvalConfig, RuntimeSupport, check_runtime, load_config, parse_eval_config
from nemo_evaluator.config._schema_walk import kinds_at
from nemo_evaluator.core.errors import ConfigError

TEXT = """
services:
  m: {type: api, url: "http://h/v1", protocol: chat_completions}
sandboxes:
  named: {type: docker}
benchmarks:
  - name: a
    solver: {type: simple, service: m}
    sandbox: named
  - name: b
    solver: {type: oracle}
    context_window: 5
cluster: {type: local, gpus: [0]}
"""
NOTHING = RuntimeSupport(
    services={}, sandboxes={}, solvers={}, metrics={}, clusters={}, settings={"cluster:local.gpus": "gone"}
)


def test_everything_that_is_not_built_is_named_with_its_line(write) -> None:
    loaded = load_config(write(a=TEXT))
    with pytest.raises(ConfigError) as caught:
        check_runtime(loaded.config, NOTHING, document=loaded.document)
    said = {problem.path: (problem.line, problem.message) for problem in caught.value.problems}
    assert said == {
        "services.m.type": (3, "service type 'api' is not built in this version"),
        "sandboxes.named.type": (5, "sandbox type 'docker' is not built in this version"),
        "benchmarks[0].solver.type": (8, "solver type 'simple' is not built in this version"),
        "benchmarks[1].solver.type": (11, "solver type 'oracle' is not built in this version"),
        "benchmarks[1].sandbox.type": (10, "sandbox type 'none' is not built in this version"),
        "cluster.type": (13, "cluster type 'local' is not built in this version"),
        "cluster.gpus": (13, "the setting 'gpus' is gone"),
    }


def test_what_is_built_passes() -> None:
    check_runtime(
        parse_eval_config(
            {
                "services": {"m": {"type": "api", "url": "http://h/v1", "protocol": "chat_completions"}},
                "benchmarks": [{"name": "a", "solver": {"type": "simple", "service": "m"}}],
            }
        )
    )


@pytest.mark.parametrize(
    ("path", "data", "group"),
    [
        (("services", "x"), {}, "services"),
        (("sandboxes", "x"), {}, "sandboxes"),
        (("benchmarks", 0, "solver"), {"benchmarks": [{}]}, "solvers"),
        (("benchmarks", 0, "scoring", "metrics", 0), {"benchmarks": [{}]}, "metrics"),
        (("cluster",), {}, "clusters"),
    ],
)
def test_the_table_speaks_of_every_kind(path: tuple[str | int, ...], data: Any, group: str) -> None:
    root: type[BaseModel] = EvalConfig
    assert set(getattr(RuntimeSupport(), group)) == set(kinds_at(root, path, data))
