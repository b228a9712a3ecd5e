"""ARC: grade-school science questions; the challenge set holds those that simple methods get wrong."""

from __future__ import annotations

from nemo_evaluator.benchmarks._choice import LETTERS, instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex

_PROMPT = instruction("{letters}") + "\n\n{fewshot}{question}\n\n{lines}"
_EXAMPLE = "{question}\n\n{lines}\nAnswer: {target}"


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; some rows number them 1 to 4."""
    texts = row["choices"]["text"]
    return {
        "id": row["id"],
        "question": row["question"],
        "choices": texts,
        "lines": option_lines(texts),
        "letters": LETTERS[: len(texts)],
        "target": LETTERS[row["choices"]["label"].index(row["answerKey"])],
    }


def _info(title: str, size: int) -> BenchmarkInfo:
    return BenchmarkInfo(
        title=title,
        group="knowledge",
        size=size,
        scorer="multichoice_regex",
        license="CC-BY-SA-4.0",
        source="https://huggingface.co/datasets/allenai/ai2_arc",
        columns=("id", "question", "choices", "answerKey"),
        published=Published(
            protocol=(
                "25 examples, log-likelihood of each option's text, length-normalised accuracy (Open LLM "
                "Leaderboard); chat models: free reasoning and a letter."
            ),
            differs="No examples, all options lettered in the prompt, free reasoning, a letter is generated.",
            comparable=("no with log-likelihood scores; nearly with reports that let a chat model answer by letter"),
        ),
    )


@benchmark(
    name="arc_challenge",
    dataset="hf://allenai/ai2_arc?config=ARC-Challenge&split=test",
    prompt=_PROMPT,
    prepare_row=prepare,
    carried=("choices",),
    fewshot_split="train",
    fewshot_format=_EXAMPLE,
    info=_info("ARC Challenge", 1172),
)
@benchmark(
    name="arc_easy",
    dataset="hf://allenai/ai2_arc?config=ARC-Easy&split=test",
    prompt=_PROMPT,
    prepare_row=prepare,
    carried=("choices",),
    fewshot_split="train",
    fewshot_format=_EXAMPLE,
    info=_info("ARC Easy", 2376),
)
@scorer
def arc(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
