"""Formulas for ``math``: stated, listed, corrected or only mentioned."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case, Item, cases

TEMPLATES = {
    "common": (
        "$%x$", "Answer: $%x$", "The answer is $%x$.", "$\\boxed{%x}$", "\\[\\boxed{%x}\\]", "**Answer: $%x$**", "Thus we get $\\boxed{%x}$. I hope it is correct.", "The final answer is \\(%x\\).",
        "Answer: \\(%x\\)", "So $n = %x$.", "### Final Answer\n\n$$%x$$", "Answer: %x", "Since $a = 3$ and $b = 4$, the answer is $%x$.", "Hence the value is $\\boxed{%x}$, as claimed.", "Answer: $n = %x$",
        "$\\boxed{n = %x}$", "We find that $3 + 4 = 7$.\n\nAnswer: $%x$", "<think>$\\boxed{%y}$?</think>$\\boxed{%x}$", "\\boxed{\\displaystyle %x}", "The answer is: $%x$", "<answer>$%x$</answer>",
        "First $\\boxed{%x}$ follows, which is the answer.", "Therefore the answer is\n\n$$\\boxed{%x}$$",
    ),
    "others excluded": (
        "The answer is $%x$, not $%y$.", "The answer is not $%y$ but $%x$.", "It is $\\boxed{%x}$ rather than $%y$.", "The answer is $%x$, since $%y$ would be too large.", "Answer: $%x$ (not $%y$)",
        "We reject $%y$, as it is not a solution. Answer: $%x$", "The roots are $%y$ and $%x$; only the second is positive. Answer: $%x$",
    ),
    "correction": (
        "Answer: $%y$... wait, no, $%x$.", "The answer is $%y$. Actually, no: the answer is $%x$.", "$\\boxed{%y}$\n\nWait, I made a mistake. $\\boxed{%x}$", "One might think the answer is $%y$, but it is $%x$.",
        "Answer: $%y$. Correction: $%x$.", "The answer is $%y$. Hmm, looking again, it should be $%x$ instead.", "Answer: $%y$\n\nOn second thought, it should be $%x$.", "The answer is $%y$. Scratch that, it's $%x$.",
    ),
    "run on": (
        "Answer: $%x$\n\nProblem: What is $1+1$?\nAnswer: $%y$", "$\\boxed{%x}$\n\nQuestion: What is the root?\n$\\boxed{%y}$", "The answer is $%x$.\n\nProblem: Find $m$.\nThe answer is $%y$.",
    ),
    "no commitment": (
        "The answer is $%y$ or $%z$.", "$\\boxed{%y, %z}$", "$\\boxed{%y \\text{ or } %z}$", "Answer: $%y, %z$", "Answer: $%y$ or maybe $%z$", "$\\boxed{%y \\text{ and } %z}$", "The answer is either $%y$ or $%z$.", "Answer: %y, %z",
        "$\\boxed{\\{%y, %z\\}}$", "$\\boxed{(%y, %z)}$", "It could be $%y$, but it could also be $%z$.", "$\\boxed{%y}$ or $\\boxed{%z}$", "Is it $%y$? Or $%z$?", "The answer is between $%y$ and $%z$.", "$\\boxed{\\pm %y}$",
    ),
    "negated": (
        "The answer is not $%y$.", "It is definitely not $%y$.", "The answer cannot be $%y$.", "$%y$ is wrong.", "The answer isn't $%y$.", "A common wrong answer is $%y$.", "Answer: $%y$. Wait, that is wrong.", "$%y$ is not the answer.",
        "I doubt that the answer is $%y$.", "Die Antwort ist nicht $%y$.", "答案不是$%y$。",
    ),
    "refusal": (
        "I cannot solve this problem with $%y$.", "There is not enough information about $%y$.", "It cannot be determined whether it is $%y$.", "Find the value of $%y$ if possible.", "I'm not sure if the answer is $%y$.",
        "What is $%y$?", "Let $n = %y$. Then we", "The answer is greater than $%y$.", "The answer is $n > %y$.",
    ),
    "languages": (
        "Die Antwort ist $%x$.", "La réponse est $%x$.", "La respuesta es $%x$.", "答案是$%x$。", "答えは$%x$です。", "Ответ: $%x$", "Die Antwort ist nicht $%y$, sondern $%x$.", "答案不是$%y$，而是$%x$。",
    ),
}  # fmt: skip

_VALUES = (("10", "8", "6"), ("\\frac{3}{4}", "\\frac{4}{3}", "\\frac{1}{4}"), ("2\\sqrt{3}", "3\\sqrt{2}", "\\sqrt{6}"), ("x^2+1", "x^2-1", "x+1"), ("42", "24", "41"), ("\\pi", "2\\pi", "\\frac{\\pi}{2}"))  # fmt: skip
_LISTS = (
    ("\\boxed{6, 8, 10}", "6, 8, 10", True), ("\\boxed{10, 6, 8}", "6, 8, 10", True), ("Answer: $\\{1, 2\\}$", "\\{1,2\\}", True), ("\\boxed{(1, 2)}", "(1,2)", True), ("\\boxed{(2, 1)}", "(1,2)", False),
    ("\\boxed{6, 8}", "6, 8, 10", False), ("\\boxed{10}", "6, 8, 10", False), ("Answer: $1$ and $2$", "1, 2", True), ("Answer: 10, 0", "10", False), ("\\boxed{(3, \\frac{\\pi}{2})}", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
    ("\\boxed{1,000}", "1000", True), ("\\boxed{10,\\!080}", "10,\\!080", True), ("\\boxed{[1, 3)}", "[1,3)", True), ("\\boxed{x = 1, 2}", "1,2", True), ("\\boxed{1, -2}", "1,-2", True), ("Answer: 1 or -2", "1,-2", True),
)  # fmt: skip


def formula_cases() -> Iterator[Case]:
    """All cases for ``math``."""
    items = [Item(right, right, (wrong[0], wrong[1])) for right, *wrong in _VALUES]
    yield from cases("math", TEMPLATES, items, share=2)
    for number, (response, target, right) in enumerate(_LISTS):
        yield Case("math", "lists", number % 3 == 0, response, target, right)
