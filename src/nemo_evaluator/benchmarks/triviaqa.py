"""TriviaQA: trivia questions without context, with many accepted spellings of each answer."""

from typing import Final

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._spans import best_match, committed, trivia_normal
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, found


def prepare(row: JsonDict) -> JsonDict:
    """Collect the answer and all its aliases as accepted answers."""
    answer = row["answer"]
    all_spellings = [answer["value"], *answer["aliases"], *answer["normalized_aliases"]]
    distinct_spellings = [alias for alias in dict.fromkeys(all_spellings) if alias.strip()]
    return kept(row, "question", "question_id") | {
        "target": answer["value"],
        "correct_answers": distinct_spellings,
    }


SELF_TEST: Final = SelfTest(mirror_rows=1, answers="text")


@benchmark(
    "triviaqa",
    dataset="hf://trivia_qa?config=rc.nocontext&split=validation",
    prepare_row=prepare,
    prompt=(
        "Answer the question. Write a last line of the form 'Answer: $ANSWER' (without "
        "quotes), where $ANSWER is the name, date or few words that were asked for, without a "
        "sentence around them.\n"
        "\n"
        "{fewshot}Question: {question}"
    ),
    carried=("correct_answers",),
    fewshot_split="train",
    fewshot_format="Question: {question}\nAnswer: {target}",
    cluster=Independent("each question was written on its own"),
    info=BenchmarkInfo(
        title="TriviaQA",
        group="facts",
        size=17944,
        scorer="exact match of TriviaQA over all aliases (F1 beside it)",
        license="unknown (authors' code: Apache-2.0)",
        source="https://huggingface.co/datasets/mandarjoshi/trivia_qa",
        columns=("question", "question_id", "answer"),
        published=Published(
            protocol=(
                "5 to 64 examples, a short answer is generated, exact match over all aliases "
                "(Joshi et al., 2017; GPT-3)."
            ),
            differs=(
                "No examples (`fewshot: 5` takes some), the answer on an `Answer:` line; the "
                "official normalisation and exact match."
            ),
            comparable="nearly with `fewshot: 5`",
        ),
    ),
)
def triviaqa(sample: ScorerInput) -> Score:
    """Is the answer that the response commits to an accepted spelling, case, articles and punctuation aside?"""
    span = committed(sample.response, sample.question, sample.metadata["correct_answers"])
    if span is None:
        return found(None, False, f1=0.0)
    is_exact, best_f1 = best_match(span, sample.metadata["correct_answers"], trivia_normal)
    return found(span[:200], is_exact, f1=best_f1)
