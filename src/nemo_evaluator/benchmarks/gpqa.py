"""GPQA Diamond: graduate questions in biology, physics and chemistry that searching does not answer."""

from __future__ import annotations

import random

from nemo_evaluator.benchmarks._choice import LETTERS, instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex

_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def prepare(row: JsonDict, idx: int, rng: random.Random) -> JsonDict:
    """Shuffle the four answers; the order of a question is the same in every run."""
    right = row["Correct Answer"].strip()
    choices = [right, *(row[column].strip() for column in _WRONG)]
    rng.shuffle(choices)
    return {
        "question": row["Question"].strip(),
        "choices": choices,
        "lines": option_lines(choices),
        "target": LETTERS[choices.index(right)],
        "category": row["High-level domain"],
    }


@benchmark(
    name="gpqa",
    dataset="hf://Idavidrein/gpqa?config=gpqa_diamond&split=train",
    prompt=instruction("ABCD") + "\n\n{question}\n\n{lines}",
    prepare_row=prepare,
    carried=("choices",),
    info=BenchmarkInfo(
        title="GPQA Diamond",
        group="knowledge",
        size=198,
        scorer="multichoice_regex",
        needs=("gated",),
        license="CC-BY-4.0",
        source="https://huggingface.co/datasets/Idavidrein/gpqa",
        columns=("Question", "Correct Answer", *_WRONG, "High-level domain"),
        categories="High-level domain (3)",
        published=Published(
            protocol=(
                "Zero-shot chain of thought, options shuffled, a letter is generated (simple-evals; Rein et al., 2023)."
            ),
            differs="The same, with a shuffle of our own that is fixed for each row.",
            comparable="yes, within the noise of the shuffle",
        ),
    ),
)
@scorer
def gpqa(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
