"""Whatever a config holds, `nel config check` ends with 0 or 1, and on 1 every problem has a path and a hint."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nel_support import Told

from nemo_evaluator.cli.config import config as command
from nemo_evaluator.config import EvalConfig, load_config

VALID: list[dict[str, Any]] = [
    yaml.safe_load(text)
    for text in (
        """
        _m: some/model
        services:
          model: {type: api, url: "http://h/v1/chat/completions", protocol: chat_completions, model: "${._m}",
                  api_key: "${KEY:-none}", generation: {temperature: 0.1, stop: [a]}, price: {input: 1, output: 2},
                  proxy: {interceptors: [{name: turn_counter, config: {max_turns: 3}}], cache: write},
                  timeouts: {total: 60}, retry: {max_retries: 2}}
          judge: {type: llama_cpp, model: smollm2-135m, depends_on: [model]}
          tools: {type: gym, url: "http://h"}
        sandboxes: {code: {type: docker, image: python, memory: 1g, network: none}}
        benchmarks:
          - {name: gsm8k, solver: {type: simple, service: model}, repeats: 2, budget: {usd: 1}, sandbox: code}
          - name: mmlu
            solver: {type: tool_calling, service: model, resource_service: tools, sandbox_tools: true,
                     mcp_servers: [{name: a, command: b}]}
            sandbox: {type: local}
            scoring: {metrics: [{type: judge, name: j, service: judge}, {type: scorer, name: exact_match}], primary: j}
        output: {dir: out, report: [markdown], export: [inspect, {type: mlflow, uri: x}]}
        budget: {tokens: 5}
        """,
        """
        services:
          model: {type: vllm, model: m, protocol: completions, node_pool: gpu, tensor_parallel_size: 2, gpus: [0, 1]}
          split: {type: dynamo, model: m, protocol: completions, prefill: {num_workers: 2}, decode: {}}
        benchmarks:
          - {playbook: swebench_verified, max_problems: 3}
          - {name: x, solver: {type: harbor, service: model, agent: a}, sandbox: {type: slurm, node_pool: cpu}}
        cluster:
          type: slurm
          walltime: "01:00:00"
          node_pools: {gpu: {partition: p, gres: "gpu:4"}, cpu: {partition: p, nodes: 2}}
        output: {dir: /out}
        """,
    )
]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan")]),
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            "${",
            "${X_UNSET}",
            "${X:-}",
            "${.services}",
            "${.nope}",
            "$${X}",
            "model",
            "none",
            "docker",
            "../..",
            "\x00",
        ]
    ),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(
        st.sampled_from(["type", "name", "service", "a", "1"]),
        st.text(max_size=5) | st.none(),
        max_size=3,
    ),
)
WORDS = st.sampled_from(
    [
        "type",
        "service",
        "services",
        "benchmarks",
        "defaults",
        "playbook",
        "sandbox",
        "_x",
        "nmae",
        "x.y",
    ]
)
common = settings(
    deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def check(tmp_path: Path):
    file = tmp_path / "config.yaml"
    runner = CliRunner()

    def run(data: bytes, *overrides: str) -> None:
        file.write_bytes(data)
        arguments = [
            "check",
            str(file),
            "--file-only",
            "--json",
            *(word for override in overrides for word in ("-O", override)),
        ]
        result = runner.invoke(Told(command), arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        said = json.loads(result.stdout)
        assert result.exit_code == (0 if said["ok"] else 1)
        if not said["ok"]:
            assert said["problems"]
            assert all(
                problem["path"] and problem["message"] and problem["hint"]
                for problem in said["problems"]
            )
            return
        # A right config comes back from its own data.
        data_again = load_config(file, overrides).config.model_dump()
        assert EvalConfig.model_validate(data_again).model_dump() == data_again

    return run


def containers(data: Any) -> list[Any]:
    found = [data] if isinstance(data, dict | list) and data else []
    for value in (
        data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    ):
        found += containers(value)
    return found


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = copy.deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(0, 4))):
        places = containers(data)
        if not places:
            break
        place = draw(st.sampled_from(places))
        key = draw(
            st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place))))
        )
        action = draw(st.sampled_from(["delete", "replace", "rename", "copy"]))
        if action == "delete":
            del place[key]
        elif action == "replace":
            place[key] = draw(JUNK)
        elif action == "rename" and isinstance(place, dict):
            place[draw(WORDS | st.text(max_size=6))] = place.pop(key)
        else:
            place[key] = copy.deepcopy(draw(st.sampled_from(places)))
    return yaml.safe_dump(data, allow_unicode=True).encode()


@st.composite
def scratched(draw: st.DrawFn) -> bytes:
    text = yaml.safe_dump(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 6)))
        piece = draw(
            st.text(max_size=4)
            | st.sampled_from(
                ["\t", ": ", "- ", "{", "]", "&a", "*a", "!!x", "'", '"', "\n", "<<: "]
            )
        )
        text = text[:start] + piece + text[end:]
    return text.encode("utf-8", "surrogatepass")


@settings(common, max_examples=900)
@given(data=mutated())
def test_mutated_configs(check, data: bytes) -> None:
    check(data)


@settings(common, max_examples=600)
@given(data=scratched())
def test_scratched_text(check, data: bytes) -> None:
    check(data)


@settings(common, max_examples=250)
@given(
    data=st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-16", "surrogatepass"))
)
def test_random_bytes(check, data: bytes) -> None:
    check(data)


@settings(common, max_examples=250)
@given(
    key=st.lists(
        st.sampled_from(
            [
                "services",
                "benchmarks",
                "0",
                "-1",
                "9",
                "model",
                "solver",
                "type",
                "a\\.b",
                "",
                "output",
            ]
        )
        | st.text(max_size=4),
        max_size=5,
    ).map(".".join),
    value=st.text(max_size=10)
    | st.sampled_from(["null", "[1, 2", "{a: b}", "=", "1e999", "nan", "9" * 5000, "${.x}"]),
)
def test_random_overrides(check, key: str, value: str) -> None:
    check(yaml.safe_dump(VALID[0]).encode(), f"{key}={value}")
