"""ARC Easy: grade-school science questions that simple methods get right."""

from dataclasses import replace
from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks.arc_challenge import EXAMPLE, INFO, PROMPT, prepare
from nemo_evaluator.environments.custom import Independent, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

SELF_TEST: Final = SelfTest()


@benchmark(
    "arc_easy",
    dataset="hf://allenai/ai2_arc?config=ARC-Easy&split=test",
    prepare_row=prepare,
    prompt=PROMPT,
    carried=("choices",),
    fewshot_split="train",
    fewshot_format=EXAMPLE,
    cluster=Independent("each question was written on its own"),
    info=replace(INFO, title="ARC Easy", size=2376),
)
def arc_easy(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
