"""Broken configs, one line each: where the problem is said to be, and a part of the hint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from nel_support import Told

from nemo_evaluator.cli.config import config as command
from nemo_evaluator.config import load_config

BASE = """\
services:
  model:
    type: api
    url: https://host/v1/chat/completions
    protocol: chat_completions
    model: some/model
    generation: {temperature: 0.5}
  judge:
    type: api
    url: https://host/v1/chat/completions
    protocol: chat_completions
  tools:
    type: gym
    url: http://localhost:8000
sandboxes:
  code:
    type: docker
    image: python:3.12-slim
benchmarks:
  - name: gsm8k
    max_problems: 5
    repeats: 2
    solver:
      type: simple
      service: model
    scoring:
      metrics:
        - type: judge
          name: correctness
          service: judge
    sandbox: code
output:
  dir: ./out
"""
SLURM = """\
services:
  model:
    type: vllm
    model: m
    protocol: chat_completions
    tensor_parallel_size: 4
    num_nodes: 1
    node_pool: compute
  second: {type: vllm, model: m, protocol: completions, node_pool: compute, num_nodes: 1}
benchmarks:
  - name: gsm8k
    solver: {type: simple, service: model}
cluster:
  type: slurm
  walltime: "08:00:00"
  node_pools:
    compute: {partition: batch, nodes: 2, gres: "gpu:4"}
    other: {partition: batch}
output: {dir: /out}
"""
SIMPLE = "type: simple\n      service: model"

# what to replace in BASE, by what, the path of the problem, a part of its hint
EDITS = [
    # words that are misspelt
    ("type: api\n    url: https://host/v1/chat/completions\n    protocol: chat_completions\n    model", "type: apii\n    model", "services.model.type", "'api'"),
    ("type: gym", "type: gymm", "services.tools.type", "'gym'"),
    ("type: docker", "type: dokcer", "sandboxes.code.type", "'docker'"),
    (SIMPLE, "type: simpel\n      service: model", "benchmarks[0].solver.type", "'simple'"),
    ("type: judge", "type: juge", "benchmarks[0].scoring.metrics[0].type", "'judge'"),
    ("protocol: chat_completions\n    model", "protocol: chat_completion\n    model", "services.model.protocol", "'chat_completions'"),
    ("max_problems: 5", "max_problem: 5", "benchmarks[0].max_problem", "'max_problems'"),
    ("repeats: 2", "n_repeats: 2", "benchmarks[0].n_repeats", "'repeats'"),
    ("model: some/model", "modle: some/model", "services.model.modle", "'model'"),
    ("temperature: 0.5", "temprature: 0.5", "services.model.generation.temprature", "'temperature'"),
    ("dir: ./out", "directory: ./out", "output.directory", "known keys: "),
    ("output:", "outputs:", "outputs", "'output'"),
    ("sandboxes:", "sandbox:", "sandbox", "'sandboxes'"),
    ("image: python:3.12-slim", "imgae: python:3.12-slim", "sandboxes.code.imgae", "'image'"),
    ("name: gsm8k", "nmae: gsm8k", "benchmarks[0].name", "'nmae'"),
    # keys in the wrong place
    ("max_problems: 5", "temperature: 0.1", "benchmarks[0].temperature", "under generation"),
    ("model: some/model", "max_tokens: 5", "services.model.max_tokens", "under generation"),
    ("model: some/model", "extra_body: {}", "services.model.extra_body", "under proxy"),
    ("max_problems: 5", "metrics: []", "benchmarks[0].metrics", "under scoring"),
    ("max_problems: 5", "system_prompt: hi", "benchmarks[0].system_prompt", "under solver"),
    # keys that are missing
    ("    url: http://localhost:8000", "    prot: 1", "services.tools.prot", "'port'"),
    ("type: docker\n    ", "", "sandboxes.code", "add type: one of apptainer"),
    ("type: gym\n    ", "", "services.tools", "add type: one of api"),
    (SIMPLE, "type: harbor\n      service: model", "benchmarks[0].solver.agent", "add agent:"),
    (SIMPLE, "type: custom", "benchmarks[0].solver.class_path", "add class_path:"),
    (SIMPLE, "type: gym_delegation\n      service: model", "benchmarks[0].solver.gym_service", "add gym_service:"),
    ("          name: correctness\n", "", "benchmarks[0].scoring.metrics[0].name", "add name:"),
    # values of the wrong type
    ("max_problems: 5", "max_problems: five", "benchmarks[0].max_problems", "whole number"),
    ("max_problems: 5", "max_problems: 5.5", "benchmarks[0].max_problems", "whole number"),
    ("max_problems: 5", "max_problems: [5]", "benchmarks[0].max_problems", "whole number"),
    ("max_problems: 5", "max_problems: true", "benchmarks[0].max_problems", "write a number"),
    ("temperature: 0.5", "temperature: warm", "services.model.generation.temperature", "write a number"),
    ("temperature: 0.5", "temperature: yes", "services.model.generation.temperature", "write a number"),
    ("temperature: 0.5", "stop: END", "services.model.generation.stop", "'- item' lines"),
    ("generation: {temperature: 0.5}", "generation: 0.5", "services.model.generation", "key: value"),
    ("model: some/model", "model: 4", "services.model.model", 'in quotes: "4"'),
    ("model: some/model", "model: [a]", "services.model.model", "Model name"),
    ("name: gsm8k", "name: 12", "benchmarks[0].name", 'in quotes: "12"'),
    ("name: gsm8k", "name: ''", "benchmarks[0].name", "built-in benchmark"),
    ("max_problems: 5", "skip_failed: maybe", "benchmarks[0].skip_failed", "true or false"),
    ("max_problems: 5", "params: [1]", "benchmarks[0].params", "key: value"),
    ("max_problems: 5", "scoring2: 1", "benchmarks[0].scoring2", "'scoring'"),
    ("solver:\n      type: simple\n      service: model", "solver: simple", "benchmarks[0].solver", "types: agent"),
    ("dir: ./out", "timestamped: true", "output.timestamped", "Only `false`"),
    ("dir: ./out", "report: pdf", "output.report", "choices: markdown"),
    ("dir: ./out", "report: [markdwn]", "output.report[0]", "'markdown'"),
    ("dir: ./out", "export: [{tpye: mlflow}]", "output.export[0]", "`type`"),
    ("dir: ./out", "traffic: all", "output.traffic", "none, metadata, bodies"),
    ("dir: ./out", "export_config: {mlflow: {a: 1}}", "output", "add the exporter to export"),
    ("dir: ./out", "export: [{type: mlflow, run_name: a}]\n  export_config: {mlflow: {description: b}}", "output", "remove one"),
    # numbers out of range
    ("repeats: 2", "repeats: 0", "benchmarks[0].repeats", "at least 1"),
    ("repeats: 2", "repeats: -3", "benchmarks[0].repeats", "at least 1"),
    ("repeats: 2", "repeats: 99999999999999999999999999", "benchmarks[0].repeats", "at most"),
    ("repeats: 2", f"repeats: {'9' * 5000}", "benchmarks[0].repeats", "whole number"),
    ("temperature: 0.5", "temperature: 3", "services.model.generation.temperature", "at most 2"),
    ("temperature: 0.5", "top_p: 1.5", "services.model.generation.top_p", "at most 1"),
    ("temperature: 0.5", "temperature: .inf", "services.model.generation.temperature", "plain number"),
    ("temperature: 0.5", "temperature: .nan", "services.model.generation.temperature", "plain number"),
    ("temperature: 0.5", "temperature: 1e400", "services.model.generation.temperature", "plain number"),
    ("temperature: 0.5", "max_tokens: 0", "services.model.generation.max_tokens", "at least 1"),
    ("max_problems: 5", "min_coverage: 95", "benchmarks[0].min_coverage", "at most 1"),
    ("max_problems: 5", "timeout: 0", "benchmarks[0].timeout", "above 0"),
    ("max_problems: 5", "budget: {usd: -1}", "benchmarks[0].budget.usd", "above 0"),
    ("max_problems: 5", "stop_when: {}", "benchmarks[0].stop_when", "interval_width"),
    ("max_problems: 5", "stop_when: {interval_width: 0.1}\n    shuffle_seed: null", "benchmarks[0].stop_when", "remove shuffle_seed: null"),
    ("url: http://localhost:8000", "port: 70000", "services.tools.port", "at most 65535"),
    # references that go nowhere
    ("      service: model", "      service: modle", "benchmarks[0].solver.service", "'model'"),
    ("      service: model", "      service: xyzzy", "benchmarks[0].solver.service", "known: model"),
    ("          service: judge", "          service: juge", "benchmarks[0].scoring.metrics[0].service", "'judge'"),
    ("          service: judge", "          service: model", "benchmarks[0].scoring.metrics[0].service", "allow_self_judge"),
    ("      service: model", "      service: tools", "benchmarks[0].solver.service", "use 'model'"),
    ("sandbox: code", "sandbox: cod", "benchmarks[0].sandbox", "'code'"),
    ("sandbox: code", "sandbox: docker", "benchmarks[0].sandbox", "{type: docker}"),
    ("sandbox: code", "verifier: gimm", "benchmarks[0].verifier", "known: "),
    ("model: some/model", "depends_on: [model]", "services.model.depends_on[0]", "remove it"),
    ("model: some/model", "depends_on: [jugde]", "services.model.depends_on[0]", "'judge'"),
    (SIMPLE, "type: tool_calling\n      service: model\n      resource_service: judge", "benchmarks[0].solver.resource_service", "use 'tools'"),
    (SIMPLE, "type: nat\n      service: model", "benchmarks[0].solver.service", "type nat"),
    # values that contradict each other
    (SIMPLE, "type: tool_calling\n      service: model", "benchmarks[0].solver", "sandbox_tools: true"),
    (SIMPLE, "type: tool_calling\n      service: model\n      mcp_servers: [{name: a}]", "benchmarks[0].solver.mcp_servers[0]", "command"),
    ("sandbox: code", "id: a/b", "benchmarks[0].id", "gsm8k-long"),
    ("          service: judge", "          service: judge\n          rubric: a\n          rubric_file: b", "benchmarks[0].scoring.metrics[0]", "remove one"),
    ("          service: judge", "          service: judge\n        - {type: scorer, name: exact_match}", "benchmarks[0].scoring", "add primary"),
    ("          service: judge", "          service: judge\n        - {type: judge, name: correctness, service: judge}", "benchmarks[0].scoring", "rename one"),
    ("sandbox: code", "sandbox: code\n  - {name: a, id: x, solver: {type: oracle}}\n  - {name: b, id: x, solver: {type: oracle}}", "(whole file)", "change one of the two"),
    ("url: https://host/v1/chat/completions\n    protocol: chat_completions\n    model", "url: ftp://host\n    protocol: chat_completions\n    model", "services.model.url", "https://"),
    ("url: https://host/v1/chat/completions\n    protocol: chat_completions\n    model", "url: 'http://[::1'\n    protocol: chat_completions\n    model", "services.model.url", "https://"),
    ("model: some/model", "reasoning_pattern: '(('", "services.model.reasoning_pattern", "brackets"),
    ("model: some/model", "interceptors: [{name: log_tokens}]\n    proxy: {interceptors: [{name: logging}]}", "services.model", "remove one"),
    ("model: some/model", "timeouts: {total: 5}\n    proxy: {request_timeout: 6}", "services.model", "remove one"),
    ("model: some/model", "retry: {base_delay: 9, max_delay: 3}", "services.model.retry", "raise max_delay"),
    ("model: some/model", "proxy: {cache: maybe}", "services.model.proxy.cache", "off, read, write"),
    ("image: python:3.12-slim", "memory: lots", "sandboxes.code.memory", '"4g"'),
    ("image: python:3.12-slim", "network: internet", "sandboxes.code.network", "none, bridge, host"),
    ("type: docker\n    image: python:3.12-slim", "type: apptainer\n    node_pool: x", "sandboxes.code", "sif_cache_dir"),
    # the environment and the file itself
    ("model: some/model", "api_key: ${NEL_TEST_UNSET_KEY}", "services.model.api_key", "export NEL_TEST_UNSET_KEY"),
    ("model: some/model", "model: ${.services.judge.modle}", "services.model.model", "known there"),
    ("model: some/model", "model: ${.services.judge.urll}", "services.model.model", "${.services.judge.url}"),
    ("model: some/model", "model: ${.services.model.model}", "services.model.model", "plain value"),
    ("name: gsm8k", "playbook: swebench_verfied", "benchmarks[0].playbook", "'swebench_verified'"),
    ("name: gsm8k", "playbook: 7", "benchmarks[0].playbook", "known: pinchbench"),
    ("services:", "defaults: [models/xyz]\nservices:", "defaults[0]", "looked in"),
    ("services:", "defaults: [clusters/locla]\nservices:", "defaults[0]", "'clusters/local'"),
    ("services:", "defaults: 7\nservices:", "defaults", "_base_"),
    ("services:", "defaults: [{base: x}]\nservices:", "defaults[0]", "_base_"),
    ("max_problems: 5", "max_problems: 5\n    max_problems: 6", "benchmarks[0].max_problems", "keep one"),
    ("name: gsm8k", "name: !!python/name:os.system gsm8k", "benchmarks[0].name", "remove the tag"),
    ("name: gsm8k", "name: *unknown", "benchmarks[0].name", "&unknown"),
    ("name: gsm8k", "name: a: b", "(whole file)", "colon"),
    ("temperature: 0.5", "seed: ${SEED}", "(whole file)", "quotes around ${...}"),
    ("name: gsm8k", "name: 'gsm8k", "(whole file)", "quotes"),
    ("  - name: gsm8k", "\t- name: gsm8k", "(whole file)", "tabs"),
    ("name: gsm8k", "name: gsm8k\n    ? [a]\n    : b", "benchmarks[0]", "quote the key"),
]  # fmt: skip

SLURM_EDITS = [
    ("node_pool: compute\n  second", "node_pool: comput\n  second", "services.model.node_pool", "'compute'"),
    ("tensor_parallel_size: 4", "tensor_parallel_size: 8", "services.model.tensor_parallel_size", "at most 4"),
    ("    num_nodes: 1\n", "    num_nodes: 3\n", "services.model.num_nodes", "to 3"),
    ("num_nodes: 1", "num_nodes: 2", "services.second.node_pool", "pool of its own"),
    ("walltime: \"08:00:00\"", "walltime: 8 hours", "cluster.walltime", '"04:00:00"'),
    ("walltime: \"08:00:00\"", "max_walltime: 8h", "cluster.max_walltime", '"04:00:00"'),
    ("walltime: \"08:00:00\"", "sbatch_extra_flags: {'--qos': high}", "cluster.sbatch_extra_flags", "without dashes"),
    ("node_pools:\n    compute: {partition: batch, nodes: 2, gres: \"gpu:4\"}\n    other: {partition: batch}", "node_pools: {}", "cluster.node_pools", "Groups of nodes"),
    ("compute: {partition: batch,", "compute: {partiton: batch,", "cluster.node_pools.compute.partition", "'partiton'"),
]  # fmt: skip

WHOLE = [
    ("", "(whole file)", "services: and benchmarks:"),
    ("# nothing\n", "(whole file)", "services: and benchmarks:"),
    ("just a word\n", "(whole file)", "services: and benchmarks:"),
    ("- a\n- b\n", "(whole file)", "services: and benchmarks:"),
    ("42\n", "(whole file)", "services: and benchmarks:"),
    ("{}\n", "services", "add services:"),
    ("services: {}\nbenchmarks: []\n", "benchmarks", "What to evaluate"),
    ("services: []\nbenchmarks: {}\n", "services", "key: value"),
    ("services: {none: {type: gym}}\nbenchmarks: [{name: a, solver: {type: oracle}}]\n", "services.none", "rename"),
    ("services: {default: {type: gym}}\nbenchmarks: [{name: a, solver: {type: oracle}}]\n", "services.default", "rename"),
    ("services: {a: 5}\nbenchmarks: [{name: a, solver: {type: oracle}}]\n", "services.a", "types: api"),
    ("services: {}\nbenchmarks: [5]\n", "benchmarks[0]", "key: value"),
    ("services: {}\nbenchmarks: [null]\n", "benchmarks[0]", "key: value"),
    ("a: 1\n---\nb: 2\n", "(whole file)", "remove the ---"),
    ("[" * 500 + "]" * 500, "(whole file)", "check indentation"),
    ("[" * 100_000, "(whole file)", "check indentation"),
    ("services: {a: &a [1]}\nbenchmarks: " + "[*a, " * 70 + "1" + "]" * 70, "(whole file)", "check indentation"),
    ("services: {m: {type: api, url: 'http://x', protocol: completions}}\nbenchmarks: [{name: a, solver: {type: harbor, service: m, agent: x}}]\n", "benchmarks[0]", "add a sandbox"),
    ("services: {m: {type: api, url: 'http://x', protocol: completions}}\nbenchmarks: [{name: a, solver: {type: tool_calling, service: m, sandbox_tools: true}, sandbox: none}]\n", "benchmarks[0]", "add a sandbox"),
    ('{"services": {"a": 1,}', "(whole file)", "check indentation"),
]  # fmt: skip


def check(path: Path, *overrides: str) -> tuple[int, list[dict[str, str]]]:
    arguments = ["check", str(path), "--file-only", "--json"]
    for override in overrides:
        arguments += ["-O", override]
    result = CliRunner().invoke(Told(command), arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout).get("problems", [])


def expect(path: Path, where: str, hint: str) -> None:
    code, problems = check(path)
    assert code == 1
    assert all(problem["path"] and problem["hint"] for problem in problems)
    found = [problem for problem in problems if problem["path"] == where]
    assert found, [problem["path"] for problem in problems]
    assert any(hint in problem["hint"] for problem in found), found
    assert found[0]["line"] is not None


@pytest.mark.parametrize("text", [BASE, SLURM])
def test_the_bases_are_right(write, text: str) -> None:
    assert load_config(write(config=text)).config.benchmarks[0].key == "gsm8k"


@pytest.mark.parametrize(("old", "new", "where", "hint"), EDITS)
def test_broken(write, old: str, new: str, where: str, hint: str) -> None:
    assert old in BASE
    expect(write(config=BASE.replace(old, new, 1)), where, hint)


@pytest.mark.parametrize(("old", "new", "where", "hint"), SLURM_EDITS)
def test_broken_cluster(write, old: str, new: str, where: str, hint: str) -> None:
    assert old in SLURM
    expect(write(config=SLURM.replace(old, new)), where, hint)


@pytest.mark.parametrize(("text", "where", "hint"), WHOLE)
def test_broken_file(write, text: str, where: str, hint: str) -> None:
    expect(write(config=text), where, hint)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\x00", "UTF-8"),
        (b"services: \xe9t\xe9\n", "UTF-8"),
        (b"\x7fELF\x00\x01\x02", "zero bytes"),
        (b"a: \x07\n", "not valid YAML"),
        (b"\x00" * 100, "zero bytes"),
    ],
)
def test_not_a_text_file(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(data)
    code, problems = check(file)
    assert code == 1
    assert message in problems[0]["message"]
    assert problems[0]["hint"]


def test_utf16_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-8-sig"):
        file = tmp_path / f"{encoding}.yaml"
        file.write_bytes(BASE.encode(encoding))
        assert load_config(file).config.benchmarks[0].name == "gsm8k"


def test_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "there.yaml").write_text(BASE)
    for name, hint in (
        ("nowhere.yaml", "check the path"),
        ("there", "'there.yaml'"),
        (".", "name the YAML file"),
    ):
        code, problems = check(tmp_path / name)
        assert code == 1
        assert hint in problems[0]["hint"]


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"#" * 10_000_001)
    code, problems = check(file)
    assert code == 1
    assert "too large" in problems[0]["message"]


def test_bombs_are_refused_quickly(write) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    code, problems = check(write(config="\n".join(lines)))
    assert code == 1
    assert "too large" in problems[0]["message"]


@pytest.mark.parametrize(
    "digits", ["0x" + "f" * 6_000, "0b" + "1" * 60_000, "9" * 4_200, "9" * 400_000]
)
@pytest.mark.parametrize("place", ["max_problems: ", "name: "])
def test_integers_of_thousands_of_digits(write, place: str, digits: str) -> None:
    text = f"services: {{m: {{type: gym, url: 'http://x'}}}}\nbenchmarks: [{{{place}{digits}}}]\n"
    code, problems = check(write(config=text))
    assert code == 1
    assert len(str(problems)) < 5_000


def test_files_that_build_on_each_other_in_a_circle(write) -> None:
    path = write(
        a="defaults: [{_base_: b}]\n", b="defaults: [{_base_: c}]\n", c="defaults: [{_base_: a}]\n"
    )
    code, problems = check(path)
    assert code == 1
    assert "a.yaml -> b.yaml -> c.yaml -> a.yaml" in problems[0]["message"]


def test_services_that_wait_for_each_other(write) -> None:
    gym = "{type: gym, url: 'http://x', depends_on: [%s]}"
    services = "\n".join(
        f"  {name}: {gym % target}" for name, target in (("a", "b"), ("b", "c"), ("c", "b"))
    )
    code, problems = check(
        write(
            config=f"services:\n{services}\nbenchmarks: [{{name: a, solver: {{type: oracle}}}}]\n"
        )
    )
    assert code == 1
    assert "b -> c -> b" in problems[0]["message"]


def test_a_remote_cluster_needs_an_absolute_output(write) -> None:
    text = SLURM.replace("type: slurm\n", "type: slurm\n  hostname: login\n").replace("/out", "out")
    expect(write(config=text), "output.dir", "begins with /")


def test_sharding_allows_one_pool(write) -> None:
    text = SLURM.replace("type: slurm\n", "type: slurm\n  shards: 2\n")
    text = text.replace("completions, node_pool: compute", "completions, node_pool: other")
    expect(write(config=text), "cluster.shards", "use one pool")


def test_a_rule_decides_for_the_whole_and_not_for_a_shard(write) -> None:
    text = SLURM.replace("type: slurm\n", "type: slurm\n  shards: 2\n")
    text = text.replace(
        "benchmarks:\n  - ", "benchmarks:\n  - stop_when: {interval_width: 0.1}\n    "
    )
    assert "stop_when" in text
    expect(write(config=text), "benchmarks[0].stop_when", "remove stop_when, or cluster.shards")


def test_nobody_stops_a_container_at_a_problem(write) -> None:
    text = SLURM.replace(
        "solver: {type: simple,", "stop_when: {interval_width: 0.1}\n    solver: {type: container,"
    )
    expect(write(config=text), "benchmarks[0].stop_when", "remove stop_when")


def test_everything_wrong_is_said_at_once(write) -> None:
    text = BASE.replace("max_problems: 5", "max_problem: 5").replace("repeats: 2", "repeats: 0")
    text = text.replace("      service: model", "      service: modle").replace(
        "some/model", "${NEL_TEST_UNSET}"
    )
    text = text.replace("dir: ./out", "dri: ./out").replace("sandbox: code", "sandbox: cod")
    _, problems = check(write(config=text))
    assert {problem["path"] for problem in problems} == {
        "services.model.model",
        "benchmarks[0].max_problem",
        "benchmarks[0].repeats",
        "benchmarks[0].solver.service",
        "benchmarks[0].sandbox",
        "output.dri",
    }
    lines = [problem["line"] for problem in problems]
    assert lines == sorted(lines)
    assert [text.splitlines()[line - 1].split(":")[0].strip(" -") for line in lines] == [
        "model", "max_problem", "repeats", "service", "sandbox", "dri",
    ]  # fmt: skip


def test_an_error_in_a_base_names_the_base(write) -> None:
    path = write(
        config="defaults: [{_base_: base}]\n", base=BASE.replace("repeats: 2", "repeats: 0")
    )
    _, problems = check(path)
    assert problems[0]["place"].startswith(f"{path.with_name('base.yaml')}:")
    assert problems[0]["line"] == 22


def test_an_error_in_an_override_names_the_override(write) -> None:
    _, problems = check(write(config=BASE), "benchmarks.0.repeats=0")
    assert problems[0]["place"] == "benchmarks[0].repeats (from -O benchmarks.0.repeats)"
    _, problems = check(write(config=BASE), "benchmarks.-1.repeats=0")
    assert problems[0]["path"] == "benchmarks[0].repeats"


def test_a_secret_of_the_wrong_type_is_not_repeated(write) -> None:
    _, problems = check(
        write(config=BASE),
        "services.judge.api_key=12345678",
        "services.model.api_key={a: 87654321}",
    )
    assert {problem["path"] for problem in problems} == {
        "services.judge.api_key",
        "services.model.api_key",
    }
    assert "1234567" not in str(problems)
    assert "8765432" not in str(problems)


def test_no_secret_is_repeated(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEL_TEST_KEY", "sk-verysecret")
    text = BASE.replace(
        "model: some/model", "api_key: ${NEL_TEST_KEY}\n    max_concurrent: ${NEL_TEST_KEY}"
    )
    result = CliRunner().invoke(
        Told(command), ["check", str(write(config=text)), "-O", "services.judge.api_key=[sk-other]"]
    )
    assert result.exit_code == 1
    assert "verysecret" not in result.output
    assert "sk-other" not in result.output
    assert "services.judge.api_key" in result.output
