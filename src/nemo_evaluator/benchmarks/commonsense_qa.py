"""CommonsenseQA: five-way questions about everyday things."""

from __future__ import annotations

from nemo_evaluator.benchmarks._choice import LETTERS, instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options."""
    texts = row["choices"]["text"]
    return {
        "id": row["id"],
        "question": row["question"],
        "choices": texts,
        "lines": option_lines(texts),
        "target": LETTERS[row["choices"]["label"].index(row["answerKey"])],
    }


@benchmark(
    name="commonsense_qa",
    dataset="hf://tau/commonsense_qa?split=validation",
    prompt=instruction("ABCDE") + "\n\n{fewshot}{question}\n\n{lines}",
    prepare_row=prepare,
    carried=("choices",),
    fewshot_split="train",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="CommonsenseQA",
        group="common sense",
        size=1221,
        scorer="multichoice_regex",
        license="MIT",
        source="https://huggingface.co/datasets/tau/commonsense_qa",
        columns=("id", "question", "choices", "answerKey"),
        published=Published(
            protocol=(
                "Few-shot with chain of thought (Wei et al., 2022: 7 examples), or log-likelihood of the letters."
            ),
            differs="No examples, free reasoning, a letter is generated.",
            comparable="no; nearly with zero-shot reports of chat models",
        ),
    ),
)
@scorer
def commonsense_qa(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCDE")
