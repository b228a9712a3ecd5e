"""Names that nothing answers to are found before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.config import load_config
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.suite.names import check_names

TEXT = """
services:
  m:
    type: api
    url: http://h/v1/chat/completions
    protocol: chat_completions
    proxy: {interceptors: [{name: caching}, {name: turn_countr}, {name: "my.module:Stage"}, {name: mine.py}]}
  n:
    type: api
    url: http://h/v1/chat/completions
    protocol: chat_completions
    interceptors:
      - name: loging
benchmarks:
  - {name: GSM8K, solver: {type: simple, service: m}}
  - {name: gsm8kk, solver: {type: simple, service: m}}
  - {name: nowhere.py, solver: {type: simple, service: m}}
  - {name: "nowhere.py:toy", solver: {type: simple, service: m}}
  - {name: "lmeval://mmlu", solver: {type: simple, service: m}}
  - name: mmlu
    solver: {type: simple, service: m}
    instruction_template: nowhere.md
    scoring:
      primary: j
      metrics:
        - {type: scorer, name: exact_macth}
        - {type: judge, name: j, service: n, rubric_file: no.md}
output: {export: [inspect, mlfow]}
"""


def test_all_unknown_names_are_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    loaded = load_config(path)
    with pytest.raises(ConfigError) as caught:
        check_names(loaded.config, document=loaded.document)
    said = {problem.path: (problem.line, problem.hint) for problem in caught.value.problems}
    assert said == {
        "services.m.proxy.interceptors[1].name": (7, "did you mean 'turn_counter'?"),
        "services.n.interceptors[0].name": (13, "did you mean 'logging'?"),
        "benchmarks[1].name": (16, "did you mean 'gsm8k'?"),
        "benchmarks[2].name": (17, "the path is taken relative to the current folder"),
        "benchmarks[3].name": (18, "the path is taken relative to the current folder"),
        "benchmarks[4].name": (19, "did you mean 'lm-eval'?"),
        "benchmarks[5].instruction_template": (22, "give a path, or `off`"),
        "benchmarks[5].scoring.metrics[0].name": (26, "did you mean 'exact_match'?"),
        "benchmarks[5].scoring.metrics[1].rubric_file": (27, "the path is taken relative to the current folder"),
        "output.export[1]": (28, "did you mean 'mlflow'?"),
    }


def test_a_file_that_is_there_is_fine(tmp_path: Path) -> None:
    bench = tmp_path / "bench.py"
    bench.write_text("")
    path = tmp_path / "config.yaml"
    entry = f"{{name: '{bench}:toy', solver: {{type: oracle}}, instruction_template: off}}"
    path.write_text(f"services: {{}}\nbenchmarks: [{entry}]\n")
    check_names(load_config(path).config)
