"""CommonsenseQA: five-way questions about everyday things."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options."""
    columns = lettered(row["choices"]["text"], row["choices"]["label"].index(row["answerKey"]))
    return {"id": row["id"], "question": row["question"], **columns}


builtin("commonsense_qa", prepare_row=prepare)(
    lambda sample: multichoice_regex(sample, labels="ABCDE")
)
