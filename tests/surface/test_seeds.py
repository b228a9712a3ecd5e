"""The commands and the Python of the four documents that promised this surface, in our own minimal form.

``RUN`` and ``LAUNCHER`` are run as they stand against a scripted server; ``NOT_HERE`` are not, with the reason.
Together they are every `nel` line of those documents; the YAML is in tests/config/test_examples.py.
"""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest
from nel_support import Nel, Serve, nel, serve

__all__ = ["nel", "serve"]

BENCH = """
from nemo_evaluator import benchmark, scorer, ScorerInput, exact_match

@benchmark(name="my-bench", dataset="rows.jsonl",
           prompt="Q: {question}\\nA:", target_field="answer")
@scorer
def my_scorer(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""
POLICY = "version: 1\ndefaults: {max_drop: 0.9}\nbenchmarks: {my-bench: {tier: critical}}\n"
MODEL = "--model-url URL --model-id nvidia/nemotron-3-super-120b-a12b --api-key $KEY"
# In order: later ones use what earlier ones leave.
RUN = [
    "nel --version",
    f"nel eval run --bench my_bench.py {MODEL} --repeats 3 --max-problems 150 -o ./results/baseline",
    f"nel eval run --bench my_bench.py {MODEL} --repeats 3 --max-problems 150 -o ./results/candidate",
    "nel eval run config.yaml",
    "nel eval run config.yaml --resume",
    "nel eval report ./eval_results/ -f markdown -o report.md",
    "nel report ./eval_results",
    "nel list",
    f"nel validate -b my_bench.py {MODEL}",
    "nel export ./eval_results --dest inspect",
    "nel compare ./results/baseline ./results/candidate --strict",
    "nel gate ./results/baseline ./results/candidate --policy gate_policy.yaml --strict --output gate_report.json",
    "nel config show",
]
LAUNCHER = [
    "nel run --config config.yaml --dry-run",
    "nel run --config config.yaml -o ++evaluation.nemo_evaluator_config.config.params.limit_samples=3",
    "nel run --config config.yaml -t ifeval",
    "nel ls runs",
    "nel status INVOCATION",
    "nel logs INVOCATION",
    "nel skills build-config --execution local --deployment none --model-type chat --benchmarks standard",
    "nel ls tasks",
    "nel info INVOCATION --logs",
]
NOT_HERE = {
    "nel eval run examples/configs/*.yaml": "tests/examples/test_walkthrough.py runs the examples",
    "nel package": "needs Docker; its own tests have it",
    "nel cache-sqsh": "needs enroot; its own tests have it",
    "nel serve": "serves until it is stopped; tests/e2e/test_gym.py",
    "nel eval merge": "needs shards; tests/e2e/test_merge_command.py",
}


@pytest.mark.needs("inspect")
def test_every_command_of_the_documents(nel: Nel, serve: Serve) -> None:
    server = serve("4", api_key="nvapi-seed")
    rows = [{"question": f"How much is {n} + {n}?", "answer": str(2 * n)} for n in range(200)]
    (nel.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (nel.folder / "my_bench.py").write_text(BENCH)
    (nel.folder / "gate_policy.yaml").write_text(POLICY)
    service = {
        "type": "api",
        "url": f"{server.url}/chat/completions",
        "protocol": "chat_completions",
    }
    interceptors = [
        {"name": "turn_counter", "config": {"max_turns": 100}},
        {"name": "drop_params", "config": {"params": ["max_tokens"]}},
    ]
    proxy = {"request_timeout": 600, "interceptors": interceptors, "verbose": True}
    nel.config(
        "config.yaml",
        services={
            "nemotron": {**service, "model": "m", "api_key": "${NVIDIA_API_KEY}", "proxy": proxy}
        },
        benchmarks=[{"name": "my_bench.py", "solver": {"type": "simple", "service": "nemotron"}}],
        output={"export": ["inspect"]},
    )
    nel.env |= {"NVIDIA_API_KEY": "nvapi-seed", "COLUMNS": "80"}
    for line in RUN:
        words = [
            word.replace("URL", server.url).replace("$KEY", "nvapi-seed")
            for word in shlex.split(line)[1:]
        ]
        done = nel(*words, code=None)
        assert done.returncode == 0, f"{line}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert (nel.folder / "report.md").read_text().startswith("#")
    assert json.loads((nel.folder / "gate_report.json").read_text())["verdict"] == "GO"
    bundle = next(Path(nel.folder, "eval_results", "my-bench").glob("eval-*.json"))
    assert json.loads(bundle.read_text())["benchmark"]["name"] == "my-bench"


@pytest.mark.needs("mirror")
def test_every_command_of_the_launcher(nel: Nel, serve: Serve, data_mirror: Path) -> None:
    server = serve("4")
    endpoint = {"model_id": "m", "url": f"{server.url}/chat/completions", "api_key_name": None}
    nel.config(
        "config.yaml",
        defaults=[{"execution": "local"}, {"deployment": "none"}, "_self_"],
        execution={"output_dir": "results"},
        target={"api_endpoint": endpoint},
        evaluation={
            "nemo_evaluator_config": {"config": {"params": {"limit_samples": 2}}},
            "tasks": [{"name": "lm-evaluation-harness.ifeval"}, {"name": "gsm8k_cot_zeroshot"}],
        },
    )
    nel.env |= {"NEL_DATA_MIRROR": str(data_mirror), "COLUMNS": "80"}
    invocation = ""
    for line in LAUNCHER:
        done = nel(
            *(word.replace("INVOCATION", invocation) for word in shlex.split(line)[1:]), code=None
        )
        assert done.returncode == 0, f"{line}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "--dry-run" not in line or server.count == 0
        invocation = done.stdout.splitlines()[1].split()[0] if line == "nel ls runs" else invocation
    # The runs are in the background: one of 3 + 3 problems, one of 2.
    end = time.monotonic() + 360
    while server.count < 8 and time.monotonic() < end:
        time.sleep(0.2)
    assert server.count == 8
