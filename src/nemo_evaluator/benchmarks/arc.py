"""ARC: grade-school science questions; the challenge set holds those that simple methods get wrong."""

from nemo_evaluator.benchmarks._choice import LETTERS, lettered
from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import ScorerInput, scorer
from nemo_evaluator.scoring import Score, multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; some rows number them 1 to 4."""
    texts = row["choices"]["text"]
    columns = lettered(texts, row["choices"]["label"].index(row["answerKey"]))
    return {"id": row["id"], "question": row["question"], **columns, "letters": LETTERS[: len(texts)]}


@builtin("arc_challenge", prepare_row=prepare)
@builtin("arc_easy", prepare_row=prepare)
@scorer
def arc(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
