"""SQuAD 2.0: the answer is a span of the passage, or the passage does not give one."""

import re
from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._spans import best_match, committed, squad_normal
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, found, strip_reasoning
from nemo_evaluator.scoring.text import claimed_texts

NO_ANSWER: Final = "unanswerable"
_DECLINED: Final = re.compile(
    r"(?:the )?(?:question |it |this )?(?:is |was )?(?:unanswerable|not answerable|no answer|none|n/a"
    r"|can(?:not|'t|’t| not) be (?:answered|determined))\b.{0,80}"
    r"|(?:the )?(?:passage|text|context|it)\b.{0,20}\b(?:does|do|did)(?: not|n't|n’t) "
    r"(?:say|state|mention|give|provide|specify|contain)\b.{0,120}",
    re.IGNORECASE | re.DOTALL,
)


def prepare(row: JsonDict) -> JsonDict:
    """Collect the spans of all annotators as accepted answers; a question without any cannot be answered."""
    spans = list(dict.fromkeys(row["answers"]["text"]))
    return {
        **kept(row, "id", "context", "question"),
        "correct_answers": spans or [NO_ANSWER],
        "target": spans[0] if spans else NO_ANSWER,
        "category": "answerable" if spans else NO_ANSWER,
    }


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Compute the mean F1, which the paper reports beside exact match; empty if no row was scored."""
    overlaps = [detail["f1"] for detail in details if "f1" in detail]
    if overlaps:
        return {"f1": sum(overlaps) / len(overlaps)}
    return {}


SELF_TEST: Final = SelfTest()


@benchmark(
    "squad_v2",
    dataset="hf://rajpurkar/squad_v2?split=validation",
    prepare_row=prepare,
    prompt=(
        "Read the passage and answer the question with the shortest span of the passage that "
        "answers it, or with 'unanswerable' if the passage does not. Write a last line of the "
        "form 'Answer: $ANSWER' (without quotes).\n"
        "\n"
        "{fewshot}Passage: {context}\n"
        "Question: {question}"
    ),
    summary=summary,
    fewshot_split="train",
    fewshot_format="Passage: {context}\nQuestion: {question}\nAnswer: {target}",
    cluster="context",
    info=BenchmarkInfo(
        title="SQuAD 2.0",
        group="reading",
        size=11873,
        scorer="exact match of SQuAD 2.0 (F1 beside it)",
        license="CC-BY-SA-4.0",
        source="https://huggingface.co/datasets/rajpurkar/squad_v2",
        columns=("id", "context", "question", "answers"),
        categories="answerable or unanswerable",
        published=Published(
            protocol=(
                "Systems that point at a span; exact match and F1 of `evaluate-v2.0.py` "
                "(Rajpurkar et al., 2018)."
            ),
            differs=(
                'The span is generated on an `Answer:` line, "unanswerable" stands for no '
                "answer; the official metric on that span."
            ),
            comparable="nearly, with generative reports",
        ),
    ),
)
def squad_v2(sample: ScorerInput) -> Score:
    """Is the span that the response commits to one of the accepted ones, case, articles and punctuation aside?
    Where the passage gives no answer, only saying so is right."""
    span = committed(sample.response, sample.question)
    answer_text = sample.response if span is None else span
    announced = next(claimed_texts(strip_reasoning(answer_text)), answer_text)
    declined = _DECLINED.fullmatch(announced.strip().strip("*_\"'.")) is not None
    if span is None and not declined:
        return found(None, False, f1=0.0)
    # The official script writes an empty string for "no answer", on both sides.
    if sample.target == NO_ANSWER:
        accepted: list[str | Any] | Any = [""]
    else:
        accepted = sample.metadata["correct_answers"]
    is_exact, best_f1 = best_match("" if declined else span or "", accepted, squad_normal)
    return found(NO_ANSWER if declined else span, is_exact, f1=best_f1)
