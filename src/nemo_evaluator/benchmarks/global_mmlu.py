"""Global MMLU: MMLU translated and checked by people, in 42 languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nemo_evaluator.benchmarks._choice import instruction, option_lines
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import ChainedRows, MappedRows, Rows, open_rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, multichoice_regex

_REPO: Final = "CohereLabs/Global-MMLU"
# The languages whose translations were post-edited by professionals.
LANGUAGES: Final = ("ar", "bn", "de", "en", "es", "fr", "hi", "id", "it", "ja", "ko", "pt", "sw", "yo", "zh")


def _rows(languages: str | Sequence[str], split: str) -> Rows:
    chosen = [languages] if isinstance(languages, str) else list(languages)
    return ChainedRows(_one(language, split) for language in chosen)


def _one(language: str, split: str) -> Rows:
    rows = open_rows(f"hf://{_REPO}?config={language}&split={split}")
    return MappedRows(rows, lambda row, idx: {**row, "language": language})


def dataset(languages: str | Sequence[str]) -> Rows:
    """The test problems of some languages, one language after another."""
    return _rows(languages, "test")


def examples() -> Rows:
    """The development problems of the default languages."""
    return _rows(LANGUAGES, "dev")


def prepare(row: JsonDict) -> JsonDict:
    """The language is the category; the subject is kept beside it."""
    choices = [row[f"option_{letter}"] for letter in "abcd"]
    return {
        "sample_id": row["sample_id"],
        "subject": row["subject"],
        "question": row["question"],
        "choices": choices,
        "lines": option_lines(choices),
        "target": row["answer"],
        "language": row["language"],
        "category": row["language"],
    }


@benchmark(
    name="global_mmlu",
    dataset=dataset,
    prompt=instruction("ABCD") + "\n\n{fewshot}{question}\n\n{lines}",
    prepare_row=prepare,
    carried=("choices",),
    params={"languages": list(LANGUAGES)},
    fewshot_dataset=examples,
    fewshot_by="language",
    fewshot_format="{question}\n\n{lines}\nAnswer: {target}",
    info=BenchmarkInfo(
        title="Global MMLU",
        group="knowledge",
        size=14042 * len(LANGUAGES),
        scorer="multichoice_regex",
        license="Apache-2.0",
        source=f"https://huggingface.co/datasets/{_REPO}",
        columns=("sample_id", "subject", "question", "option_a", "option_b", "option_c", "option_d", "answer"),
        categories="language",
        params={"languages": f"a language or a list of them; default: {' '.join(LANGUAGES)}"},
        published=Published(
            protocol="5 examples of the language, log-likelihood of the letter (lm-evaluation-harness).",
            differs="No examples, instruction in English, free reasoning, a letter is generated.",
            comparable="no",
        ),
    ),
)
@scorer
def global_mmlu(sample: ScorerInput) -> Score:
    """Is the letter that the response picks the right one?"""
    return multichoice_regex(sample, labels="ABCD")
