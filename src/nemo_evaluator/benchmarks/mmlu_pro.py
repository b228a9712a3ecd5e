"""MMLU-Pro: harder questions of 14 fields with up to ten options."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import LETTERS, kept, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import multichoice_regex


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options that there are (upstream pads with "N/A"); the published letter is the target."""
    options = [option for option in row["options"] if option != "N/A"]
    return {
        **kept(row, "question_id", "question", "category"),
        "options": options,
        "lines": option_lines(options),
        "letters": LETTERS[: len(options)],
        "dotted": "\n".join(
            f"{letter}. {option.strip()}" for letter, option in zip(LETTERS, options, strict=False)
        ),
        "worked": row.get("cot_content", "").removeprefix("A: "),
        "target": row["answer"],
    }


builtin("mmlu_pro", prepare_row=prepare)(
    lambda sample: multichoice_regex(sample, labels=sample.metadata["letters"])
)
