"""DROP, SQuAD 2.0 and TriviaQA: what a response commits to, measured as the official scripts do."""

from __future__ import annotations

import pytest

from nemo_evaluator.benchmarks._spans import (
    best_match,
    committed,
    drop_match,
    drop_scores,
    squad_normal,
    trivia_normal,
)
from nemo_evaluator.benchmarks.drop import drop, example, grouped, prepare, summary
from nemo_evaluator.benchmarks.squad_v2 import NO_ANSWER, squad_v2
from nemo_evaluator.benchmarks.triviaqa import triviaqa
from nemo_evaluator.environments import get_environment
from nemo_evaluator.scoring import ScorerInput

PASSAGE = "In 1066 the Normans crossed the Channel and beat Harold near Hastings. " * 12


@pytest.mark.parametrize(
    ("response", "span"),
    [
        ("Answer: Tony Romo", "Tony Romo"),
        ("The answer is **Tony Romo**.", "Tony Romo"),
        ("Answer: Tony Romo (of the Cowboys)", "Tony Romo"),
        ("Answer: Tony Romo. He threw both of them.", "Tony Romo"),
        ("Answer: the St. Louis Rams", "the St. Louis Rams"),
        ("Answer: J. R. R. Tolkien, because he wrote it", "J. R. R. Tolkien"),
        ("Answer: Hines Ward, not families", "Hines Ward"),
        ("Answer: Romo rather than Hill", "Romo"),
        ("Both scored.\n\nAnswer:\n- Tony Romo\n- **Shaun Hill**", "Tony Romo\nShaun Hill"),
        ("Tony Romo", "Tony Romo"),
        ("Let me see.\n\n**Tony Romo**", "Tony Romo"),
        ("Answer: two or more races", "two or more races"),
        ("It was definitely not Hannah.", None),
        ("The answer is Hannah or maybe Ruth.", None),
        ("Some sources say Hannah.", None),
        ("Answer: Hannah... wait, no, Ruth.", "Ruth"),
        ("The answer is Hannah. Hmm, looking again, I should choose Ruth instead.", "Ruth"),
        ("One might think the answer is Hannah, but it is Ruth.", "Ruth"),
        ("Answer: Ruth\n\nQuestion: Who else?\nAnswer: Hannah", "Ruth"),
        (PASSAGE, None),
        ("", None),
        (" \n ", None),
    ],
)
def test_the_span_that_a_response_commits_to(response: str, span: str | None) -> None:
    assert committed(response) == span


# (spans given, spans wanted, exact match, F1) as drop_eval.py has them.
@pytest.mark.parametrize(
    ("said", "wanted", "exact", "f1"),
    [
        (["3"], ["3.0"], True, 1.0),
        (["The Bears"], ["bears"], True, 1.0),
        (["touchdown-pass"], ["touchdown pass"], True, 1.0),
        (["1,080"], ["1080"], True, 1.0),
        (["4 yards"], ["3 yards"], False, 0.0),
        (["3 yards"], ["3"], False, 0.67),
        (["Hill", "Romo"], ["Romo", "Hill"], True, 1.0),
        (["Romo"], ["Romo", "Hill"], False, 0.5),
        (["Romo", "Hill", "Owens"], ["Romo"], False, 0.33),
        (["Tony Romo", "Bruce"], ["Isaac Bruce", "Tony Romo"], False, 0.83),
        (["Romo", "Romo"], ["Romo"], False, 0.5),
        (["25-yard"], ["25"], False, 0.67),
        (["the"], ["a"], True, 1.0),
    ],
)
def test_drop_agrees_with_the_official_script(
    said: list[str], wanted: list[str], exact: bool, f1: float
) -> None:
    assert drop_scores(said, wanted) == (exact, f1)


@pytest.mark.parametrize(
    ("said", "accepted", "question", "exact"),
    [
        ("Shaun Hill; Tony Romo", [["Tony Romo and Shaun Hill"]], "", True),
        ("Shaun Hill and Tony Romo", [["Tony Romo", "Shaun Hill"]], "", True),
        ("Shaun Hill\nTony Romo", [["Tony Romo", "Shaun Hill"]], "", True),
        ("Tony Romo & Shaun Hill", [["Tony Romo", "Shaun Hill"]], "", True),
        ("Tony Romo, Shaun Hill", [["Tony Romo"]], "", False),
        ("Tony Romo or Shaun Hill", [["Tony Romo"]], "", False),
        ("1,080", [["1080"]], "", True),
        ("$50.6", [["50.6"]], "", True),
        ("23.4%", [["23.4"]], "", True),
        ("three", [["3"]], "", True),
        ("three yards", [["3"]], "How many yards did he run?", True),
        ("3 yards", [["3"]], "How many yards did he run?", True),
        ("3 apples", [["3"]], "How many yards did he run?", False),
        ("1080 thousand", [["1080"]], "How many were there?", False),
        ("1080k", [["1080"]], "How many were there?", False),
        ("50.6 billion", [["50.6"]], "How many billions of dollars?", True),
        ("12.5 million", [["12.5 million"]], "How much?", True),
    ],
)
def test_an_answer_to_drop_is_read_fairly(
    said: str, accepted: list[list[str]], question: str, exact: bool
) -> None:
    right, f1 = drop_match(said, accepted, question)
    assert right is exact
    assert (f1 == 1.0) is exact
    if "1080" in said and not exact:
        assert f1 == 0.0, "another scale is another number"


def test_the_flat_lists_of_the_hub_show_which_spans_belong_together() -> None:
    assert grouped(["a", "b", "a", "b"], ["span"] * 4) == [["a", "b"]]
    assert grouped(["a", "b", "b", "a"], ["span"] * 4) == [["a", "b"], ["b", "a"]]
    assert grouped(["a", "a", "b"], ["span"] * 3) == [["a"], ["b"]]
    assert grouped(["3", "4"], ["number"] * 2) == [["3"], ["4"]]
    row = {
        "passage": "p", "question": "q", "query_id": "i",
        "answer": {"number": "", "date": {"day": "", "month": "", "year": ""}, "spans": ["a", "b"]},
        "validated_answers": {
            "number": ["3", ""], "spans": [[], []],
            "date": [{"day": "", "month": "", "year": ""}, {"day": "1", "month": "May", "year": "1900"}],
        },
    }  # fmt: skip
    prepared = prepare(row)
    assert prepared["answers"] == [["a", "b"], ["3"], ["1 May 1900"]]
    assert example(prepared | {"answers": [["a"], ["b"]]}).endswith("\nAnswer: a, b")


def scored(
    function: object, response: str, target: str, **metadata: object
) -> tuple[float, float, bool]:
    score = function(ScorerInput(response, target, metadata))  # type: ignore[operator]
    return float(score["correct"]), score["f1"], score.get("unparsed", False)


def test_drop_rewards_f1_and_an_echo_of_the_passage_nothing() -> None:
    about = {"answers": [["Harold"]], "question": "Who was beaten?"}
    assert scored(drop, "Answer: Harold", "Harold", **about) == (1.0, 1.0, False)
    assert scored(drop, "Answer: King Harold", "Harold", **about) == (0.67, 0.67, False)
    assert scored(drop, PASSAGE, "Harold", **about) == (0.0, 0.0, True)
    assert scored(drop, "It was definitely not Harold.", "Harold", **about) == (0.0, 0.0, True)
    assert summary([{"em": True, "f1": 1.0}, {"em": False, "f1": 0.5}, {}]) == {
        "em": 0.5,
        "f1": 0.75,
    }


@pytest.mark.parametrize(
    ("said", "accepted", "exact", "f1"),
    [
        ("The Normans!", ["Normans"], True, 1.0),
        ("old Normans", ["the Normans", "Franks"], False, 2 / 3),
        ("1,066", ["1066"], True, 1.0),
        ("", [""], True, 1.0),
        ("", ["Normans"], False, 0.0),
        ("a", ["the"], True, 1.0),
    ],
)
def test_squad_agrees_with_the_official_script(
    said: str, accepted: list[str], exact: bool, f1: float
) -> None:
    assert best_match(said, accepted, squad_normal) == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("response", "known", "unknown"),
    [
        ("Answer: Normans", 1.0, 0.0),
        ("Answer: unanswerable", 0.0, 1.0),
        ("The passage does not say who crossed it.", 0.0, 1.0),
        ("Answer: The question cannot be answered from the passage.", 0.0, 1.0),
        ("Answer: Normans (the passage does not say which)", 1.0, 0.0),
        ("Normans and Franks", 0.0, 0.0),
        (PASSAGE, 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_squad_with_and_without_an_answer(response: str, known: float, unknown: float) -> None:
    assert scored(squad_v2, response, "Normans", correct_answers=["Normans"])[0] == known
    assert scored(squad_v2, response, NO_ANSWER, correct_answers=[NO_ANSWER])[0] == unknown


def test_triviaqa_takes_an_alias_and_nothing_around_it() -> None:
    aliases = {"correct_answers": ["Sunset Boulevard", "Sunset Blvd."]}
    for right in (
        "Answer: Sunset_Boulevard",
        "sunset blvd",
        "The answer is 'Sunset Boulevard'.",
        "Sunset-Boulevard",
    ):
        assert scored(triviaqa, right, "", **aliases)[0] == 1.0, right
    for wrong in (
        "Answer: Sunset Boulevard or Cats",
        "Cats, Evita, Sunset Boulevard",
        "Not Sunset Boulevard",
    ):
        assert scored(triviaqa, wrong, "", **aliases)[0] == 0.0, wrong
    assert trivia_normal("The ‘Rock’_n-Roll") == "rock n roll"


@pytest.mark.needs("mirror")
async def test_an_echo_of_the_passage_scores_nothing_on_drop(full_mirror: object) -> None:
    env = get_environment("drop", num_fewshot=0)
    seeds = [await env.seed(idx) for idx in range(200)]
    verdicts = [await env.verify_answer(seed.metadata["passage"], seed) for seed in seeds]
    assert sum(verdict.reward for verdict in verdicts) / len(verdicts) < 0.01
