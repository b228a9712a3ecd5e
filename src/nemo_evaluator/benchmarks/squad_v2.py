"""SQuAD 2.0: the answer is a span of the passage, or the passage does not give one."""

import re
from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._spans import best_match, committed, squad_normal
from nemo_evaluator.core.types import JsonDict
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
    """Every annotator's span is accepted; none means that the question cannot be answered."""
    spans = list(dict.fromkeys(row["answers"]["text"]))
    return {
        **kept(row, "id", "context", "question"),
        "correct_answers": spans or [NO_ANSWER],
        "target": spans[0] if spans else NO_ANSWER,
        "category": "answerable" if spans else NO_ANSWER,
    }


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """The other figure of the paper."""
    overlaps = [detail["f1"] for detail in details if "f1" in detail]
    if overlaps:
        return {"f1": sum(overlaps) / len(overlaps)}
    return {}


@builtin("squad_v2", prepare_row=prepare, summary=summary)
def squad_v2(sample: ScorerInput) -> Score:
    """Is the span that the response commits to one of the accepted ones, case, articles and punctuation aside?
    Where the passage gives no answer, only saying so is right."""
    said = committed(sample.response, sample.question)
    text = sample.response if said is None else said
    announced = next(claimed_texts(strip_reasoning(text)), text)
    declined = _DECLINED.fullmatch(announced.strip().strip("*_\"'.")) is not None
    if said is None and not declined:
        return found(None, False, f1=0.0)
    # The official script writes an empty string for "no answer", on both sides.
    if sample.target == NO_ANSWER:
        accepted: list[str | Any] | Any = [""]
    else:
        accepted = sample.metadata["correct_answers"]
    exact, overlap = best_match("" if declined else said or "", accepted, squad_normal)
    return found(NO_ANSWER if declined else said, exact, f1=overlap)
