"""Numbers: stated, corrected, hedged, scaled, or only mentioned."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case, Item, cases

TEMPLATES = {
    "common": (
        "%x", "The answer is %x.", "**Answer: %x**", "Answer: %x", "$\\boxed{%x}$", "#### %x", "So the total is %x.", "She needs %x apples.",
        "First 3 + 4 = 7. Then we get %x.\n\nThe answer is %x.", "### Final Answer\n\n**%x**", "The answer is $%x.", "The answer is **%x**.",
        "Therefore, he has %x of them left.\n\nAnswer: %x", "%x is the answer.", "The final answer is: %x", "Answer: %x dollars",
        "It takes 3 steps.\nStep 1: 2 * 3 = 6.\nStep 2: 6 + 4 = 10.\nThe answer is %x", "<think>%y?</think>The answer is %x.", "= %x",
        "The answer is %x items in 2 days.", "Answer: %x\n\nHere is why: 7 of 9 were taken.", "x = %x", "The result: %x", "Total: **%x**",
        "In the end there are %x left.", "I get %x.", "The answer is about %x.", "The answer is exactly %x.", '{"answer": %x}', "<answer>%x</answer>",
        "%q\n\nWe multiply and subtract. The answer is %x.", "There are 12 of them at first; 5 leave, and so on. That makes %x.",
        "Thus the final result is %x.", "Answer: x = %x", "The answer is %x. I hope this helps!", "So, %x.",
    ),
    "others excluded": (
        "The answer is %x, not %y.", "The answer is not %y but %x.", "It is %x rather than %y.", "The answer is %x instead of %y.",
        "Answer: %x (not %y)", "Not %y. The answer is %x.", "The answer isn't %y; it's %x.", "It would be %y without the discount, but the answer is %x.",
        "%y is too large, so the answer is %x.", "The answer is %x, since %y would be too many.", "She had %y before. Now the answer is %x.",
        "Answer: %x\n\nNote that %y would be wrong.", "The answer is %x. (A common mistake gives %y.)", "While it looks like %y, the answer is %x.",
        "The answer is %x, because %y + 2 is more than that.",
    ),
    "correction": (
        "Answer: %y... wait, no, %x.", "The answer is %y. Hmm, looking again, it should be %x instead.", "One might think the answer is %y, but it is %x.",
        "Answer: %y\n\nWait, let me recompute. Answer: %x", "The answer is %y. Actually, no: the answer is %x.", "Answer: %y. Correction: %x.",
        "At first I thought the answer was %y, but it is actually %x.", "The answer is %y. Scratch that, it's %x.", "The answer is %y... Sorry, I mean %x.",
        "Answer: %y\n\nOn second thought, it should be %x.", "The answer is %y. I made an arithmetic error. The correct answer is %x.",
        "The answer is %y, or rather %x.", "My first result was %y. The right one is %x.", "%y? No, %x.", "The answer is %y. Oops, I forgot the tax: %x.",
        "It seems the answer is %y. But a closer look shows that it is %x.",
    ),
    "run on": (
        "The answer is %x.\n\nProblem: Tom has 3 pens and buys 4. How many has he?\nThe answer is %y.",
        "Answer: %x\n\nQuestion: How many legs have 3 dogs?\nAnswer: %y", "#### %x\n\nQuestion: How much is it?\nIt is 3 + 4.\n#### %y",
        "The answer is %x.\n\nQ: What is 5 + 5?\nA: The answer is %y.", "%x\n\nProblem: Ann eats 3 figs a day. How many a week?\n%y",
        "The answer is %x.\n\nHuman: And for 3 days?\n\nAssistant: The answer is %y.",
    ),
    "languages": (
        "Die Antwort lautet %x.", "Antwort: %x", "Die Antwort ist %x, nicht %y.", "La réponse est %x.", "Réponse : %x", "La réponse n'est pas %y mais %x.",
        "La respuesta es %x.", "Respuesta: %x", "La respuesta no es %y, sino %x.", "答案是%x。", "答案：%x", "答案不是%y，而是%x。", "答えは%xです。",
        "答え：%x", "Ответ: %x", "Ответ: %x, а не %y.", "Antwort: %y. Moment, nein: %x.", "答案是%y。等等，不对，应该是%x。", "Ответ: %y. Нет, подождите: %x.",
        "La réponse est %y. Non, attendez, c'est %x.", "Respuesta: %y. Espera, no: %x.", "Jibu ni %x.", "答えは%yではなく%xです。",
    ),
    "no commitment": (
        "The answer is %y or %z.", "%y–%z", "The answer is %y-%z.", "Answer: %y or maybe %z", "between %y and %z", "The answer is between %y and %z.",
        "Either %y or %z.", "The answer is somewhere from %y to %z.", "Answer: %y, %z", "It could be %y, but it could also be %z.", "%y/%z?",
        "The answer is %y to %z dollars.", "The possible answers are %y and %z.", "Maybe %y, maybe %z.", "Answer: %y (or %z)", "\\boxed{%y \\text{ or } %z}",
        "If he walks, the answer is %y; if he runs, it is %z.", "The answer is more than %y.", "The answer is less than %y.", "The answer is at least %y.",
        "Answer: > %y", "Is it %y? Or %z?", "The answer might be %y, or possibly %z.", "Candidates: %y, %z.", "Answer: at most %y",
    ),
    "scale": (
        "The answer is %y thousand dollars.", "The answer is %yk.", "Answer: %y million", "%y thousand", "Answer: $%yk", "The answer is %y billion.",
        "Die Antwort lautet %y Tausend.", "答案是%y万。", "The answer is %y hundred.", "La réponse est %y millions.", "The answer is -%y.", "Answer: %y/7",
        "The answer is %y^2.", "The answer is %y + x.", "Answer: %y dozen", "Ответ: %y тысяч", "The answer is 3.%y.", "La respuesta es %y millones.",
    ),
    "refusal": (
        "I cannot answer this question.", "It cannot be determined from the %y items that are mentioned.", "There is not enough information about the %y items.",
        "I'm sorry, I can't compute this with %y items.", "I don't know whether it is %y.", "The question about the %y items is unclear.",
        "Unable to determine; %y is only one of the figures given.", "How many are left of the %y items?", "%q", "%r", "Calculate how many of the %y items remain.",
        "The problem states that there are %y items.", "We are asked about %y items.", "I'm not sure if the answer is %y.",
    ),
    "negated": (
        "The answer is not %y.", "It is definitely not %y.", "%y is wrong.", "The answer cannot be %y.", "%y is not the answer.", "Not %y.", "Anything but %y.",
        "A common wrong answer is %y.", "Die Antwort ist nicht %y.", "La réponse n'est pas %y.", "La respuesta no es %y.", "答案不是%y。", "答えは%yではありません。",
        "Ответ не %y.", "Answer: %y. Wait, that is wrong.", "The answer is %y. No, that cannot be right.", "I doubt that the answer is %y.", "Some would say %y.",
    ),
    "cut off": (
        "To solve this, we start with the %y items and", "First, note that there are %y items. Then we", "Let n = %y. Then", "The number of items is %y times",
        "We have %y items, of which",
    ),
}  # fmt: skip

_QUESTION = (
    "A shop holds %s items and sells some of them each day at $3. How many are left after 5 days?"
)
_NUMBERS = (("1080", "1084", "960"), ("18", "26", "9"), ("72", "70", "144"), ("540", "54", "600"), ("7", "8", "12"), ("2125", "2175", "125"), ("36", "63", "30"), ("250", "205", "520"))  # fmt: skip


def number_cases() -> Iterator[Case]:
    """All cases for ``numeric_match``."""
    items = []
    for right, *wrong in _NUMBERS:
        question = _QUESTION % right
        slots = {"%q": question, "%r": question.partition("?")[0].rpartition(". ")[0] + "."}
        items.append(Item(right, right, (wrong[0], wrong[1]), {"question": question}, slots))
    yield from cases("numeric_match", TEMPLATES, items, share=2)
