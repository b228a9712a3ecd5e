"""DROP: reading a passage and counting, comparing or sorting what it says."""

from __future__ import annotations

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, fuzzy_match


def prepare(row: JsonDict) -> JsonDict:
    """Every span is an accepted answer; the first is the target."""
    spans = list(dict.fromkeys(row["answers_spans"]["spans"]))
    return {
        "passage": row["passage"],
        "question": row["question"],
        "correct_answers": spans,
        "target": spans[0],
        "query_id": row["query_id"],
        "category": row["answers_spans"]["types"][0],
    }


@benchmark(
    name="drop",
    dataset="hf://ucinlp/drop?split=validation",
    prompt=(
        "You will be asked to read a passage and answer a question. Think step by step, then write a last line of the "
        "form 'Answer: $ANSWER' (without quotes).\n\n{fewshot}Passage: {passage}\nQuestion: {question}"
    ),
    prepare_row=prepare,
    fewshot=3,
    fewshot_split="train",
    fewshot_format="Passage: {passage}\nQuestion: {question}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="DROP",
        group="reading",
        size=9536,
        scorer="fuzzy_match",
        license="CC-BY-SA-4.0",
        source="https://huggingface.co/datasets/ucinlp/drop",
        columns=("passage", "question", "answers_spans", "query_id"),
        categories="type of the answer (number, span, date)",
    ),
)
@scorer
def drop(sample: ScorerInput) -> Score:
    """Does the announced answer state one of the accepted ones, numbers as numbers?"""
    return fuzzy_match(sample)
