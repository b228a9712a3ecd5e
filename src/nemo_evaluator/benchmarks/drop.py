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
    """Each accepted answer is a list of spans; the first one is the target."""
    if "validated_answers" in row:
        answers = structured(row)
    else:
        answers = grouped(**row["answers_spans"])
    return {
        **kept(row, "passage", "question", "query_id"),
        "answers": answers,
        "correct_answers": list(dict.fromkeys(" and ".join(spans) for spans in answers)),
        "target": " and ".join(answers[0]),
        "category": row["answers_spans"]["types"][0] if "answers_spans" in row else "",
    }


def structured(row: JsonDict) -> list[list[str]]:
    """The answers of a copy of the data that keeps them apart (hf://EleutherAI/drop)."""
    checked = row["validated_answers"]
    others: list[dict[str, Any]] = []
    for at in range(len(checked["number"])):
        others.append({key: checked[key][at] for key in ("number", "date", "spans")})
    answers = [_one_answer(answer) for answer in (row["answer"], *others)]
    return [spans for spans in answers if spans[0]]


def _one_answer(answer: JsonDict) -> list[str]:
    date = answer["date"]
    spoken = " ".join(date[part] for part in ("day", "month", "year")).strip()
    if answer["number"]:
        return [str(answer["number"])]
    return list(answer["spans"]) or [spoken]


def grouped(spans: list[str], types: list[str]) -> list[list[str]]:
    """The answers of the hub's rows, which lie one after another in a flat list. Where several readers gave the same
    two spans or more, the list repeats itself and shows which belong together. Where it does not, each span is an
    answer by itself."""
    groups: list[list[str]] = []
    for span in spans if set(types) == {"span"} else ():
        if not groups or span in groups[-1]:
            groups.append([])
        groups[-1].append(span)
    if len(groups) < 2 or min(map(len, groups)) < 2:
        groups = [[span] for span in spans]
    return [list(group) for group in dict.fromkeys(map(tuple, groups))]


def example(row: JsonDict) -> str:
    """A row of the training split has one answer: all its spans belong together."""
    spans = dict.fromkeys(span for answer in row["answers"] for span in answer)
    return f"Passage: {row['passage']}\nQuestion: {row['question']}\nAnswer: {', '.join(spans)}"


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Both figures of the paper."""
    rows = [detail for detail in details if "f1" in detail]
    if rows:
        mapping: dict[str, float] = {}
        for key in ("em", "f1"):
            mapping[key] = sum(row[key] for row in rows) / len(rows)
        return mapping
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
    said = committed(sample.response, sample.question)
    if said is None:
        return found(None, False, em=False, f1=0.0)
    exact, overlap = drop_match(said, sample.metadata["answers"], sample.metadata["question"])
    return found(said[:200], overlap, em=exact, f1=overlap)
