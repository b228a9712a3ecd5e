"""Names that nothing answers to are found before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.config import load_config
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.preflight import find_problems

TEXT = """
services:
  m:
    type: api
    url: http://h/v1/chat/completions
    protocol: chat_completions
    proxy: {interceptors: [{name: caching}, {name: "my.module:Stage"}, {name: mine.py}]}
  n:
    type: api
    url: http://h/v1/chat/completions
    protocol: chat_completions
    interceptors:
      - name: logging
benchmarks:
  - {name: GSM8K, solver: {type: simple, service: m}}
  - {name: gsm8kk, solver: {type: simple, service: m}}
  - {name: nowhere.py, solver: {type: simple, service: m}}
  - {name: "nowhere.py:toy", solver: {type: simple, service: m}}
  - {name: "lm-eval://mmlu", solver: {type: simple, service: m}}
  - name: mmlu
    solver: {type: simple, service: m}
    instruction_template: nowhere.md
    scoring:
      primary: j
      metrics:
        - {type: scorer, name: exact_match}
        - {type: judge, name: j, service: n, rubric_file: no.md}
output: {export: [inspect, mlflow]}
"""


def test_all_unknown_names_are_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    loaded = load_config(path)
    said = {
        problem.path: (problem.line, problem.hint)
        for problem in find_problems(loaded, file_only=True)
    }
    looked = f"looked in {tmp_path} and {Path.cwd()}"
    assert said == {
        "benchmarks[1].name": (16, "did you mean 'gsm8k'?"),
        "benchmarks[2].name": (17, looked),
        "benchmarks[3].name": (18, looked),
        "benchmarks[5].instruction_template": (22, f"give a path, or `off`; {looked}"),
        "benchmarks[5].scoring.metrics[1].rubric_file": (27, looked),
    }


def test_a_file_that_is_there_is_fine(tmp_path: Path) -> None:
    bench = tmp_path / "bench.py"
    bench.write_text("")
    path = tmp_path / "config.yaml"
    entry = f"{{name: '{bench}:toy', solver: {{type: oracle}}, instruction_template: off}}"
    path.write_text(f"services: {{}}\nbenchmarks: [{entry}]\n")
    assert not find_problems(load_config(path), file_only=True)


@pytest.mark.parametrize(
    ("right", "wrong", "path", "hint"),
    [
        (
            "{name: caching}",
            "{name: cachin}",
            "services.m.proxy.interceptors[0].name",
            "did you mean 'caching'?",
        ),
        (
            "- name: logging",
            "- name: loging",
            "services.n.interceptors[0].name",
            "did you mean 'logging'?",
        ),
        (
            "{name: caching}",
            "{name: caching, config: {mod: off}}",
            "services.m.proxy.interceptors[0].config.mod",
            "'mode'",
        ),
        ("lm-eval://", "lmeval://", "benchmarks[4].name", "did you mean 'lm-eval'?"),
        (
            "name: exact_match",
            "name: exact_macth",
            "benchmarks[5].scoring.metrics[0].name",
            "'exact_match'?",
        ),
        ("mlflow]", "mlfow]", "output.export[1]", "did you mean 'mlflow'?"),
        (
            "mlflow]",
            "{type: mlflow, run_nam: x}]",
            "output.export[1].run_nam",
            "did you mean 'run_name'?",
        ),
    ],
)
def test_names_and_settings_of_kinds_are_checked_with_the_schema(
    tmp_path: Path, right: str, wrong: str, path: str, hint: str
) -> None:
    file = tmp_path / "config.yaml"
    assert right in TEXT
    file.write_text(TEXT.replace(right, wrong))
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert [(problem.path, hint in problem.hint) for problem in caught.value.problems] == [
        (path, True)
    ]
