"""Every row of every benchmark in the mirror: the true answer in many natural forms scores, a wrong one does not.

What is tested is what runs: rows are seeded and answers are verified by the benchmark itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from nemo_evaluator.benchmarks import builtin_names
from nemo_evaluator.benchmarks._self_test import AnswerForm, self_test
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.environments import get_environment
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.scoring import ScorerInput, normalise
from nemo_evaluator.scoring.choice import options_of

pytestmark = [pytest.mark.needs("mirror"), pytest.mark.usefixtures("wide_mirror")]

WITH_ANSWERS = [name for name in sorted(builtin_names()) if self_test(name).answers]
RIGHT_FLOOR = 0.999
WRONG_CEILING = 0.001


# Misses that are right to be misses, or not worth a rule: (benchmark, row, form) -> reason.
EXCEPTIONS = {
    (
        "mmlu_pro",
        4229,
        "text only",
    ): "the text of the option spans three lines; an announced answer ends at its line",
    ("mmlu_pro", 11807, "text only"): "the text of the option spans two lines and begins with (D",
    ("mmlu_pro", 11348, "listed"): "the option is torn LaTeX with control characters in it",
    (
        "bbh",
        2850,
        "last line",
    ): "a target that lost its letter upstream is compared whole when nothing is announced",
    ("bbh", 4182, "last line"): "as above",
    ("bbh", 4227, "last line"): "as above",
    (
        "drop",
        796,
        "case",
    ): "the official script does not know that a dotless i loses its look in capitals",
    **{
        (
            "drop",
            330,
            form,
        ): "'just' before an answer is an adverb of the sentence, except in 'just outside Nicosia'"
        for form in ("sentence", "bold", "reasoned", "case", "explained", "heading")
    },
}


@dataclass
class Sweep:
    """Counts of one sweep, and what went wrong on each side."""

    right: int = 0
    wrong: int = 0
    missed: dict[tuple[int, str], str] = field(default_factory=dict)
    accepted: dict[tuple[int, str], str] = field(default_factory=dict)

    def report(self) -> str:
        """A summary that fits a screen."""
        lines = [
            f"right {self.right - len(self.missed)}/{self.right}, wrong {len(self.accepted)}/{self.wrong}"
        ]
        for side, cases in (("missed", self.missed), ("accepted", self.accepted)):
            lines += [
                f"{side}: row {row} [{form}] {text}"[:300]
                for (row, form), text in list(cases.items())[:20]
            ]
        return "\n".join(lines)


Forms = Callable[[str, SeedResult], Iterator[tuple[str, str]]]
Wrong = Callable[[SeedResult, int], str]


def number_forms(answer: str, seed: SeedResult) -> Iterator[tuple[str, str]]:
    """A number as models write it."""
    grouped = f"{int(answer):,}" if re.fullmatch(r"-?\d+", answer) else answer
    yield "plain", answer
    yield "sentence", f"So she needs that many. The answer is {answer}."
    yield "bold", f"Adding 3 and 4 gives 7.\n\n**Answer: {answer}**"
    yield (
        "boxed",
        f"We get $3 + 4 = 7$ first, thus the result is $\\boxed{{{grouped.replace(',', '{,}')}}}$.",
    )
    yield (
        "reasoned",
        (
            "<think>Perhaps the answer is 5? Or 17 * 3 = 51.</think>A first guess says the answer is 12. But 3 + 4 = 7 "
            f"and 60 / 12 = 5, so that is wrong.\nThe answer is {answer}"
        ),
    )
    yield "units", f"The answer is ${grouped} per 2 days."
    yield "thousands", f"In total that makes\n\nFinal answer: {grouped} apples"
    yield "case", f"ANSWER: {answer}"
    yield (
        "explained",
        f"Answer: {answer}\n\nThis holds because 7 of the 19 were taken away in step 2.",
    )
    yield "heading", f"Step 1: 5 + 5 = 10.\n\n### Final Answer\n\n**{grouped}**"
    yield "tail", f"First there are 12 of them; then 3 more come.\nIn the end it makes {grouped}."


_WORDS = {
    "de": "Die Antwort lautet {}.", "fr": "La réponse est {}.", "es": "La respuesta es {}.", "ru": "Ответ: {}.",
    "zh": "答案是{}。", "ja": "答えは{}です。", "th": "คำตอบคือ {} บาท", "te": "సమాధానం: {}", "bn": "উত্তর হল {}।",
    "sw": "Jibu ni {}.", "en": "The answer is {}.",
}  # fmt: skip
_DIGITS = {
    "bn": "০১২৩৪৫৬৭৮৯",
    "te": "౦౧౨౩౪౫౬౭౮౯",
    "th": "๐๑๒๓๔๕๖๗๘๙",
    "zh": "０１２３４５６７８９",
    "ja": "０１２３４５６７８９",
}
_GROUPS = {"de": ".", "es": ".", "fr": "\u202f", "ru": "\u00a0", "sw": ",", "th": ","}


def native_forms(answer: str, seed: SeedResult) -> Iterator[tuple[str, str]]:
    """A number in the language of the problem, with its digits and its grouping."""
    yield from number_forms(answer, seed)
    language = str(seed.metadata.get("language") or seed.metadata.get("category"))
    sentence = _WORDS[language]
    yield "native", f"12 - 5 = 7\n{sentence.format(answer)}"
    digits = _DIGITS.get(language)
    if digits:
        yield (
            "native digits",
            sentence.format(answer.translate(str.maketrans("0123456789", digits))),
        )
    separator = _GROUPS.get(language)
    if separator and re.fullmatch(r"-?\d{5,}", answer):
        yield "native groups", sentence.format(f"{int(answer):,}".replace(",", separator))


def choice_forms(answer: str, seed: SeedResult) -> Iterator[tuple[str, str]]:
    """A letter as models write it, with the text of its option where the row carries it."""
    answer = answer.strip("()")
    text = _options(seed).get(answer, "")
    yield "plain", answer
    yield "sentence", f"Weighing all of this, the answer is {answer}."
    yield "bold", f"Answer: **{answer}**"
    yield "boxed", f"Hence $\\boxed{{\\text{{{answer}}}}}$."
    yield (
        "reasoned",
        (
            "<think>Answer: A? or rather Answer: B?</think>(A) and (B) look tempting at first; one may think that "
            f"the answer is C. A closer look shows otherwise.\n\nAnswer: {answer}"
        ),
    )
    yield "with text", f"Answer: ({answer}) {text}"
    yield "case", f"answer: {answer.lower()}"
    yield (
        "explained",
        f"**Answer: {answer}**\n\nExplanation: A, B and the others were weighed; only one of them fits.",
    )
    yield "listed", f"{answer}) {text}"
    yield "correct", f"The correct answer is ({answer})."
    yield "chosen", f"Let us see. I would choose option {answer}."
    yield "heading", f"A) is out, B) is out as well.\n\n### Answer\n\n{answer}. {text}"
    if text and _tells(text, seed):
        yield "text only", f"The answer is: {text}"


def text_forms(answer: str, seed: SeedResult) -> Iterator[tuple[str, str]]:
    """Words as models write them."""
    yield "plain", answer
    yield "sentence", f"Going through it, the answer is {answer}."
    yield "bold", f"One step, then another.\n\n**Answer: {answer}**"
    escaped = answer if "\\" in answer else answer.replace("{", "\\{").replace("}", "\\}")
    yield "boxed", f"Hence the result: $\\boxed{{\\text{{{escaped}}}}}$"
    yield (
        "reasoned",
        (
            "<think>Could the answer be nothing?</think>A first look says the answer is something else. Not so.\n"
            f"So the answer is {answer}."
        ),
    )
    yield "case", f"ANSWER: {answer.upper()}"
    yield "explained", f"Answer: {answer}\n\nThis follows from what was said above."
    yield "heading", f"Thinking aloud.\n\n## Final answer\n\n{answer}"
    yield "last line", f"Thinking aloud, at some length.\n\n{answer}"


def bbh_forms(answer: str, seed: SeedResult) -> Iterator[tuple[str, str]]:
    """Letters, numbers or words, by what the target is."""
    if re.fullmatch(r"\(?[A-Z]\)?", seed.expected_answer):
        yield from choice_forms(answer, seed)
    elif re.fullmatch(r"-?\d+", seed.expected_answer):
        yield from number_forms(answer, seed)
    else:
        yield from text_forms(answer, seed)


def math_forms(answer: str, seed: SeedResult) -> Iterator[tuple[str, str]]:
    """An expression as models write it."""
    spoken = answer.replace("\\text{", "\\textbf{") if answer.startswith("\\text{") else answer
    yield "plain", answer
    yield "sentence", f"Going through it, the answer is ${answer}$."
    yield "bold", f"First $x = 7$, then $y = 12$.\n\n**Answer: ${answer}$**"
    yield "boxed", f"Since $3 + 4 = 7$ we have $\\boxed{{{spoken}}}$."
    yield (
        "reasoned",
        (
            "<think>Is it $\\boxed{17}$?</think>At first the answer seems to be $\\frac{5}{3}$, but $5 - 3 = 2$.\n"
            f"The final answer is $\\boxed{{{answer}}}$. I hope it is correct."
        ),
    )
    yield "line", f"It follows that $a = 5$.\nAnswer: {answer}"
    yield "display", f"So we get\n\\[\n\\boxed{{{answer}}}\n\\]"
    yield "case", f"ANSWER: \\({answer}\\)"
    yield "explained", f"Answer: ${answer}$\n\nThis holds because $2 \\cdot 7 = 14$ and 12 is even."
    yield (
        "heading",
        f"Some steps.\n\n### Final Answer\n\n$${re.sub(r'(?<!d)frac', 'dfrac', answer)}$$",
    )


def _options(seed: SeedResult) -> dict[str, str]:
    return options_of(ScorerInput("", "", seed.metadata))


def _tells(text: str, seed: SeedResult) -> bool:
    """Whether the text of an option says which one it is: not a bare letter, not inside or equal to another one."""
    plain, options = normalise(text), list(_options(seed).values())
    others = [normalise(option) for option in options if option != text]
    apart = not any(
        f" {plain} " in f" {other} " or f" {other} " in f" {plain} " for other in others
    )
    return apart and options.count(text) == 1 and len(plain) > 3


def wrong_number(seed: SeedResult, idx: int) -> str:
    """Ten times, one more, one less, or a tenth."""
    value = int(seed.expected_answer) if re.fullmatch(r"-?\d+", seed.expected_answer) else None
    if value is None:
        return str(float(seed.expected_answer.replace(",", "")) + 1)
    return str(
        (
            value * 10,
            value + 1,
            value - 1,
            value // 10 + 1 if value // 10 + 1 != value else value + 2,
        )[idx % 4]
        or 9
    )


def wrong_text(seed: SeedResult, idx: int) -> str:
    """Stands for ``other_targets``, which needs the benchmark."""
    raise NotImplementedError


def wrong_letter(seed: SeedResult, idx: int) -> str:
    """Another option."""
    labels = list(_options(seed))
    others = [
        label
        for label in (labels if len(labels) > 1 else "ABCD")
        if label != seed.expected_answer.strip("()")
    ]
    return others[idx % len(others)]


async def sweep(environment: EvalEnvironment, forms: Forms, wrong: Wrong, share: int = 1) -> Sweep:
    """Ask the benchmark about every row: the right answer in all forms, the wrong one in every ``share``-th."""
    result = Sweep()
    for idx in range(len(environment)):
        seed = await environment.seed(idx)
        target = seed.expected_answer
        for answer, is_right in ((target, True), (wrong(seed, idx), False)):
            for number, (form, text) in enumerate(forms(answer, seed)):
                if not is_right and (number + idx) % share:
                    continue
                verdict = await environment.verify_answer(text, seed)
                said = f"{text!r} for {target!r}: {verdict.extracted_answer!r}"
                if is_right:
                    result.right += 1
                    if verdict.reward != 1:
                        result.missed[idx, form] = said
                else:
                    result.wrong += 1
                    # Partial credit for a word in common is no acceptance.
                    if verdict.scoring_details.get("em", verdict.reward) != 0:
                        result.accepted[idx, form] = said
    return result


# How right and wrong answers are written, by the form that the benchmark states.
ANSWERS: dict[AnswerForm, tuple[Forms, Wrong]] = {
    "choice": (choice_forms, wrong_letter),
    "form of the target": (bbh_forms, wrong_text),
    "math": (math_forms, wrong_text),
    "native number": (native_forms, wrong_number),
    "number": (number_forms, wrong_number),
    "text": (text_forms, wrong_text),
}


@pytest.mark.parametrize("name", WITH_ANSWERS)
async def test_oracle_sweep(name: str) -> None:
    stated = self_test(name)
    assert stated.answers is not None
    forms, wrong = ANSWERS[stated.answers]
    environment = get_environment(name)
    result = await sweep(
        environment,
        forms,
        wrong if wrong is not wrong_text else await other_targets(environment),
        stated.wrong_share,
    )
    print(f"{name}: {result.report()}")
    assert result.right >= 8 * len(environment)
    assert len(result.missed) <= (1 - RIGHT_FLOOR) * result.right, result.report()
    assert len(result.accepted) <= WRONG_CEILING * result.wrong, result.report()
    listed = {(row, form) for bench, row, form in EXCEPTIONS if bench == name}
    assert not (result.missed.keys() | result.accepted.keys()) - listed, result.report()


async def other_targets(environment: EvalEnvironment) -> Wrong:
    """Wrong answers are right answers of other rows (of the same category), unlike any accepted answer of the row."""
    pool: dict[str, list[str]] = {}
    for idx in range(len(environment)):
        seed = await environment.seed(idx)
        pool.setdefault(seed.metadata.get("category", ""), []).append(seed.expected_answer)
    everything = [
        *sorted({answer for answers in pool.values() for answer in answers}),
        "something quite different",
    ]

    def wrong(seed: SeedResult, idx: int) -> str:
        if _options(seed):
            return wrong_letter(seed, idx)
        near = pool[seed.metadata.get("category", "")]
        candidates = near[idx % len(near) :] + near + everything
        return next(answer for answer in candidates if _differs(answer, seed))

    return wrong


def _differs(answer: str, seed: SeedResult) -> bool:
    accepted = [
        normalise(a)
        for a in (
            seed.expected_answer,
            *seed.metadata.get("correct_answers", ()),
            *seed.metadata.get("aliases", ()),
        )
    ]
    plain = normalise(answer)
    if any(not a.strip() for a in accepted):
        return answer.split() != seed.expected_answer.split()
    return not any(f" {a} " in f" {plain} " or f" {plain} " in f" {a} " for a in accepted)
