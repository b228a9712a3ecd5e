"""MMMU-Pro: college questions about pictures, with up to ten options."""

import ast
import re
from typing import Any, Final

from nemo_evaluator.benchmarks._rows import LETTERS, option_lines
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.datasets import Rows, open_rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

_INSTRUCTION: Final = (
    "Answer the following multiple choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of {letters}. Think step by step before answering."
)
_IMAGES: Final = tuple(f"image_{number}" for number in range(1, 8))
_TYPES: Final = {"iVBOR": "png", "/9j/": "jpeg", "R0lGO": "gif", "UklGR": "webp"}


def dataset(variant: str) -> Rows:
    """Load one of the published variants of the questions."""
    return open_rows(f"hf://MMMU/MMMU_Pro?config={variant.replace(' ', '%20')}&split=test")


def data_uri(cell: Any) -> str:
    """Convert an image cell, which holds base64 text, to a data URI."""
    encoded = cell["bytes_base64"]
    for prefix, image_type in _TYPES.items():
        if encoded.startswith(prefix):
            return f"data:image/{image_type};base64,{encoded}"
    return f"data:image/png;base64,{encoded}"


def seed(row: JsonDict, idx: int) -> SeedResult:
    """Make the problem of a row: the question with its images, in the order of their numbers.

    The text keeps its ``<image n>`` marks.

    Raises:
        SeedError: The text mentions an image that the row lacks.
    """
    options = _options(row)
    letters = LETTERS[: len(options)]
    question = row.get("question") or "Answer the question in the image."
    missing_images = _missing_images(row, f"{question} {' '.join(options)}")
    if missing_images:
        raise SeedError(f"{row['id']}: the dataset has no picture for {', '.join(missing_images)}")
    instruction = _INSTRUCTION.format(letters=letters)
    category = row.get("subject")
    if not category:
        # Ids look like "validation_Art_History_12".
        id_without_split = row["id"].split("_", 1)[-1]
        category = id_without_split.rsplit("_", 1)[0]
    return SeedResult(
        prompt=f"{instruction}\n\n{question}\n\n{option_lines(options)}",
        expected_answer=row["answer"],
        images=_images(row) or None,
        metadata={
            "source": "byob",
            "benchmark": "mmmu_pro",
            "id": row["id"],
            "category": category,
            "options": options,
            "letters": letters,
        },
        shown=frozenset({"options", "letters"}),
    )


def _options(row: JsonDict) -> list[Any]:
    """Return the options of a row; some versions of the dataset have them as the text of a Python list."""
    if isinstance(row["options"], str):
        options: list[Any] = ast.literal_eval(row["options"])
        return options
    return list(row["options"])


def _images(row: JsonDict) -> list[str]:
    """Return the images of a row, in the order of their numbers; else its only image, which has no number."""
    images = [data_uri(row[column]) for column in _IMAGES if row.get(column)]
    if not images and row.get("image"):
        images = [data_uri(row["image"])]
    return images


def _missing_images(row: JsonDict, text: str) -> list[str]:
    """Return the marks of the images that a text mentions and the row lacks, in order."""
    mentioned_numbers = sorted(set(re.findall(r"<image (\d)>", text)))
    return [f"<image {number}>" for number in mentioned_numbers if not row.get(f"image_{number}")]


SELF_TEST: Final = SelfTest(mirror_rows=6, answers="choice")


@benchmark(
    "mmmu_pro",
    dataset=dataset,
    seed_fn=seed,
    params={"variant": "standard (10 options)"},
    cluster=Independent("each question was written on its own"),
    info=BenchmarkInfo(
        title="MMMU-Pro",
        group="vision",
        size=1730,
        scorer="multichoice_regex",
        needs=("images",),
        license="Apache-2.0",
        source="https://huggingface.co/datasets/MMMU/MMMU_Pro",
        columns=(
            "id",
            "question",
            "options",
            "answer",
            "subject",
            "image_1",
            "image_2",
            "image_3",
            "image_4",
            "image_5",
            "image_6",
            "image_7",
        ),
        categories="subject (30)",
        params={
            "variant": "standard (10 options), standard (4 options) or vision",
        },
        published=Published(
            protocol="Zero-shot, direct or with chain of thought, ten options (Yue et al., 2024).",
            differs="Zero-shot with free reasoning, a prompt of our own.",
            comparable="nearly",
        ),
    ),
)
def mmmu_pro(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels=sample.metadata["letters"])
