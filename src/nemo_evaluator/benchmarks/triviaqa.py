"""TriviaQA: trivia questions without context, with many accepted spellings of each answer."""

from __future__ import annotations

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, fuzzy_match


def prepare(row: JsonDict) -> JsonDict:
    """All aliases are accepted."""
    answer = row["answer"]
    accepted = [answer["value"], *answer["aliases"], *answer["normalized_aliases"]]
    return {
        "question": row["question"],
        "question_id": row["question_id"],
        "target": answer["value"],
        "correct_answers": [alias for alias in dict.fromkeys(accepted) if alias.strip()],
    }


@benchmark(
    name="triviaqa",
    dataset="hf://trivia_qa?config=rc.nocontext&split=validation",
    prompt="Answer the question with a short fact, on one line.\n\n{fewshot}Question: {question}\nAnswer:",
    prepare_row=prepare,
    carried=("correct_answers",),
    fewshot_split="train",
    fewshot_format="Question: {question}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="TriviaQA",
        group="facts",
        size=17944,
        scorer="fuzzy_match",
        license="unknown (authors' code: Apache-2.0)",
        source="https://huggingface.co/datasets/mandarjoshi/trivia_qa",
        columns=("question", "question_id", "answer"),
    ),
)
@scorer
def triviaqa(sample: ScorerInput) -> Score:
    """Does the response state one of the accepted spellings?"""
    return fuzzy_match(sample)
