"""MGSM: 250 problems of GSM8K in eleven languages, asked in each language."""

from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator.benchmarks._declared import builtin, declared
from nemo_evaluator.benchmarks._rows import configs, kept
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows
from nemo_evaluator.scoring import numeric_match

# Instruction and the word before the final number, in the language of the problem.
PROMPTS: Final[dict[str, list[str]]] = declared("mgsm")["own"]["prompts"]


def dataset(languages: str | Sequence[str], split: str = "test") -> Rows:
    """The problems of some languages, one language after another."""
    return configs(
        "juletxara/mgsm",
        "language",
        languages,
        split=split,
        what="mgsm has no language",
        known=PROMPTS,
    )


def prepare(row: JsonDict) -> JsonDict:
    """The number as text, whole; the language is the category."""
    text, word = PROMPTS[row["language"]]
    number: Any = row["answer_number"]
    return {
        **kept(row, "question", "language"),
        "instruction": text.format(a=word),
        "solution": row.get("answer") or "",
        "word": word,
        "target": str(int(number)) if float(number).is_integer() else str(number),
        "category": row["language"],
    }


builtin(
    "mgsm",
    dataset=dataset,
    prepare_row=prepare,
    params={"languages": list(PROMPTS)},
    fewshot_dataset=lambda: dataset(list(PROMPTS), "train"),
)(lambda sample: numeric_match(sample))
