"""TriviaQA: trivia questions without context, with many accepted spellings of each answer."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._spans import best_match, committed, trivia_normal
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import Score, ScorerInput, found


def prepare(row: JsonDict) -> JsonDict:
    """All aliases are accepted."""
    answer = row["answer"]
    accepted = [answer["value"], *answer["aliases"], *answer["normalized_aliases"]]
    spellings = [alias for alias in dict.fromkeys(accepted) if alias.strip()]
    return kept(row, "question", "question_id") | {
        "target": answer["value"],
        "correct_answers": spellings,
    }


@builtin("triviaqa", prepare_row=prepare)
def triviaqa(sample: ScorerInput) -> Score:
    """Is the answer that the response commits to an accepted spelling, case, articles and punctuation aside?"""
    said = committed(sample.response, sample.question)
    if said is None:
        return found(None, False, f1=0.0)
    exact, overlap = best_match(said, sample.metadata["correct_answers"], trivia_normal)
    return found(said[:200], exact, f1=overlap)
