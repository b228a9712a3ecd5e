"""MGSM: 250 problems of GSM8K in eleven languages, asked in each language."""

from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator.benchmarks._rows import configs, kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, numeric_match

# Instruction and the word before the final number, in the language of the problem.
PROMPTS: Final = {
    "en": (
        (
            "Solve this math problem step by step. On the last line write only '{a}:' and the "
            "number."
        ),
        "Answer",
    ),
    "de": (
        (
            "Löse die Aufgabe Schritt für Schritt. Schreibe in die letzte Zeile nur „{a}:“ und die "
            "Zahl."
        ),
        "Antwort",
    ),
    "fr": (
        (
            "Résous ce problème étape par étape. À la dernière ligne, écris juste « {a} : » et le "
            "nombre."
        ),
        "Réponse",
    ),
    "es": (
        ("Resuelve este problema paso a paso. En la última línea escribe solo «{a}:» y el número."),
        "Respuesta",
    ),
    "ru": (
        "Решите эту задачу шаг за шагом. В последней строке напишите только «{a}:» и число.",
        "Ответ",
    ),
    "zh": ("请一步一步解答这道数学题。最后一行只写“{a}：”和数字。", "答案"),
    "ja": (
        "この算数の問題を順を追って解いてください。最後の行には「{a}：」と数だけを書いてください。",
        "答え",
    ),
    "th": ("จงแก้โจทย์คณิตศาสตร์ข้อนี้ทีละขั้นตอน บรรทัดสุดท้ายให้เขียนเฉพาะ '{a}:' และตัวเลข", "คำตอบ"),
    "te": (("ఈ గణిత సమస్యను దశలవారీగా పరిష్కరించండి. చివరి వరుసలో '{a}:' మరియు సంఖ్య మాత్రమే రాయండి."), "సమాధానం"),
    "bn": ("এই গণিতের সমস্যাটি ধাপে ধাপে সমাধান করো। শেষ লাইনে শুধু '{a}:' এবং সংখ্যাটি লেখো।", "উত্তর"),
    "sw": (
        (
            "Tatua tatizo hili la hesabu hatua kwa hatua. Kwenye mstari wa mwisho andika tu '{a}:' "
            "na nambari."
        ),
        "Jibu",
    ),
}


def dataset(languages: str | Sequence[str], split: str = "test") -> Rows:
    """Load the problems of some languages, one language after another.

    Raises:
        UsageError: A language is unknown.
    """
    return configs(
        "juletxara/mgsm",
        "language",
        languages,
        split=split,
        what="mgsm has no language",
        known=PROMPTS,
        # The same problem has the same number in every language.
        number="number",
    )


def prepare(row: JsonDict) -> JsonDict:
    """Write the instruction in the language of the problem and the answer as text; the language is the category."""
    instruction, answer_word = PROMPTS[row["language"]]
    number: Any = row["answer_number"]
    target = str(number)
    if float(number).is_integer():
        target = str(int(number))
    return {
        **kept(row, "question", "language", "number"),
        "instruction": instruction.format(a=answer_word),
        "solution": row.get("answer") or "",
        "word": answer_word,
        "target": target,
        "category": row["language"],
    }


SELF_TEST: Final = SelfTest(mirror_rows=2750, answers="native number")


@benchmark(
    "mgsm",
    dataset=dataset,
    prepare_row=prepare,
    prompt="{instruction}\n\n{fewshot}{question}",
    carried=("solution", "word", "language", "number"),
    params={"languages": list(PROMPTS)},
    fewshot_dataset=lambda: dataset(list(PROMPTS), "train"),
    fewshot_by="language",
    fewshot_format="{question}\n{solution}\n{word}: {target}",
    cluster="number",
    info=BenchmarkInfo(
        title="MGSM",
        group="math",
        size=2750,
        scorer="numeric_match",
        license="CC-BY-SA-4.0 (hub), CC-BY-4.0 (authors' repository)",
        source="https://huggingface.co/datasets/juletxara/mgsm",
        columns=("question", "answer", "answer_number"),
        categories="language (11)",
        params={
            "languages": "which languages: one of, or a list of, en de fr es ru zh ja th te bn sw",
        },
        published=Published(
            protocol=(
                "8 worked examples in the problem's language with chain of thought (Shi et "
                "al., 2022), or zero-shot in that language (simple-evals)."
            ),
            differs=(
                "Zero-shot, instruction in the problem's language as in simple-evals; "
                "`fewshot: 8` takes the published examples."
            ),
            comparable="nearly",
        ),
    ),
)
def mgsm(sample: ScorerInput) -> Score:
    """Is the number that the response ends on the answer, read as the language writes numbers?"""
    return numeric_match(sample)
