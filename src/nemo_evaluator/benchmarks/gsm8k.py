"""GSM8K: grade-school mathematics in words; the answer is one number."""

import re
from typing import Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, numeric_match

# Notes for a calculator in the published solutions, such as <<3*4=12>>.
_NOTES: Final = re.compile(r"<<[^<>]*>>")


def prepare(row: JsonDict) -> JsonDict:
    """Split the published solution into its text and its final number, without thousands separators."""
    solution, _, number = row["answer"].rpartition("####")
    target = number.strip().replace(",", "")
    return {
        "question": row["question"],
        "target": target,
        "solution": _NOTES.sub("", solution).strip(),
    }


SELF_TEST: Final = SelfTest(mirror_rows=1319, answers="number")


@benchmark(
    "gsm8k",
    dataset="hf://openai/gsm8k?config=main&split=test",
    prepare_row=prepare,
    prompt=(
        "Solve the following math problem step by step. End with a line that gives the final "
        "number after 'The answer is'.\n"
        "\n"
        "{fewshot}Problem: {question}"
    ),
    carried=("solution",),
    fewshot_split="train",
    fewshot_format="Problem: {question}\n{solution}\nThe answer is {target}",
    protocols={
        "cot_8shot": {
            "prompt": "{fewshot}Q: {question}\nA:",
            "fewshot": 8,
            "fewshot_dataset": "data/gsm8k_cot.jsonl",
            "fewshot_format": "Q: {question}\nA: {solution} The answer is {target}.",
            "fewshot_in_order": True,
        },
    },
    cluster=Independent("each problem was written on its own"),
    info=BenchmarkInfo(
        title="GSM8K",
        group="math",
        size=1319,
        scorer="numeric_match",
        license="MIT",
        source="https://huggingface.co/datasets/openai/gsm8k",
        columns=("question", "answer"),
        params={
            "protocol": (
                "`default`, or `cot_8shot`: the 8 worked examples of Wei et al. (2022), Q and A"
            ),
        },
        published=Published(
            protocol=(
                "8 worked examples with chain of thought (Wei et al., 2022), greedy; the last "
                'number after "The answer is".'
            ),
            differs='No examples, free reasoning, "The answer is" on a last line.',
            comparable=(
                "yes with `protocol: cot_8shot`; by default nearly, with zero-shot reports of "
                "chat models"
            ),
        ),
    ),
)
def gsm8k(sample: ScorerInput) -> Score:
    """Is the number that the response ends on the number after ``####``?"""
    return numeric_match(sample)
