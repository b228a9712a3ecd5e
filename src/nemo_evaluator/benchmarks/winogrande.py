"""WinoGrande: which of two names fills the gap in a sentence."""

from __future__ import annotations

from nemo_evaluator.benchmarks._choice import instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Two lettered options."""
    choices = [row["option1"], row["option2"]]
    return {
        "sentence": row["sentence"],
        "choices": choices,
        "lines": option_lines(choices),
        "target": "AB"[int(row["answer"]) - 1],
    }


@benchmark(
    name="winogrande",
    dataset="hf://allenai/winogrande?config=winogrande_xl&split=validation",
    prompt=instruction("AB", "question: what belongs in the gap (_)?") + "\n\n{fewshot}{sentence}\n\n{lines}",
    prepare_row=prepare,
    carried=("choices",),
    fewshot_split="train",
    fewshot_format="{sentence}\n\n{lines}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="WinoGrande",
        group="common sense",
        size=1267,
        scorer="multichoice_regex",
        license="CC-BY",
        source="https://huggingface.co/datasets/allenai/winogrande",
        columns=("sentence", "option1", "option2", "answer"),
        published=Published(
            protocol="5 examples, log-likelihood of the sentence with each option in the gap.",
            differs="No examples, the options lettered, a letter is generated.",
            comparable="no",
        ),
    ),
)
@scorer
def winogrande(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="AB")
