"""MMLU-Pro: harder questions of 14 fields with up to ten options."""

from __future__ import annotations

from nemo_evaluator.benchmarks._choice import LETTERS, instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options that there are (upstream pads with "N/A"); the published letter is the target."""
    options = [option for option in row["options"] if option != "N/A"]
    return {
        "question_id": row["question_id"],
        "question": row["question"],
        "options": options,
        "lines": option_lines(options),
        "letters": LETTERS[: len(options)],
        "target": row["answer"],
        "category": row["category"],
    }


@benchmark(
    name="mmlu_pro",
    dataset="hf://TIGER-Lab/MMLU-Pro?split=test",
    prompt=instruction("{letters}") + "\n\n{fewshot}{question}\n\n{lines}",
    prepare_row=prepare,
    carried=("options",),
    fewshot_split="validation",
    fewshot_by="category",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="MMLU-Pro",
        group="knowledge",
        size=12032,
        scorer="multichoice_regex",
        license="Apache-2.0",
        source="https://huggingface.co/datasets/TIGER-Lab/MMLU-Pro",
        columns=("question_id", "question", "options", "answer", "category"),
        categories="category (14)",
    ),
)
@scorer
def mmlu_pro(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
