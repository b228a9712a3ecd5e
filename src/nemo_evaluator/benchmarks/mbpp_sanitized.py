"""MBPP (sanitized): the short Python tasks of MBPP that its authors checked by hand, run in a sandbox."""

from dataclasses import replace
from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks.mbpp import CARRIED, EXAMPLE, INFO, PROMPT, prepare
from nemo_evaluator.environments.custom import Independent, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, code_sandbox_async

SELF_TEST: Final = SelfTest(mirror_rows=427)


@benchmark(
    "mbpp_sanitized",
    dataset="hf://google-research-datasets/mbpp?config=sanitized&split=test",
    prepare_row=prepare,
    prompt=PROMPT,
    target_field="entry_point",
    carried=CARRIED,
    fewshot_split="prompt",
    fewshot_format=EXAMPLE,
    cluster=Independent("each task was written on its own"),
    info=replace(INFO, title="MBPP (sanitized)", size=257),
)
async def mbpp_sanitized(sample: ScorerInput) -> Score:
    """Do the assertions hold?"""
    return await code_sandbox_async(sample, sample.sandbox)
