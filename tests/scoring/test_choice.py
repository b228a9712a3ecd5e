from __future__ import annotations

import pytest

from nemo_evaluator.scoring import ScorerInput, extract_mcq_letter, mcq_extract, multichoice_regex

CITIES = ["Rome", "Paris", "Oslo", "Bern"]
RIGHT = [
    ("Answer: (B)", "B"),
    ("Answer: **B**", "B"),
    ("Answer: *B*", "B"),
    ("Answer: `B`", "B"),
    ("Answer: $B$", "B"),
    ("Answer: [B]", "B"),
    ('Answer: "B"', "B"),
    ("Answer: $LETTER B", "B"),
    ("**Answer: B**", "B"),
    ("**Answer:** B", "B"),
    ("`Answer: B`", "B"),
    ("ANSWER: B", "B"),
    ("answer: b", "B"),
    ("Answer: B.", "B"),
    ("Answer: B, because it is Paris", "B"),
    ("Answer: B - Paris", "B"),
    ("Answer:\n\nB", "B"),
    ("## Answer\n\n**B**", "B"),
    ("The answer is B.", "B"),
    ("The answer is (D) Paris, because A is wrong.", "D"),
    ("The best answer is **(C) 12**", "C"),
    ("The answer to the question is B", "B"),
    ("The correct option is (C).", "C"),
    ("Option C is correct", "C"),
    ("B is the correct answer", "B"),
    ("B) text", "B"),
    ("(B)", "B"),
    ("B", "B"),
    ("**B**", "B"),
    ("**B. Paris**", "B"),
    ("D. none", "D"),
    (r"Answer: $\boxed{\text{B}}$", "B"),
    (r"\boxed{\textbf{(B)}}", "B"),
    ("<answer>B</answer>", "B"),
    ("Answer: A\nwait, no\nAnswer: C", "C"),
    ("<think>Answer: A</think>Answer: C", "C"),
    ("A) is wrong.\nB) is right\nSo I choose B", "B"),
    ("正确答案是 B", "B"),
    ("Ответ: В", "B"),
    ("答え：Ｂ", "B"),
    ("Answer: A dog", "A"),
    ("Therefore, the correct answer is:\n\n**B) Paris**", "B"),
    ("The answer is option B because option A is wrong", "B"),
    ("I believe (A) is incorrect, so answer (B).", "B"),
    ('{"answer": "B"}', "B"),
    ("It's B.", "B"),
    ("So it must be B", "B"),
    ("Die richtige Antwort ist B.", "B"),
    ("La bonne réponse est la B.", "B"),
    ("La respuesta correcta es la opción B.", "B"),
    ("Правильный ответ: B", "B"),
    ("正解はBです。", "B"),
    ("คำตอบที่ถูกต้องคือ B", "B"),
    ("정답은 B입니다", "B"),
    ("الإجابة الصحيحة هي B", "B"),
    ("Đáp án đúng là B", "B"),
    ("सही उत्तर B है", "B"),
    ("Doğru cevap B'dir.", "B"),
    ("Jibu sahihi ni B", "B"),
    ("Prawidłowa odpowiedź to B.", "B"),
    ("Jawaban yang benar adalah B.", "B"),
]
WRONG = [
    ("Answer: Because it is so", "B"),
    ("Answer: Always", "A"),
    ("I think the answer is a tough one", "A"),
    ("Answer: A or B", "A"),
    ("Answer: A and C", "A"),
    ("Answer: A\nNo: Answer: C", "A"),
    ("The answer is not B", "B"),
    ("First I thought that the answer is B.\nAnswer: K", "B"),
    ("<think>Answer: B", "B"),
]


@pytest.mark.parametrize(("response", "target"), RIGHT)
def test_right_letters(response: str, target: str) -> None:
    assert multichoice_regex(ScorerInput(response, target))["correct"] is True


@pytest.mark.parametrize(("response", "target"), WRONG)
def test_wrong_letters(response: str, target: str) -> None:
    assert multichoice_regex(ScorerInput(response, target))["correct"] is False


@pytest.mark.parametrize("response", ["", "I cannot tell.", "Answer: Because", "<think>Answer: B"])
def test_no_letter_is_unparsed(response: str) -> None:
    assert multichoice_regex(ScorerInput(response, "B"))["unparsed"] is True


@pytest.mark.parametrize(
    "response",
    [
        "Paris",
        "The answer is Paris.",
        "Answer: **Paris**",
        r"\boxed{\text{Paris}}",
        "It must be Paris.",
    ],
)
def test_the_text_of_an_option_stands_for_its_letter(response: str) -> None:
    assert multichoice_regex(ScorerInput(response, "B", {"choices": CITIES}))["correct"] is True
    assert multichoice_regex(ScorerInput(response, "A", {"choices": CITIES}))["correct"] is False


def test_an_article_is_not_the_letter_a_when_an_option_says_so() -> None:
    options = {"choices": ["a cat", "A dog", "a cow", "a hen"]}
    assert multichoice_regex(ScorerInput("Answer: A dog", "B", options))["correct"] is True


def test_i_is_a_letter_only_when_it_stands_as_one() -> None:
    assert mcq_extract(ScorerInput("Answer: I", "I"))["correct"] is True
    assert mcq_extract(ScorerInput("Answer: I think it's B", "B"))["correct"] is True


def test_two_options_named_is_no_choice() -> None:
    assert (
        multichoice_regex(ScorerInput("Paris or Rome", "B", {"choices": CITIES}))["correct"]
        is False
    )


def test_labels_come_from_the_pattern_the_argument_or_the_row() -> None:
    assert (
        multichoice_regex(ScorerInput("Answer: J", "J"), r"(?i)Answer\s*:\s*([A-J])")["correct"]
        is True
    )
    assert multichoice_regex(ScorerInput("Answer: 2", "2"), labels="12")["correct"] is True
    assert (
        multichoice_regex(ScorerInput("Answer: E", "E", {"choices": list("vwxyz")}))["correct"]
        is True
    )
    assert (
        multichoice_regex(ScorerInput("Pick: x\nPick: **y**", "Y"), r"Pick: (\w)")["correct"]
        is True
    )


def test_extract_mcq_letter() -> None:
    assert extract_mcq_letter("Final answer: (g)") == "G"
    assert extract_mcq_letter("no idea") is None
