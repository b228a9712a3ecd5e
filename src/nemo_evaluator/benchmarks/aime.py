"""AIME 2024 and 2025: thirty competition problems a year; every answer is an integer from 0 to 999."""

from __future__ import annotations

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, numeric_match

_PROMPT = (
    "Solve the following math problem step by step. The answer is an integer from 0 to 999. The last line of your "
    "response should be of the form 'Answer: $ANSWER' (without quotes).\n\n{problem}"
)


def prepare(row: JsonDict) -> JsonDict:
    """Leading zeros, as on the answer sheet, are dropped."""
    return {"id": str(row["id"]), "problem": row["problem"], "answer": str(int(row["answer"]))}


def _info(year: int, source: str) -> BenchmarkInfo:
    return BenchmarkInfo(
        title=f"AIME {year}",
        group="math",
        size=30,
        scorer="numeric_match",
        license="of the Mathematical Association of America",
        source=source,
        columns=("id", "problem", "answer"),
        published=Published(
            protocol=(
                "No one protocol: model reports ask for the final integer with free reasoning and average "
                "over 16 to 64 samples at their own temperature."
            ),
            differs="Free reasoning, the integer on a last line; one sample unless `repeats` is set.",
            comparable="nearly, with `repeats: 16` or more and the temperature of the report",
        ),
    )


@benchmark(
    name="aime_2024",
    dataset="hf://HuggingFaceH4/aime_2024?split=train",
    prompt=_PROMPT,
    target_field="answer",
    prepare_row=prepare,
    info=_info(2024, "https://huggingface.co/datasets/HuggingFaceH4/aime_2024"),
)
@benchmark(
    name="aime_2025",
    dataset="hf://math-ai/aime25?split=test",
    prompt=_PROMPT,
    target_field="answer",
    prepare_row=prepare,
    info=_info(2025, "https://huggingface.co/datasets/math-ai/aime25"),
)
@scorer
def aime(sample: ScorerInput) -> Score:
    """Is the announced number the answer?"""
    return numeric_match(sample)
