"""``vlmevalkit://NAME``: image benchmarks in VLMEvalKit's table format, one ``NAME.tsv`` that contains the images.

nel reads the tables as published, without the library. It searches the folder in ``LMUData`` (VLMEvalKit's own
variable), else ``~/LMUData``.
"""

import os
import string
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, SeedResult, VerifyResult
from nemo_evaluator.datasets import open_rows
from nemo_evaluator.environments._verdict import verdict
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.scoring import ScorerInput, exact_match, fuzzy_match, multichoice_regex

_VERSION: Final = "1"
_CATEGORIES: Final = ("category", "l2-category", "l2_category", "split")
# A shorter image cell is not an image but the index of the row that has it.
_LONGEST_INDEX: Final = 64
_CHOICE_INSTRUCTION: Final = (
    "Please select the correct answer from the options above. Answer with its letter."
)
_TYPES: Final = {"iVBOR": "png", "/9j/": "jpeg", "R0lGO": "gif", "UklGR": "webp"}


class VlmEvalKitEnvironment(EvalEnvironment):
    """A table of questions about images: multiple choice if a row has options, else yes/no or a short answer.

    Args:
        uri: ``vlmevalkit://NAME``.
        num_examples: The number of questions, from the first; None for all.

    Raises:
        UsageError: The table does not exist.
    """

    def __init__(self, uri: str, *, num_examples: int | None = None) -> None:
        table = self._table = uri.partition("://")[2]
        self.name = f"vlmevalkit_{safe_name(table)}"
        # VLMEvalKit defines the variable's mixed-case name.
        folder = Path(os.environ.get("LMUData") or Path.home() / "LMUData")  # noqa: SIM112
        path = folder / f"{table}.tsv"
        if not path.is_file():
            hint = f"put the published {table}.tsv into {folder}, or set LMUData to the folder that has it"
            raise UsageError(f"vlmevalkit://{table}: {path} does not exist", hint=hint)
        self._rows = open_rows(path)
        self._dataset = self._rows[:num_examples]
        self._by_index: dict[str, int] | None = None

    async def seed(self, idx: int) -> SeedResult:
        """Return a row as a problem, with its images.

        Raises:
            SeedError: The row has no image.
        """
        row = self._dataset[idx]
        options = _options(row)
        metadata: JsonDict = {
            "source": "vlmevalkit",
            "dataset": self._table,
            "index": row.get("index"),
        }
        category = _category(row)
        if category is not None:
            metadata["category"] = category
        if options:
            metadata["options"] = list(options.values())
            metadata["letters"] = "".join(options)
        return SeedResult(
            prompt=_prompt(row, options),
            expected_answer=str(row.get("answer", "")),
            metadata=metadata,
            images=self._pictures(row, idx),
            shown=frozenset({"options", "letters"}),
        )

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Score an answer: by its letter, as yes or no, or by its text."""
        sample = ScorerInput(response, expected, metadata)
        expected_text = expected.strip().lower()
        if metadata.get("letters"):
            scores = multichoice_regex(sample, labels=metadata["letters"])
        elif expected_text in ("yes", "no"):
            letter = "A" if expected_text == "yes" else "B"
            yes_no_sample = ScorerInput(response, letter, {"options": ["Yes", "No"]})
            scores = multichoice_regex(yes_no_sample, labels="AB")
        else:
            scores = exact_match(sample)
            if not scores["correct"]:
                scores = fuzzy_match(sample)
        return verdict(scores, response, "vlmevalkit")

    def scorer_fingerprint(self) -> str:
        """Identify the version of the scoring."""
        return f"vlmevalkit-{_VERSION}"

    def _pictures(self, row: JsonDict, idx: int) -> list[str]:
        """Return a row's images as URIs; a short cell is the index of the row that has the image."""
        cell = row.get("image") or ""
        cells = cell if isinstance(cell, list) else [str(cell)]
        if len(cells) == 1 and 0 < len(cells[0]) <= _LONGEST_INDEX:
            cells = [self._picture_of(cells[0])]
        if not any(cells):
            raise SeedError(f"{self._table}: row {idx} has no picture")
        return [_data_uri(entry) for entry in cells]

    def _picture_of(self, index: str) -> str:
        """Return the image cell of the row with an index."""
        if self._by_index is None:
            self._by_index = {}
            for number, row in enumerate(self._rows):
                self._by_index[str(row.get("index"))] = number
        if index not in self._by_index:
            raise SeedError(
                f"{self._table}: no row has the index {index}, which another takes its picture from"
            )
        row = self._rows[self._by_index[index]]
        return str(row.get("image") or "")


def _options(row: JsonDict) -> dict[str, str]:
    """Return the options of a row by letter; empty cells are not options."""
    options: dict[str, str] = {}
    for letter in string.ascii_uppercase:
        if row.get(letter) not in (None, ""):
            options[letter] = str(row[letter])
    return options


def _category(row: JsonDict) -> str | None:
    for column in _CATEGORIES:
        if row.get(column):
            return str(row[column])
    return None


def _prompt(row: JsonDict, options: dict[str, str]) -> str:
    """Write the prompt of a row, as VLMEvalKit does."""
    hint = f"Hint: {row['hint']}\n" if row.get("hint") else ""
    question = str(row["question"])
    if not options:
        return f"{hint}{question}"
    option_lines = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    prompt = f"{hint}Question: {question}\nOptions:\n{option_lines}\n"
    return prompt + _CHOICE_INSTRUCTION


def _data_uri(encoded: str) -> str:
    """Return a Base64 image as a data URI; a URI stays as it is."""
    if encoded.startswith(("data:", "http://", "https://")):
        return encoded
    for start, image_type in _TYPES.items():
        if encoded.startswith(start):
            return f"data:image/{image_type};base64,{encoded}"
    return f"data:image/jpeg;base64,{encoded}"


KIND: Final = Kind(build=VlmEvalKitEnvironment)
