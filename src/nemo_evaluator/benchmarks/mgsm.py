"""MGSM: 250 problems of GSM8K in eleven languages, asked in each language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._parts import chained, labelled
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import Rows
from nemo_evaluator.environments.custom import ScorerInput, scorer
from nemo_evaluator.scoring import Score, numeric_match

# Instruction and the word before the final number, in the language of the problem.
PROMPTS: Final[dict[str, tuple[str, str]]] = {
    "en": ("Solve this math problem step by step. On the last line write only '{a}:' and the number.", "Answer"),
    "de": ("Löse die Aufgabe Schritt für Schritt. Schreibe in die letzte Zeile nur „{a}:“ und die Zahl.", "Antwort"),
    "fr": ("Résous ce problème étape par étape. À la dernière ligne, écris juste « {a} : » et le nombre.", "Réponse"),
    "es": ("Resuelve este problema paso a paso. En la última línea escribe solo «{a}:» y el número.", "Respuesta"),
    "ru": ("Решите эту задачу шаг за шагом. В последней строке напишите только «{a}:» и число.", "Ответ"),
    "zh": ("请一步一步解答这道数学题。最后一行只写“{a}：”和数字。", "答案"),
    "ja": ("この算数の問題を順を追って解いてください。最後の行には「{a}：」と数だけを書いてください。", "答え"),
    "th": ("จงแก้โจทย์คณิตศาสตร์ข้อนี้ทีละขั้นตอน บรรทัดสุดท้ายให้เขียนเฉพาะ '{a}:' และตัวเลข", "คำตอบ"),
    "te": ("ఈ గణిత సమస్యను దశలవారీగా పరిష్కరించండి. చివరి వరుసలో '{a}:' మరియు సంఖ్య మాత్రమే రాయండి.", "సమాధానం"),
    "bn": ("এই গণিতের সমস্যাটি ধাপে ধাপে সমাধান করো। শেষ লাইনে শুধু '{a}:' এবং সংখ্যাটি লেখো।", "উত্তর"),
    "sw": ("Tatua tatizo hili la hesabu hatua kwa hatua. Kwenye mstari wa mwisho andika tu '{a}:' na nambari.", "Jibu"),
}  # fmt: skip


def _rows(languages: str | Sequence[str], split: str) -> Rows:
    def part(language: str) -> Rows:
        return labelled(f"hf://juletxara/mgsm?config={language}&split={split}", language=language)

    return chained(languages, part, "mgsm has no language", PROMPTS)


def dataset(languages: str | Sequence[str]) -> Rows:
    """The test problems of some languages, one language after another."""
    return _rows(languages, "test")


def examples() -> Rows:
    """The eight worked problems of every language."""
    return _rows(list(PROMPTS), "train")


def prepare(row: JsonDict) -> JsonDict:
    """The number as text, whole; the language is the category."""
    text, word = PROMPTS[row["language"]]
    number: Any = row["answer_number"]
    return {
        "question": row["question"],
        "instruction": text.format(a=word),
        "solution": row.get("answer") or "",
        "word": word,
        "target": str(int(number)) if float(number).is_integer() else str(number),
        "language": row["language"],
        "category": row["language"],
    }


@builtin("mgsm", dataset=dataset, prepare_row=prepare, params={"languages": list(PROMPTS)}, fewshot_dataset=examples)
@scorer
def mgsm(sample: ScorerInput) -> Score:
    """Is the number that the response ends on the answer, read as the language writes numbers?"""
    return numeric_match(sample)
