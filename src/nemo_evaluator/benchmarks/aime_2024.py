"""AIME 2024: thirty competition problems; every answer is an integer from 0 to 999."""

from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, numeric_match


def prepare(row: JsonDict) -> JsonDict:
    """Select the columns and drop the answer's leading zeros, which the answer sheet has."""
    return {"id": str(row["id"]), "problem": row["problem"], "answer": str(int(row["answer"]))}


PROMPT: Final = (
    "Solve the following math problem step by step. The answer is an integer from 0 to "
    "999. The last line of your response should be of the form 'Answer: $ANSWER' (without "
    "quotes).\n"
    "\n"
    "{problem}"
)
INFO: Final = BenchmarkInfo(
    title="AIME 2024",
    group="math",
    size=30,
    scorer="numeric_match",
    license="of the Mathematical Association of America",
    source="https://huggingface.co/datasets/HuggingFaceH4/aime_2024",
    columns=("id", "problem", "answer"),
    published=Published(
        protocol=(
            "No one protocol: model reports ask for the final integer with free reasoning "
            "and average over 16 to 64 samples at their own temperature."
        ),
        differs=("Free reasoning, the integer on a last line; one sample unless `repeats` is set."),
        comparable="nearly, with `repeats: 16` or more and the temperature of the report",
    ),
)
SELF_TEST: Final = SelfTest()


@benchmark(
    "aime_2024",
    dataset="hf://HuggingFaceH4/aime_2024?split=train",
    prepare_row=prepare,
    prompt=PROMPT,
    target_field="answer",
    cluster=Independent("each problem of the papers was written on its own"),
    info=INFO,
)
def aime_2024(sample: ScorerInput) -> Score:
    """Is the announced number the answer?"""
    return numeric_match(sample)
