from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.core.errors import ScorerError
from nemo_evaluator.scoring import ScorerInput, extract_number, numeric_match, parse_number

RIGHT = [
    ("The answer is 0", "0"),
    ("**Answer:** 42", "42"),
    (r"\boxed{42}", "42"),
    (r"Therefore $\boxed{\text{42 apples}}$.", "42"),
    ("Answer: 42 apples", "42"),
    ("The answer is $18.", "18"),
    ("The answer is $1,234.50", "1234.5"),
    ("It is 1.234.567", "1234567"),
    ("It costs 1.234,56 €", "1234.56"),
    ("12,34,567 rupees", "1234567"),
    ("The answer is 9 * 2 = 18 dollars, since 3 + 4 = 7 are eaten", "18"),
    ("The answer is 18, since 16 - 7 = 9.", "18"),
    ("18 is the answer.", "18"),
    ("So 18 is therefore the correct answer, not 17.", "18"),
    ("<think>the answer is 5</think>The answer is 6", "6"),
    ("the answer is 5</think>The answer is 6", "6"),
    ("[THINK]the answer is 5[/THINK]The answer is 6", "6"),
    ("<|channel|>analysis<|message|>Is it 5?<|end|><|channel|>final<|message|>6", "6"),
    ("### Final Answer\n\n**42**", "42"),
    ("Answer:\n\n42", "42"),
    ("The answer is -3", "-3"),
    ("The answer is −3", "-3"),
    ("The change is -$3.50", "-3.5"),
    ("উত্তর: ৭০", "70"),
    ("答案是18元", "18"),
    ("答え：１８", "18"),
    ("الإجابة: ١٬٢٣٤٫٥", "1234.5"),
    ("ต้องจ่าย ๑๒ บาท", "12"),
    ("సమాధానం: ౧౮", "18"),
    (r"The answer is \( \frac{3}{4} \)", "0.75"),
    ("Answer: 1 1/2", "1.5"),
    ("Answer: 3/4", "0.75"),
    ("Answer: 50%", "0.5"),
    ("Answer: 50%", "50"),
    ("2 million people", "2000000"),
    (r"The final answer is: $\boxed{70{,}000}$.", "70000"),
    (r"It is $70\,000$", "70000"),
    ("70 000 €", "70000"),
    ("70\u202f000 €", "70000"),
    ("1'000 CHF", "1000"),
    ("12,5 kg", "12.5"),
    ("#### 18", "18"),
    ("42\n\nBecause 40 + 2 is 42, not 43", "42"),
    ("She has 16 - 3 - 4 = 9 eggs.\nShe makes 9 * 2 = $18 every day.", "18"),
    ("So the answer is that Janet makes $18 per day.", "18"),
    ("Answer: 18\n\nI hope this answer is helpful!", "18"),
    ("The answer is not 5. It is 6", "6"),
    ("$$x = 5$$", "5"),
    ("5 books = 5 * 6 = 30\n\nSo, 5 books cost 30 dollars.", "30"),
    ("20 divided by 4 equals 5 with no decimal.", "5"),
    ("4 friends have 5 apples each, so together they have 20.", "20"),
    ("12 apples are left after eating 3.", "12"),
    ("30 is 5 times 6.", "30"),
    ("7 is 3 more than 4.", "7"),
    ("The answer is 1.5e3", "1500"),
    (r"The answer is $1.5 \times 10^3$", "1500"),
    ("共7万元", "70000"),
    ("The answer is .5", "0.5"),
    ("<answer>42</answer>", "42"),
    ("The answer is 42.0", "42"),
    ("The answer is 4,200.00 dollars", "4200"),
    ("Water is H2O and x1 = 7", "7"),
    ("- 7 apples", "7"),
    ("Answer: 2^10 = 1024", "1024"),
    ("Therefore, Janet makes \\$18 per day.", "18"),
    ("**Answer: 45 minutes** (or 0.75 hours)", "45"),
    ("Answer: **18**\n\n---\n\nLet me know if you have 1 more question!", "18"),
    ("Answer: Rs. 1,50,000", "150000"),
    ('```json\n{"answer": "18"}\n```', "18"),
    ("답: 18개", "18"),
    ("الجواب هو 18", "18"),
    ("She took 3 and 4. The answer is eighteen.", "18"),
    ("Twenty-five apples", "25"),
    ("The answer is one thousand two hundred and thirty-four", "1234"),
    ("**Answer:** two million", "2000000"),
    ("There are 12 of them, and the answer is zero.", "0"),
    ("The answer to the problem of the 3 farmers is 18", "18"),
]
WRONG = [
    ("10", "100"),
    ("100", "10"),
    ("1000", "10"),
    ("The answer is 18.", "1.8"),
    ("<think>so the answer is 6", "6"),
    ("The answer is 7", "-7"),
    ("The answer is 1.234", "1234"),
    ("The answer is 180", "18"),
    ("Someone said so; often.", "1"),
]


@pytest.mark.parametrize(("response", "target"), RIGHT)
def test_right_numbers(response: str, target: str) -> None:
    assert numeric_match(ScorerInput(response, target))["correct"] is True


@pytest.mark.parametrize(("response", "target"), WRONG)
def test_wrong_numbers(response: str, target: str) -> None:
    assert numeric_match(ScorerInput(response, target))["correct"] is False


@pytest.mark.parametrize(
    "response", ["", "I do not know.", "<think>42", "Answer: none", "H2O", "16-7"]
)
def test_no_number_is_unparsed_and_never_zero(response: str) -> None:
    assert numeric_match(ScorerInput(response, "0")) == {
        "correct": False,
        "extracted": None,
        "unparsed": True,
    }


def test_a_target_that_is_no_number_is_the_harness_fault() -> None:
    with pytest.raises(ScorerError, match="not a number"):
        numeric_match(ScorerInput("The answer is 4", "four"))


def test_points_may_group_where_the_language_says_so() -> None:
    german = ScorerInput("Die Antwort lautet 1.234.", "1234", {"language": "de"})
    assert numeric_match(german)["correct"] is True
    assert numeric_match(ScorerInput(german.response, "1234"))["correct"] is False


def test_tolerance_is_exact() -> None:
    sample = ScorerInput("The answer is 3.14", "3.1416")
    assert numeric_match(sample)["correct"] is False
    assert numeric_match(sample, tolerance=0.0016)["correct"] is True
    assert numeric_match(sample, tolerance=0.0015)["correct"] is False


def test_a_flood_of_digits_is_no_number() -> None:
    assert extract_number("The answer is " + "9" * 10_000) is None
    assert extract_number("The answer is 1e999999999") is None


@given(st.integers(-(10**15), 10**15))
def test_every_integer_reads_back_in_every_grouping(value: int) -> None:
    for text in (
        f"{value}",
        f"{value:,}",
        f"{value:,}".replace(",", " "),
        f"{value:,}".replace(",", "'"),
    ):
        number = parse_number(text)
        assert number is not None
        assert number.readings[0] == value


@given(st.integers(-(10**9), 10**9), st.integers(0, 99))
def test_decimals_read_back_in_both_conventions(whole: int, cents: int) -> None:
    value = Fraction(whole) + Fraction(cents, 100) * (1 if whole >= 0 else -1)
    english = f"{whole:,}.{cents:02d}"
    european = english.translate(str.maketrans(",.", ".,"))
    for text in (english, european):
        number = parse_number(text)
        assert number is not None
        assert number.readings[0] == value


@pytest.mark.parametrize(
    "before",
    ["It is not 12", "One might think 7", "Wait, e.g", "The answer is 3", "Perhaps \\boxed{9}"],
)
def test_the_short_way_of_a_plain_last_sentence_leads_where_the_long_one_does(
    monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    ends = ["The answer is 42.", "**Answer:** 42", "So the answer is 42.", "The answer is not 42."]
    texts = [
        before + between + end for between in (". ", ".\n", ": ", ", ", " or ") for end in ends
    ]
    short = [extract_number(text) for text in texts]
    monkeypatch.setattr("nemo_evaluator.scoring.number.plain_ending", lambda text, whole: None)
    assert short == [extract_number(text) for text in texts]
