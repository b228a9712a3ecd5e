"""MMLU-Redux 2.0: MMLU questions re-annotated; unusable ones are left out, wrong keys corrected."""

from typing import Final

from nemo_evaluator.benchmarks._declared import builtin, declared
from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import PickedRows, Rows
from nemo_evaluator.scoring import multichoice_regex

SUBJECTS: Final = tuple(declared("mmlu_redux")["own"]["subjects"])


def key_of(row: JsonDict) -> str | None:
    """The letter of the right option; None when the annotators found no single one."""
    kind = row["error_type"]
    if kind == "ok":
        return LETTERS[int(row["answer"])]
    corrected = str(row.get("correct_answer") or "").strip()
    if kind != "wrong_groundtruth" or not corrected:
        return None
    if corrected.isdigit() and int(corrected) < len(row["choices"]):
        return LETTERS[int(corrected)]
    if corrected.upper() in LETTERS[: len(row["choices"])]:
        return corrected.upper()
    if corrected in row["choices"]:
        return LETTERS[row["choices"].index(corrected)]
    return None


def dataset(subjects: list[str]) -> Rows:
    """The usable questions of some subjects."""
    rows = configs("edinburgh-dawg/mmlu-redux-2.0", "subject", subjects)
    return PickedRows(rows, [number for number, row in enumerate(rows) if key_of(row) is not None])


def prepare(row: JsonDict) -> JsonDict:
    """The subject is the category."""
    columns = kept(row, "question", "choices") | {"lines": option_lines(row["choices"])}
    return columns | {"target": key_of(row), "category": row["subject"]}


builtin("mmlu_redux", dataset=dataset, prepare_row=prepare, params={"subjects": list(SUBJECTS)})(
    lambda sample: multichoice_regex(sample, labels="ABCD")
)
