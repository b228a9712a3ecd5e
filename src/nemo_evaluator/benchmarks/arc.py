"""ARC: grade-school science questions; the challenge set holds those that simple methods get wrong."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import LETTERS, lettered
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; some rows number them 1 to 4."""
    texts = row["choices"]["text"]
    columns = lettered(texts, row["choices"]["label"].index(row["answerKey"]))
    return {
        "id": row["id"],
        "question": row["question"],
        **columns,
        "letters": LETTERS[: len(texts)],
    }


for _name in ("arc_challenge", "arc_easy"):
    builtin(_name, prepare_row=prepare)(
        lambda sample: multichoice_regex(sample, labels=sample.metadata["letters"])
    )
