"""Answers written after the grammar was built, to see what it misses: the first time, 12 of these 67 were misjudged."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.scoring import ScorerInput, get_scorer, run_scorer

CITIES = {"choices": ["Rome", "Paris", "Oslo", "Bern"], "question": "Which city lies on the Seine?"}
ANSWERS = [
    ("multichoice_regex", r, t, ok, CITIES)
    for r, t, ok in [
        (
            "After weighing the evidence, I'm leaning toward B, though A is also defensible.",
            "B",
            True,
        ),
        ("I'd eliminate A and C. Between B and D, B is better supported. Final: B", "B", True),
        (
            "B because the Seine flows through Paris. D would be wrong since Bern is on the Aare.",
            "B",
            True,
        ),
        ("It's definitely not A or C.", "A", False),
        ("Correct answer: B (Paris). Incorrect: A, C, D.", "B", True),
        ("My choice is B.", "B", True),
        ("The answer: option B.", "B", True),
        ("**B) Paris** is correct because it lies on the Seine.", "B", True),
        ("We can conclude that the answer must be Paris (B).", "B", True),
        ("I first considered D, then settled on B.", "B", True),
        ("If I had to guess, B.", "B", True),
        ("None of the above.", "B", False),
        ("Answer: B or D? I'd say B.", "B", True),
        ("Answer: E", "B", False),
        ("B is a strong candidate, but so is D.", "B", False),
        ("All of the options could be right.", "A", False),
        (
            "A: Rome is on the Tiber. B: Paris is on the Seine. C: Oslo has a fjord. D: Bern is on the Aare.\nSo the answer is B.",
            "B",
            True,
        ),
        ("The answer is B. A is incorrect. C is incorrect. D is incorrect.", "B", True),
        ("Answer: B\n\nExplanation: A is wrong because Rome lies on the Tiber.", "B", True),
        (
            "Answer: D\n\nActually, the Aare flows through Bern, so the Seine must be Paris. Answer: B",
            "B",
            True,
        ),
        ("I cannot decide between B and D", "B", False),
        ("The user wants a letter. The answer is B", "B", True),
        ("Option B: Paris", "B", True),
        ("Choice (B)", "B", True),
        ("B - Paris", "B", True),
        ("Lösung: B", "B", True),
        ("答えはBだと思います。", "B", True),
        ("我认为答案是B，因为巴黎在塞纳河上。", "B", True),
        ("我选B，不选D。", "B", True),
        ("La respuesta correcta es B) Paris, no D) Bern.", "B", True),
        ("Je choisis B plutôt que D.", "B", True),
        ("Ich würde D nicht wählen.", "D", False),
        ("Думаю, что ответ B, но это может быть и D.", "B", False),
    ]
]
ANSWERS += [
    ("numeric_match", r, t, ok, {})
    for r, t, ok in [
        ("So the answer is $1,080.00.", "1080", True),
        ("Therefore he earns 18 dollars per day.", "18", True),
        ("The answer is 18 (not 17 as one might expect).", "18", True),
        ("18 or 19, depending on rounding", "18", False),
        ("Approximately 18", "18", True),
        ("Final answer: 18 km/h", "18", True),
        ("Let x be 5. Then 3x + 3 = 18.", "18", True),
        ("He has 20 - 2 = 18 apples left.", "18", True),
        ("She pays $12 + $6 = $18 in total.", "18", True),
        ("The answer is 0.18k", "180", True),
        ("It takes 18 to 20 minutes.", "18", False),
        ("Total = 18\n\nDouble-check: 9 * 2 = 18 ✓", "18", True),
        ("The answer is 18.\n\nLet's verify: 18 / 2 = 9, which is correct.", "18", True),
        ("Answer: 17. Let me double check: 9 * 2 = 18. So the answer is 18.", "18", True),
        ("The answer is 18, wait, I should check. 9*2=18. Yes, 18.", "18", True),
        ("The number of eggs is not given, so I can't compute 18.", "18", False),
        ("**18** eggs", "18", True),
        ("Answer: 18 eggs (1.5 dozen)", "18", True),
        ("\\boxed{18\\text{ dollars}}", "18", True),
        ("about 18-ish", "18", True),
        ("x=18", "18", True),
        ("Answer: -18", "18", False),
        ("Answer: 18 out of 20", "18", True),
        ("The answer is 18 and a half.", "18", False),
        ("minus 18", "18", False),
    ]
]
ANSWERS += [
    ("fuzzy_match", r, t, ok, {"question": q})
    for r, t, ok, q in [
        (
            "Alexander Fleming discovered penicillin in 1928.",
            "Alexander Fleming",
            True,
            "Who discovered penicillin?",
        ),
        (
            "The capital of Australia is Canberra, not Sydney.",
            "Canberra",
            True,
            "What is the capital of Australia?",
        ),
        ("It was written by Leo Tolstoy.", "Leo Tolstoy", True, "Who wrote War and Peace?"),
        (
            "The Pacific Ocean is the largest ocean on Earth.",
            "Pacific Ocean",
            True,
            "Which ocean is the largest?",
        ),
        (
            "I think it might be Sydney or Canberra.",
            "Canberra",
            False,
            "What is the capital of Australia?",
        ),
        ("Sydney (formerly Canberra)", "Canberra", False, "capital?"),
        (
            "The answer is Canberra, the capital city of Australia.",
            "Canberra",
            True,
            "What is the capital?",
        ),
        (
            "The 44th president was Barack Obama, who succeeded George W. Bush.",
            "Barack Obama",
            True,
            "Who was the 44th president?",
        ),
        (
            "The 44th president was George W. Bush, who was succeeded by Barack Obama.",
            "Barack Obama",
            False,
            "Who was the 44th president?",
        ),
    ]
]


@pytest.mark.parametrize(("name", "response", "target", "right", "metadata"), ANSWERS)
async def test_a_fresh_answer(
    name: str, response: str, target: str, right: bool, metadata: dict[str, Any]
) -> None:
    score = await run_scorer(get_scorer(name), ScorerInput(response, target, metadata))
    assert bool(score["correct"]) is right
