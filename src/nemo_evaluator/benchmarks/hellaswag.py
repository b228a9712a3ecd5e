"""HellaSwag: which of four endings continues a scene."""

import re
from typing import Final

from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

# Marks that the how-to articles left in the text, such as "[header]" and "[step]".
_TITLE = re.compile(r"(?<=[^.?!\s])\s*\[title\]")
_MARKS = re.compile(r"\[[^][]*\]")


def _clean(text: str) -> str:
    """Remove the marks of the how-to articles from a text.

    A title mark becomes a full stop unless the text before it already ends a sentence.
    """
    with_full_stops = _TITLE.sub(". ", text.strip())
    without_marks = _MARKS.sub(" ", with_full_stops)
    return " ".join(without_marks.split())


def prepare(row: JsonDict) -> JsonDict:
    """Clean the context and letter the endings; the activity is the category."""
    endings = [_clean(ending) for ending in row["endings"]]
    if "ctx_a" in row:
        sentence_start = row["ctx_b"]
        capitalised_start = f"{sentence_start[:1].upper()}{sentence_start[1:]}"
        context = _clean(f"{row['ctx_a']} {capitalised_start}")
    else:
        context = _clean(row["ctx"])
    activity = row["activity_label"]
    columns = {
        "ind": row["ind"],
        "source": row.get("source_id"),
        "context": f"{activity}: {context}",
        "category": activity,
    }
    return columns | lettered(endings, int(row["label"]))


SELF_TEST: Final = SelfTest(mirror_rows=1000, answers="choice")


@benchmark(
    "hellaswag",
    dataset="hf://Rowan/hellaswag?split=validation",
    prepare_row=prepare,
    prompt=(
        "Answer the following question: which ending continues the text best?. The last line "
        "of your response should be of the following format: 'Answer: $LETTER' (without "
        "quotes) where LETTER is one of ABCD. Think step by step before answering.\n"
        "\n"
        "{fewshot}{context} ...\n"
        "\n"
        "{lines}"
    ),
    carried=("choices", "source"),
    fewshot_split="train",
    fewshot_format="{context} ...\n\n{lines}\nAnswer: {target}",
    cluster="source",
    info=BenchmarkInfo(
        title="HellaSwag",
        group="common sense",
        size=10042,
        scorer="multichoice_regex",
        license="MIT",
        source="https://huggingface.co/datasets/Rowan/hellaswag",
        columns=("ind", "activity_label", "ctx_a", "ctx_b", "endings", "label"),
        categories="activity_label",
        published=Published(
            protocol="10 examples, log-likelihood of each ending, length-normalised accuracy.",
            differs=(
                "No examples, endings lettered in the prompt, a letter is generated. Texts are "
                "cleaned as in lm-evaluation-harness, except that a title after a question "
                "mark adds no full stop."
            ),
            comparable="no",
        ),
    ),
)
def hellaswag(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
