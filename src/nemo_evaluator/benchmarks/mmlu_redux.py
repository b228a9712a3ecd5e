"""MMLU-Redux 2.0: MMLU questions re-annotated; unusable ones are left out, wrong keys corrected."""

from typing import Final

from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept, option_lines, shared_passage
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import PickedRows, Rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, multichoice_regex

SUBJECTS: Final = (
    "abstract_algebra",
    "anatomy",
    "astronomy",
    "business_ethics",
    "clinical_knowledge",
    "college_biology",
    "college_chemistry",
    "college_computer_science",
    "college_mathematics",
    "college_medicine",
    "college_physics",
    "computer_security",
    "conceptual_physics",
    "econometrics",
    "electrical_engineering",
    "elementary_mathematics",
    "formal_logic",
    "global_facts",
    "high_school_biology",
    "high_school_chemistry",
    "high_school_computer_science",
    "high_school_european_history",
    "high_school_geography",
    "high_school_government_and_politics",
    "high_school_macroeconomics",
    "high_school_mathematics",
    "high_school_microeconomics",
    "high_school_physics",
    "high_school_psychology",
    "high_school_statistics",
    "high_school_us_history",
    "high_school_world_history",
    "human_aging",
    "human_sexuality",
    "international_law",
    "jurisprudence",
    "logical_fallacies",
    "machine_learning",
    "management",
    "marketing",
    "medical_genetics",
    "miscellaneous",
    "moral_disputes",
    "moral_scenarios",
    "nutrition",
    "philosophy",
    "prehistory",
    "professional_accounting",
    "professional_law",
    "professional_medicine",
    "professional_psychology",
    "public_relations",
    "security_studies",
    "sociology",
    "us_foreign_policy",
    "virology",
    "world_religions",
)


def key_of(row: JsonDict) -> str | None:
    """Return the letter of the right option, corrected if the annotators found another.

    Returns:
        The letter, or None if the annotators found no single right option.
    """
    error_type = row["error_type"]
    if error_type == "ok":
        return LETTERS[int(row["answer"])]
    corrected_answer = str(row.get("correct_answer") or "").strip()
    if error_type != "wrong_groundtruth" or not corrected_answer:
        return None
    if corrected_answer.isdigit() and int(corrected_answer) < len(row["choices"]):
        return LETTERS[int(corrected_answer)]
    if corrected_answer.upper() in LETTERS[: len(row["choices"])]:
        return corrected_answer.upper()
    if corrected_answer in row["choices"]:
        return LETTERS[row["choices"].index(corrected_answer)]
    return None


def dataset(subjects: list[str]) -> Rows:
    """Load the usable questions of some subjects."""
    rows = configs("edinburgh-dawg/mmlu-redux-2.0", "subject", subjects)
    return PickedRows(rows, [index for index, row in enumerate(rows) if key_of(row) is not None])


def prepare(row: JsonDict) -> JsonDict:
    """Letter the options; the subject is the category."""
    columns = kept(row, "question", "choices") | {"lines": option_lines(row["choices"])}
    return columns | {"target": key_of(row), "category": row["subject"]}


SELF_TEST: Final = SelfTest()


@benchmark(
    "mmlu_redux",
    dataset=dataset,
    prepare_row=prepare,
    prompt=(
        "Answer the following multiple choice question. The last line of your response should "
        "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
        "ABCD. Think step by step before answering.\n"
        "\n"
        "{question}\n"
        "\n"
        "{lines}"
    ),
    carried=("choices",),
    params={"subjects": list(SUBJECTS)},
    cluster=shared_passage,
    info=BenchmarkInfo(
        title="MMLU-Redux 2.0",
        group="knowledge",
        scorer="multichoice_regex",
        license="CC-BY-4.0",
        source="https://huggingface.co/datasets/edinburgh-dawg/mmlu-redux-2.0",
        columns=("question", "choices", "answer", "error_type", "correct_answer"),
        categories="subject (57)",
        params={
            "subjects": "a list of subjects; default: all 57",
        },
        published=Published(
            protocol=(
                "As MMLU, over the questions that annotators found sound (Gema et al., 2024)."
            ),
            differs=(
                "No examples, free reasoning, a letter is generated; wrong keys are corrected, "
                "unusable questions left out."
            ),
            comparable="nearly with zero-shot chain-of-thought reports",
        ),
    ),
)
def mmlu_redux(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
