"""MMLU: four-way questions from 57 subjects, elementary to professional."""

from __future__ import annotations

from nemo_evaluator.benchmarks._choice import LETTERS, instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; the subject is the category."""
    return {
        "question": row["question"],
        "choices": row["choices"],
        "lines": option_lines(row["choices"]),
        "target": LETTERS[int(row["answer"])],
        "category": row["subject"],
    }


@benchmark(
    name="mmlu",
    dataset="hf://cais/mmlu?config=all&split=test",
    prompt=instruction("ABCD") + "\n\n{fewshot}{question}\n\n{lines}",
    prepare_row=prepare,
    carried=("choices",),
    fewshot_split="dev",
    fewshot_by="category",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="MMLU",
        group="knowledge",
        size=14042,
        scorer="multichoice_regex",
        license="MIT",
        source="https://huggingface.co/datasets/cais/mmlu",
        columns=("question", "subject", "choices", "answer"),
        categories="subject (57)",
        published=Published(
            protocol="5 examples of the subject, log-likelihood of the letter (Hendrycks et al., 2021).",
            differs="No examples, free reasoning, a letter is generated, as in simple-evals.",
            comparable="no with the published protocol; nearly with zero-shot chain-of-thought reports",
        ),
    ),
)
@scorer
def mmlu(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
