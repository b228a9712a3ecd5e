"""MMLU-Redux 2.0: MMLU questions re-annotated; unusable ones are left out, wrong keys corrected."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.benchmarks._choice import LETTERS, option_lines
from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._parts import chained, labelled
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import PickedRows, Rows
from nemo_evaluator.environments.custom import ScorerInput, scorer
from nemo_evaluator.scoring import Score, multichoice_regex

_REPO: Final = "edinburgh-dawg/mmlu-redux-2.0"
SUBJECTS: Final = (
    "abstract_algebra", "anatomy", "astronomy", "business_ethics", "clinical_knowledge", "college_biology",
    "college_chemistry", "college_computer_science", "college_mathematics", "college_medicine", "college_physics",
    "computer_security", "conceptual_physics", "econometrics", "electrical_engineering", "elementary_mathematics",
    "formal_logic", "global_facts", "high_school_biology", "high_school_chemistry", "high_school_computer_science",
    "high_school_european_history", "high_school_geography", "high_school_government_and_politics",
    "high_school_macroeconomics", "high_school_mathematics", "high_school_microeconomics", "high_school_physics",
    "high_school_psychology", "high_school_statistics", "high_school_us_history", "high_school_world_history",
    "human_aging", "human_sexuality", "international_law", "jurisprudence", "logical_fallacies", "machine_learning",
    "management", "marketing", "medical_genetics", "miscellaneous", "moral_disputes", "moral_scenarios", "nutrition",
    "philosophy", "prehistory", "professional_accounting", "professional_law", "professional_medicine",
    "professional_psychology", "public_relations", "security_studies", "sociology", "us_foreign_policy", "virology",
    "world_religions",
)  # fmt: skip


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
    return LETTERS[row["choices"].index(corrected)] if corrected in row["choices"] else None


def dataset(subjects: list[str]) -> Rows:
    """The usable questions of some subjects."""
    rows = chained(subjects, lambda subject: labelled(f"hf://{_REPO}?config={subject}&split=test", subject=subject))
    return PickedRows(rows, [number for number, row in enumerate(rows) if key_of(row) is not None])


def prepare(row: JsonDict) -> JsonDict:
    """The subject is the category."""
    return {
        "question": row["question"],
        "choices": row["choices"],
        "lines": option_lines(row["choices"]),
        "target": key_of(row),
        "category": row["subject"],
    }


@builtin("mmlu_redux", dataset=dataset, prepare_row=prepare, params={"subjects": list(SUBJECTS)})
@scorer
def mmlu_redux(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
