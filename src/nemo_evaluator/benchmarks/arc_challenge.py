"""ARC Challenge: grade-school science questions that simple methods get wrong."""

from typing import Final

from nemo_evaluator.benchmarks._rows import LETTERS, lettered
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; the answer key may be a letter or a number from 1 to 4."""
    option_texts = row["choices"]["text"]
    columns = lettered(option_texts, row["choices"]["label"].index(row["answerKey"]))
    return {
        "id": row["id"],
        "question": row["question"],
        **columns,
        "letters": LETTERS[: len(option_texts)],
    }


PROMPT: Final = (
    "Answer the following multiple choice question. The last line of your response should "
    "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
    "{letters}. Think step by step before answering.\n"
    "\n"
    "{fewshot}{question}\n"
    "\n"
    "{lines}"
)
EXAMPLE: Final = "{question}\n\n{lines}\nAnswer: {target}"
INFO: Final = BenchmarkInfo(
    title="ARC Challenge",
    group="knowledge",
    size=1172,
    scorer="multichoice_regex",
    license="CC-BY-SA-4.0",
    source="https://huggingface.co/datasets/allenai/ai2_arc",
    columns=("id", "question", "choices", "answerKey"),
    published=Published(
        protocol=(
            "25 examples, log-likelihood of each option's text, length-normalised accuracy "
            "(Open LLM Leaderboard); chat models: free reasoning and a letter."
        ),
        differs=(
            "No examples, all options lettered in the prompt, free reasoning, a letter is "
            "generated."
        ),
        comparable=(
            "no with log-likelihood scores; nearly with reports that let a chat model "
            "answer by letter"
        ),
    ),
)
SELF_TEST: Final = SelfTest(mirror_rows=1150, answers="choice")


@benchmark(
    "arc_challenge",
    dataset="hf://allenai/ai2_arc?config=ARC-Challenge&split=test",
    prepare_row=prepare,
    prompt=PROMPT,
    carried=("choices",),
    fewshot_split="train",
    fewshot_format=EXAMPLE,
    cluster=Independent("each question was written on its own"),
    info=INFO,
)
def arc_challenge(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
