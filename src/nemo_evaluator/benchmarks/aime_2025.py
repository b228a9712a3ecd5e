"""AIME 2025: thirty competition problems; every answer is an integer from 0 to 999."""

from dataclasses import replace
from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks.aime_2024 import INFO, PROMPT, prepare
from nemo_evaluator.environments.custom import Independent, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, numeric_match

SELF_TEST: Final = SelfTest()


@benchmark(
    "aime_2025",
    dataset="hf://math-ai/aime25?split=test",
    prepare_row=prepare,
    prompt=PROMPT,
    target_field="answer",
    cluster=Independent("each problem of the papers was written on its own"),
    info=replace(
        INFO,
        title="AIME 2025",
        source="https://huggingface.co/datasets/math-ai/aime25",
    ),
)
def aime_2025(sample: ScorerInput) -> Score:
    """Is the announced number the answer?"""
    return numeric_match(sample)
