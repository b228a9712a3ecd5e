"""MMMU-Pro: college questions about pictures, with up to ten options."""

import ast
import re
from typing import Any, Final

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import LETTERS, option_lines
from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.datasets import Rows, open_rows
from nemo_evaluator.scoring import multichoice_regex

_INSTRUCTION: Final = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of {letters}. Think step by step before answering."
)
_IMAGES: Final = tuple(f"image_{number}" for number in range(1, 8))
_TYPES: Final = {"iVBOR": "png", "/9j/": "jpeg", "R0lGO": "gif", "UklGR": "webp"}


def dataset(variant: str) -> Rows:
    """One of the published forms of the questions."""
    return open_rows(f"hf://MMMU/MMMU_Pro?config={variant.replace(' ', '%20')}&split=test")


def data_uri(cell: Any) -> str:
    """A picture cell (base64 text, as rows are kept) as a data URI."""
    encoded = cell["bytes_base64"]
    kind = next((kind for start, kind in _TYPES.items() if encoded.startswith(start)), "png")
    return f"data:image/{kind};base64,{encoded}"


def seed(row: JsonDict, idx: int) -> SeedResult:
    """The question with its pictures, in the order of their numbers; the text keeps its ``<image n>`` marks."""
    if isinstance(row["options"], str):
        options: Any | list[Any] = ast.literal_eval(row["options"])
    else:
        options = list(row["options"])
    letters = LETTERS[: len(options)]
    question = row.get("question") or "Answer the question in the image."
    numbers = [column for column in _IMAGES if row.get(column)] or (
        ["image"] if row.get("image") else []
    )
    named: set[int] = set()
    for number in re.findall(r"<image (\d)>", f"{question} {' '.join(options)}"):
        named.add(int(number))
    missing = sorted(f"<image {number}>" for number in named if not row.get(f"image_{number}"))
    if missing:
        raise SeedError(f"{row['id']}: the dataset has no picture for {', '.join(missing)}")
    return SeedResult(
        prompt=f"{_INSTRUCTION.format(letters=letters)}\n\n{question}\n\n{option_lines(options)}",
        expected_answer=row["answer"],
        images=[data_uri(row[column]) for column in numbers] or None,
        metadata={
            "source": "byob",
            "benchmark": "mmmu_pro",
            "id": row["id"],
            "category": row.get("subject") or row["id"].split("_", 1)[-1].rsplit("_", 1)[0],
            "options": options,
            "letters": letters,
        },
        shown=frozenset({"options", "letters"}),
    )


builtin("mmmu_pro", dataset=dataset, seed_fn=seed, params={"variant": "standard (10 options)"})(
    lambda sample: multichoice_regex(sample, labels=sample.metadata["letters"])
)
