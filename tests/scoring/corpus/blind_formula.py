"""Answers that are formulas, written without a look at the grammar."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case, Item, cases

TEMPLATES = {
    "common": [
        "$\\boxed{%x}$",
        "\\boxed{%x}",
        "The answer is $%x$.",
        "Final Answer: The final answer is $%x$. I hope it is correct.",
        "**Answer:** $%x$",
        "Therefore, the final answer is:\n\n\\[\n\\boxed{%x}\n\\]",
        "Answer: \\(%x\\)",
        "$%x$",
        "$$%x$$",
        "Hence the value is $\\boxed{%x}$.",
        "So we obtain\n$$\\boxed{%x}.$$",
        "The final answer is \\boxed{ %x }",
        "## Solution\n\nWe expand and simplify.\n\n**Final answer:** \\[ %x \\]",
        "\\fbox{$%x$}",
    ],
    "worked": [
        "Expanding, we first get $%y$. Collecting terms gives $\\boxed{%x}$.",
        "The inner expression is $%y$. After simplification the answer is $%x$.",
        "**Step 1.** Start from $%y$.\n\n**Step 2.** Simplify.\n\n**Answer:** $%x$",
        "Since $%y$ is extraneous, the only solution is $%x$.",
        "$\\boxed{%x}$\n\nNote: the value $%y$ does not satisfy the original equation.",
        "Thus the answer is $%x$, and $%y$ can be discarded.",
        "The answer is $\\boxed{%x}$, not $%y$.",
    ],
    "correction": [
        "$\\boxed{%y}$\n\nWait, I made a sign error. The correct answer is $\\boxed{%x}$.",
        "The answer is $%y$. Hmm, that's not right. The answer is $%x$.",
        "We get $\\boxed{%y}$. Let me double-check: substituting fails. So it is $\\boxed{%x}$ instead.",
        "Answer: $%y$\n\nCorrection: $%x$",
        "At first sight it is $\\boxed{%y}$, but the domain excludes this, so $\\boxed{%x}$.",
    ],
    "several": [
        "$\\boxed{%y}$ or $\\boxed{%z}$",
        "The answer is $%y$ or $%z$.",
        "$\\boxed{%y, %z}$",
        "Either $%y$ or $%z$, depending on the sign.",
        "$%y$, $%z$",
        "Possible values: $%y$ and $%z$.",
        "\\boxed{%y \\text{ or } %z}",
    ],
    "uncommitted": [
        "The answer is not $%y$.",
        "To find the value we start from $%y$ and then",
        "I could not solve it. It may have to do with $%y$.",
        "Is it $%y$?",
        "It would be $%y$ if $n$ were even.",
        "$\\boxed{%y}$ is incorrect.",
        "Suppose the answer were $%y$. Then we reach a contradiction.",
        "$\\boxed{2 \\cdot %y}$",
        "$\\boxed{%y + C}$",
        "The answer is $%y + 1$.",
        "A common mistake is to answer $%y$.",
        "\\boxed{",
    ],
    "run-on": [
        "The answer is $\\boxed{%x}$.\n\nProblem: Find the derivative of $\\sin x$.\nSolution: It is $\\boxed{%y}$.",
        "<think>It is \\boxed{%y}? No.</think>\n\n$\\boxed{%x}$",
        "$\\boxed{%x}$\n\nQuestion: Compute the next one.\nAnswer: $\\boxed{%y}$",
    ],
    "languages": [
        "Die Antwort ist $%x$.",
        "La réponse est $\\boxed{%x}$.",
        "答案是 $%x$。",
        "Ответ: $%x$",
        "Por lo tanto, la respuesta es $%x$.",
        "La respuesta no es $%y$.",
        "答案不是 $%y$。",
    ],
}
ITEMS = [
    Item("\\frac{3}{4}", "\\frac{3}{4}", ("\\frac{4}{3}", "\\frac{1}{4}")),
    Item("x^2+1", "x^2 + 1", ("x^2 - 1", "2x + 1")),
    Item("2\\sqrt{3}", "2\\sqrt{3}", ("3\\sqrt{2}", "\\sqrt{6}")),
    Item("(2,3)", "(2, 3)", ("(3, 2)", "(2, 5)")),
    Item("12", "12", ("18", "-12")),
    Item("\\frac{\\pi}{6}", "\\pi/6", ("\\pi/3", "\\frac{5\\pi}{6}")),
]


def blind_formula_cases() -> Iterator[Case]:
    """Every template over two items of six."""
    return cases("math", TEMPLATES, ITEMS, share=3)
