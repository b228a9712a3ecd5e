"""AIME 2024 and 2025: thirty competition problems a year; every answer is an integer from 0 to 999."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import numeric_match


def prepare(row: JsonDict) -> JsonDict:
    """Leading zeros, as on the answer sheet, are dropped."""
    return {"id": str(row["id"]), "problem": row["problem"], "answer": str(int(row["answer"]))}


for _name in ("aime_2024", "aime_2025"):
    builtin(_name, prepare_row=prepare)(lambda sample: numeric_match(sample))
