"""SQuAD 2.0: the answer is a span of the passage, or the passage does not give one."""

import re
from collections.abc import Iterable
from typing import Final

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._spans import best_match, committed, squad_normal
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, found, readable
from nemo_evaluator.scoring.text import raw_answer

NO_ANSWER: Final = "unanswerable"
_OPENING: Final = (
    r"(?:(?:so|sorry|unfortunately|based on the passage|according to the passage)\b,?\s*)?"
)
_PASSAGE: Final = (
    r"(?:(?:the|this)\s+)?(?:given\s+|provided\s+)?(?:passage|text|context|paragraph|article|it)"
)
_GIVEN: Final = (
    r"(?:mentioned|stated|given|provided|specified|answerable|answered|known|clear|available|said|described|disclosed"
    r"|indicated|found|listed|in the (?:passage|text|context)|possible to (?:say|tell|determine|answer))"
)
_SAYS: Final = (
    r"(?:say|state|mention|give|provide|specify|contain|tell|answer|include|indicate|describe|discuss|disclose|address"
    r"|identify|explain)s?"
)
_KNOWLEDGE: Final = (
    r"(?:answer|information|info|mention|indication|details?|data|evidence|statement|reference)"
)
# The ways to say that the passage has no answer, each with examples. A form must be all of the answer.
NO_ANSWER_FORMS: Final[dict[str, tuple[str, ...]]] = {
    r"(?:the |this )?(?:question |answer |it )?(?:is |was )?(?:unanswerable|unknown|undetermined"
    r"|unspecified|unstated|n/?a"
    r"|no answer)\b": ("unanswerable", "The question is unanswerable.", "N/A"),
    r"none(?:(?: is| was)? (?:given|stated|mentioned|provided))?\Z": ("none", "none given"),
    rf"(?:the |this )?(?:question |answer |it |that )?(?:is |was |it['’]s |has )?(?:not|never"
    rf"|isn['’]t|wasn['’]t)(?: been)? {_GIVEN}\b": (
        "not specified",
        "It is not mentioned.",
    ),
    rf"{_PASSAGE}\b.{{0,20}}\b(?:does|do|did)(?: not|n['’]t) (?:\w+ly )?{_SAYS}\b": (
        "The passage does not say.",
    ),
    rf"{_PASSAGE} (?:never|fails to|nowhere) {_SAYS}\b": ("The passage never says.",),
    rf"{_PASSAGE} (?:contains|gives|has|provides|offers|makes|includes) no (?:\w+ )?{_KNOWLEDGE}\b": (
        "The passage contains no information about that.",
    ),
    rf"there(?: is|['’]s| was) (?:no|not any|not enough|insufficient) (?:\w+ )?{_KNOWLEDGE}\b": (
        "There is no answer.",
    ),
    rf"no (?:\w+ )?{_KNOWLEDGE}\b": ("no information", "No answer is given."),
    rf"(?:insufficient|not enough) (?:{_KNOWLEDGE}|context)\b": ("Insufficient information",),
    r"(?:(?:one|it|this|that|the answer|the question|this question) )?(?:can(?:not|['’]t| not)|could(?: not|n['’]t)"
    r"|(?:is )?(?:unable|impossible|not possible) to)(?: be)?"
    r" (?:find|found|determine|answer|say|tell|know|infer)\w*\b": ("cannot be determined",),
    # A refusal without a word on the passage says nothing about it.
    r"(?:i|we) (?:can(?:not|['’]t| not)|could(?: not|n['’]t)|(?:am|are) (?:unable|not able) to)"
    r" (?:find|determine|answer|say|tell|infer)\b.{0,60}\b(?:passage|text|context|paragraph|article)": (
        "I cannot find the answer in the passage.",
    ),
}  # fmt: skip
_DECLINED: Final = tuple(
    re.compile(rf"{_OPENING}(?:{form}).{{0,120}}", re.IGNORECASE | re.DOTALL)
    for form in NO_ANSWER_FORMS
)


_CUE: Final = re.compile(r"^[\s*_#>]*(?:final\s+)?answer[\s*_]*:[\s*_]*", re.IGNORECASE)


def declined(text: str) -> bool:
    """Whether an answer says that the passage has none."""
    answer = text.strip().strip("*_\"'“”.` ")
    return any(form.fullmatch(answer) is not None for form in _DECLINED)


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
    accepted_spans = [] if sample.target == NO_ANSWER else sample.metadata["correct_answers"]
    span = committed(sample.response, sample.question, accepted_spans)
    text = readable(sample.response, sample.question)
    # "I cannot find the answer in the passage": the word "answer" announces none.
    last_line = _CUE.sub("", text.strip().rpartition("\n")[2])
    answers = [raw_answer(text), last_line, span or ""]
    is_declined = any(declined(answer) for answer in answers)
    if span is None and not is_declined:
        return found(None, False, f1=0.0)
    # The official script writes an empty string for "no answer", on both sides.
    is_exact, best_f1 = best_match(
        "" if is_declined else span or "", accepted_spans or [""], squad_normal
    )
    return found(NO_ANSWER if is_declined else span, is_exact, f1=best_f1)
