"""The built-in benchmarks, one small file each, written with the @benchmark API and imported when they are named."""

from __future__ import annotations

from typing import Final

# Benchmark name -> module of this room.
MODULES: Final[dict[str, str]] = {
    "aime_2024": "aime",
    "aime_2025": "aime",
    "arc_challenge": "arc",
    "arc_easy": "arc",
    "bbh": "bbh",
    "bfcl": "bfcl",
    "boolq": "boolq",
    "commonsense_qa": "commonsense_qa",
    "drop": "drop",
    "global_mmlu": "global_mmlu",
    "gpqa": "gpqa",
    "gsm8k": "gsm8k",
    "healthbench": "healthbench",
    "hellaswag": "hellaswag",
    "humaneval": "humaneval",
    "ifbench": "ifbench",
    "ifeval": "ifeval",
    "math500": "math500",
    "mbpp": "mbpp",
    "mbpp_sanitized": "mbpp",
    "mgsm": "mgsm",
    "mmlu": "mmlu",
    "mmlu_pro": "mmlu_pro",
    "mmlu_redux": "mmlu_redux",
    "mmmu_pro": "mmmu_pro",
    "quickstart": "quickstart",
    "simpleqa": "simpleqa",
    "squad_v2": "squad_v2",
    "triviaqa": "triviaqa",
    "truthfulqa_generation": "truthfulqa",
    "truthfulqa_mc": "truthfulqa",
    "winogrande": "winogrande",
    "xstest": "xstest",
}
