"""GSM8K: grade-school mathematics in words; the answer is one number."""

import re
from typing import Final

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import numeric_match

# Notes for a calculator in the published solutions, such as <<3*4=12>>.
_NOTES: Final = re.compile(r"<<[^<>]*>>")


def prepare(row: JsonDict) -> JsonDict:
    """Split a solution into its text and its number, without thousands separators."""
    solution, _, number = row["answer"].rpartition("####")
    target = number.strip().replace(",", "")
    return {
        "question": row["question"],
        "target": target,
        "solution": _NOTES.sub("", solution).strip(),
    }


builtin("gsm8k", prepare_row=prepare)(lambda sample: numeric_match(sample))
