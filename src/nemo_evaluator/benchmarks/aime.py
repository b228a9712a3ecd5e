"""AIME 2024 and 2025: thirty competition problems a year; every answer is an integer from 0 to 999."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import ScorerInput, scorer
from nemo_evaluator.scoring import Score, numeric_match


def prepare(row: JsonDict) -> JsonDict:
    """Leading zeros, as on the answer sheet, are dropped."""
    return {"id": str(row["id"]), "problem": row["problem"], "answer": str(int(row["answer"]))}


@builtin("aime_2024", prepare_row=prepare)
@builtin("aime_2025", prepare_row=prepare)
@scorer
def aime(sample: ScorerInput) -> Score:
    """Is the announced number the answer?"""
    return numeric_match(sample)
