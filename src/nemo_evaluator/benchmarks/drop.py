"""DROP: reading a passage and counting, comparing or sorting what it says."""

from collections.abc import Iterable
from typing import Any, Final

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._spans import committed, drop_match
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, found


def prepare(row: JsonDict) -> JsonDict:
    """Collect the accepted answers, each a list of spans; the first one is the target."""
    if "validated_answers" in row:
        answers = structured(row)
    else:
        answers = grouped(**row["answers_spans"])
    joined_answers = [" and ".join(spans) for spans in answers]
    category = ""
    if "answers_spans" in row:
        category = row["answers_spans"]["types"][0]
    return {
        **kept(row, "passage", "question", "query_id"),
        "answers": answers,
        # Each once, in their order.
        "correct_answers": list(dict.fromkeys(joined_answers)),
        "target": joined_answers[0],
        "category": category,
    }


def structured(row: JsonDict) -> list[list[str]]:
    """Read the answers of a copy of the data that keeps them apart (hf://EleutherAI/drop)."""
    validated = row["validated_answers"]
    validated_answers: list[dict[str, Any]] = []
    for index in range(len(validated["number"])):
        validated_answers.append(
            {key: validated[key][index] for key in ("number", "date", "spans")}
        )
    answers = [_one_answer(answer) for answer in (row["answer"], *validated_answers)]
    return [spans for spans in answers if spans[0]]


def _one_answer(answer: JsonDict) -> list[str]:
    """Return the spans of an annotated answer: its number, its spans or its date."""
    date = answer["date"]
    date_text = " ".join(date[part] for part in ("day", "month", "year")).strip()
    if answer["number"]:
        return [str(answer["number"])]
    return list(answer["spans"]) or [date_text]


def grouped(spans: list[str], types: list[str]) -> list[list[str]]:
    """Group the flat list of answers in the hub's rows by annotator.

    If several annotators gave the same two or more spans, the list repeats itself and shows which spans belong
    together. Otherwise, each span is an answer of its own.

    Args:
        spans: All spans of all annotators, in order.
        types: The type of each span (number, span or date).

    Returns:
        The distinct answers, each a list of spans.
    """
    groups: list[list[str]] = []
    if set(types) == {"span"}:
        for span in spans:
            # A span that comes again begins the answer of the next annotator.
            if not groups or span in groups[-1]:
                groups.append([])
            groups[-1].append(span)
    if len(groups) < 2 or min(map(len, groups)) < 2:
        groups = [[span] for span in spans]
    return [list(group) for group in dict.fromkeys(map(tuple, groups))]


def example(row: JsonDict) -> str:
    """Write a row of the training split as a worked example.

    Such a row has only one answer: all its spans belong together.
    """
    spans: list[str] = []
    for answer in row["answers"]:
        spans += answer
    answer_text = ", ".join(dict.fromkeys(spans))
    return f"Passage: {row['passage']}\nQuestion: {row['question']}\nAnswer: {answer_text}"


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Compute the mean exact match and F1, the two figures of the paper; empty if no row was scored."""
    rows = [detail for detail in details if "f1" in detail]
    if rows:
        means: dict[str, float] = {}
        for key in ("em", "f1"):
            means[key] = sum(row[key] for row in rows) / len(rows)
        return means
    return {}


SELF_TEST: Final = SelfTest(mirror_rows=1000, answers="text", fewshot=0)


@benchmark(
    "drop",
    dataset="hf://ucinlp/drop?split=validation",
    prepare_row=prepare,
    prompt=(
        "You will be asked to read a passage and answer a question. Think step by step, then "
        "write a last line of the form 'Answer: $ANSWER' (without quotes), where $ANSWER is a "
        "number, a date or a few words of the passage, without a sentence around them; "
        "separate several answers by commas.\n"
        "\n"
        "{fewshot}Passage: {passage}\n"
        "Question: {question}"
    ),
    carried=("answers", "correct_answers"),
    fewshot_format=example,
    summary=summary,
    fewshot=3,
    fewshot_split="train",
    cluster="passage",
    info=BenchmarkInfo(
        title="DROP",
        group="reading",
        size=9536,
        scorer="F1 of DROP (exact match beside it)",
        license="CC-BY-SA-4.0",
        source="https://huggingface.co/datasets/ucinlp/drop",
        columns=("passage", "question", "answers_spans", "query_id"),
        categories="type of the answer (number, span, date)",
        published=Published(
            protocol=(
                "3 examples, a short span is generated; F1 and exact match of `drop_eval.py` "
                "(Dua et al., 2019)."
            ),
            differs=(
                "3 examples and free reasoning before an `Answer:` line; the official metric "
                "on that span. The span is read fairly first: signs of currency and per cent "
                "go, a number in words is one in digits, a unit that the question names is "
                'dropped, a list may be separated by commas or "and". The hub\'s rows lose '
                "which spans belong together unless readers agreed; `params: {dataset: "
                '"hf://EleutherAI/drop?split=validation"}` has them.'
            ),
            comparable="nearly; reports with simple-evals' fuzzy match are higher",
        ),
    ),
)
def drop(sample: ScorerInput) -> Score:
    """The F1 of the paper between the answer that the response commits to and the accepted one that fits best: numbers
    must be equal, several spans count in any order. Text around the answer is not read."""
    span = committed(sample.response, sample.question, sample.metadata.get("correct_answers", ()))
    if span is None:
        return found(None, False, em=False, f1=0.0)
    is_exact, best_f1 = drop_match(span, sample.metadata["answers"], sample.metadata["question"])
    return found(span[:200], best_f1, em=is_exact, f1=best_f1)
