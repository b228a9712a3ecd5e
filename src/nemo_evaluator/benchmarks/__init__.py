"""The built-in benchmarks, one small file each, written with the @benchmark API and imported when they are named."""

from typing import Final

# Benchmark name -> module of this room: most are called alike.
MODULES: Final[dict[str, str]] = {
    **dict.fromkeys(("aime_2024", "aime_2025"), "aime"),
    **dict.fromkeys(("arc_challenge", "arc_easy"), "arc"),
    **dict.fromkeys(("mbpp", "mbpp_sanitized"), "mbpp"),
    **dict.fromkeys(("truthfulqa_generation", "truthfulqa_mc"), "truthfulqa"),
    **{
        name: name
        for name in (
            "bbh",
            "bfcl",
            "boolq",
            "commonsense_qa",
            "drop",
            "global_mmlu",
            "gpqa",
            "gsm8k",
        )
    },
    **{
        name: name
        for name in (
            "healthbench",
            "hellaswag",
            "humaneval",
            "ifbench",
            "ifeval",
            "math500",
            "mgsm",
        )
    },
    **{
        name: name
        for name in (
            "mmlu",
            "mmlu_pro",
            "mmlu_redux",
            "mmmu_pro",
            "pinchbench",
            "quickstart",
            "simpleqa",
        )
    },
    **{name: name for name in ("squad_v2", "triviaqa", "winogrande", "xstest")},
}
