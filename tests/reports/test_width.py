"""What decisions print fits the terminal, with names as long as real ones are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nemo_evaluator.cli.check import check
from nemo_evaluator.cli.compare import compare
from nemo_evaluator.cli.gate import gate
from nemo_evaluator.core.terminal import cells
from nemo_evaluator.reports._words import columns, shortened

NAMES = (
    "mmlu_pro_professional_law_and_jurisprudence_5_shot_cot",
    "mmlu_pro_professional_law_and_jurisprudence_0_shot_cot",
    "livecodebench_v6_2026_01_to_2026_06_hard",
    "gsm8k",
)
MODELS = (
    "nvidia/llama-3.3-nemotron-super-49b-v1.5-instruct-fp8",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8",
)
CATEGORY = "international_comparative_macroeconomics_and_econometrics"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of four benchmarks, each with more and more problems lost."""
    root = tmp_path_factory.mktemp("runs")
    for side, model in enumerate(MODELS):
        for at, name in enumerate(NAMES):
            folder = root / "ab"[side] / name
            folder.mkdir(parents=True)
            rows: list[dict[str, Any]] = [
                {
                    **{
                        "problem_idx": i,
                        "repeat": 0,
                        "status": "scored",
                        "reward": float(i % 3 > 0 and i > side * at * 9),
                    },
                    **{
                        "prompt": "q " * 60,
                        "model_response": "a " * 60,
                        "expected_answer": "x " * 60,
                    },
                    **{
                        "metadata": {"category": f"{CATEGORY}_{i % 2}"},
                        "problem_hash": f"{i + 1:032x}",
                    },
                    **{
                        "completion_tokens": 20_000 + i,
                        "latency_ms": 123_456.0,
                        "finish_reason": "length",
                    },
                }
                for i in range(90)
            ]
            (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            bundle = {
                "run_id": f"eval-20260101T000000Z-{name}",
                "validity": {"status": "VALID", "reasons": []},
                "config": {
                    "benchmark": name,
                    "model": model,
                    "generation": {"stop": "word " * 20 * side},
                },
                "benchmark": {"name": name, "coverage": {"planned": 90}, "scores": {}},
            }
            (folder / f"eval-20260101T000000Z-{name}.json").write_text(json.dumps(bundle))
    limits = {name: {"tier": "critical", "max_relative_drop": 0.05} for name in NAMES}
    (root / "policy.yaml").write_text(
        json.dumps({"version": 1, "benchmarks": limits | {"absent_" + NAMES[0]: {}}})
    )
    return root


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "a", "b", "--no-report", "--verbose", "--show-flips"],
        ["compare", "a", "b", "b/../b", "--no-report", "--compact"],
        ["gate", "a", "b", "-p", "policy.yaml", "--verbose", "--explain"],
        ["check", "b"],
    ],
    ids=lambda found: " ".join(found[:3]),
)
def test_decisions_fit_eighty_columns(
    runs: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(runs)
    monkeypatch.setenv("COLUMNS", "80")
    command = {"compare": compare, "gate": gate, "check": check}[arguments[0]]
    text = CliRunner().invoke(command, arguments[1:], catch_exceptions=False).stdout
    assert len(text.splitlines()) > 15
    assert [line for line in text.splitlines() if cells(line) > 80] == []
    said = text.replace("\n", "").replace(" ", "")
    for name in (
        NAMES[2:]
        if arguments[0] == "check"
        else (*NAMES[2:], *(MODELS if arguments[0] == "compare" else ()))
    ):
        assert name in said, name


def test_names_that_are_cut_stay_apart() -> None:
    short = shortened(list(NAMES), 20)
    assert short[-1] == "gsm8k"
    assert len(set(short)) == 4
    assert max(map(cells, short)) <= 20
    alike = [f"{'a' * 40}{at}{'b' * 40}" for at in range(3)]
    assert len(set(shortened(alike, 20))) == 3
    assert max(map(cells, shortened(alike, 20))) <= 20
    assert shortened(["same", "same"], 20) == ["same", "same"]
    table = columns([["name", "n"], *([name, "12,345"] for name in NAMES)], width=40)
    assert 30 < max(map(cells, table)) <= 40
