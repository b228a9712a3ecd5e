"""MATH-500: competition mathematics with answers in LaTeX, compared as mathematics."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import ScorerInput, scorer
from nemo_evaluator.scoring import Score, math


def prepare(row: JsonDict) -> JsonDict:
    """The subject is the category."""
    kept = {key: row[key] for key in ("problem", "answer", "level", "unique_id")}
    return {**kept, "category": row["subject"]}


@builtin("math500", prepare_row=prepare)
@scorer
async def math500(sample: ScorerInput) -> Score:
    """Is the announced answer mathematically equal to the published one?"""
    return await math(sample)
