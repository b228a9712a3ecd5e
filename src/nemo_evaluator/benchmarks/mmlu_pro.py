"""MMLU-Pro: harder questions of 14 fields with up to ten options."""

from typing import Final

from nemo_evaluator.benchmarks._rows import LETTERS, kept, option_lines, shared_passage
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options, without the "N/A" that the dataset pads them with; the published letter is the target."""
    options = [option for option in row["options"] if option != "N/A"]
    dotted_lines: list[str] = []
    for letter, option in zip(LETTERS, options, strict=False):
        dotted_lines.append(f"{letter}. {option.strip()}")
    return {
        **kept(row, "question_id", "question", "category"),
        "options": options,
        "lines": option_lines(options),
        "letters": LETTERS[: len(options)],
        "dotted": "\n".join(dotted_lines),
        "worked": row.get("cot_content", "").removeprefix("A: "),
        "target": row["answer"],
    }


SELF_TEST: Final = SelfTest(mirror_rows=12032, answers="choice", wrong_share=3)


@benchmark(
    "mmlu_pro",
    dataset="hf://TIGER-Lab/MMLU-Pro?split=test",
    prepare_row=prepare,
    prompt=(
        "Answer the following multiple choice question. The last line of your response should "
        "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
        "{letters}. Think step by step before answering.\n"
        "\n"
        "{fewshot}{question}\n"
        "\n"
        "{lines}"
    ),
    carried=("options", "dotted", "worked"),
    fewshot_split="validation",
    fewshot_by="category",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    protocols={
        "cot_5shot": {
            "prompt": (
                "The following are multiple choice questions (with answers) about {category}. "
                'Think step by step and then finish your answer with "the answer is (X)" where '
                "X is the correct letter choice.\n"
                "\n"
                "{fewshot}Question:\n"
                "{question}\n"
                "Options:\n"
                "{dotted}\n"
                "Answer: Let's think step by step."
            ),
            "fewshot": 5,
            "fewshot_format": "Question:\n{question}\nOptions:\n{dotted}\nAnswer: {worked}",
            "fewshot_in_order": True,
        },
    },
    cluster=shared_passage,
    info=BenchmarkInfo(
        title="MMLU-Pro",
        group="knowledge",
        size=12032,
        scorer="multichoice_regex",
        license="Apache-2.0",
        source="https://huggingface.co/datasets/TIGER-Lab/MMLU-Pro",
        columns=("question_id", "question", "options", "answer", "category"),
        categories="category (14)",
        params={
            "protocol": (
                "`default`, or `cot_5shot`: the 5 worked validation rows of the same category, "
                "as published"
            ),
        },
        published=Published(
            protocol=(
                "5 worked examples of the category with chain of thought, a letter is "
                "generated (Wang et al., 2024)."
            ),
            differs=(
                "No examples, a prompt of our own, free reasoning. An answer without a letter "
                "is wrong, where the authors' script draws one at random."
            ),
            comparable=(
                "nearly with `protocol: cot_5shot`, whose prompt is the published one; by "
                "default nearly with zero-shot reports"
            ),
        ),
    ),
)
def mmlu_pro(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
