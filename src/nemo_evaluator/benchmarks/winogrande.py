"""WinoGrande: which of two names fills the gap in a sentence."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Two lettered options."""
    return {
        "sentence": row["sentence"],
        **lettered([row["option1"], row["option2"]], int(row["answer"]) - 1),
    }


builtin("winogrande", prepare_row=prepare)(lambda sample: multichoice_regex(sample, labels="AB"))
