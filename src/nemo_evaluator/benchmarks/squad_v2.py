"""SQuAD 2.0: the answer is a span of the passage, or the passage does not give one."""

from __future__ import annotations

import re
from typing import Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, exact_match, f1

NO_ANSWER: Final = "unanswerable"
_DECLINED: Final = re.compile(
    r"\bunanswerable\b|\bno answer\b|\bcannot be answered\b|\bcan't be answered\b|\bnot answerable\b"
    r"|\bdoes(?: not|n't) (?:say|state|mention|give|provide|specify|contain)\b",
    re.IGNORECASE,
)


def prepare(row: JsonDict) -> JsonDict:
    """Every annotator's span is accepted; none means that the question cannot be answered."""
    spans = list(dict.fromkeys(row["answers"]["text"]))
    return {
        "id": row["id"],
        "context": row["context"],
        "question": row["question"],
        "correct_answers": spans or [NO_ANSWER],
        "target": spans[0] if spans else NO_ANSWER,
        "category": "answerable" if spans else NO_ANSWER,
    }


@benchmark(
    name="squad_v2",
    dataset="hf://rajpurkar/squad_v2?split=validation",
    prompt=(
        "Read the passage and answer the question with the shortest span of the passage that answers it, or with "
        f"'{NO_ANSWER}' if the passage does not. Write a last line of the form 'Answer: $ANSWER' (without quotes)."
        "\n\n{fewshot}Passage: {context}\nQuestion: {question}"
    ),
    prepare_row=prepare,
    fewshot_split="train",
    fewshot_format="Passage: {context}\nQuestion: {question}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="SQuAD 2.0",
        group="reading",
        size=11873,
        scorer="exact_match (with f1)",
        license="CC-BY-SA-4.0",
        source="https://huggingface.co/datasets/rajpurkar/squad_v2",
        columns=("id", "context", "question", "answers"),
        categories="answerable or unanswerable",
    ),
)
@scorer
def squad_v2(sample: ScorerInput) -> Score:
    """Is the announced answer one of the spans? A word overlap stands beside it."""
    score = exact_match(sample)
    declined = bool(_DECLINED.search(str(score["extracted"] or "")))
    if sample.target == NO_ANSWER or declined:
        right = declined and sample.target == NO_ANSWER
        return {**score, "correct": right, "f1": float(right)}
    return {**score, "f1": f1(sample)["f1"]}
