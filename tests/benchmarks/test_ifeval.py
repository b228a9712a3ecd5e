"""IFEval: for every kind of instruction, answers that follow it and answers that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks.ifeval import CHECKS
from nemo_evaluator.environments import get_environment

ENGLISH = "the quick brown fox jumps over the lazy dog because it wants to reach the other side of the field"
CASES: dict[str, list[tuple[dict[str, Any], list[str], list[str]]]] = {
    "change_case:capital_word_frequency": [
        (
            {"capital_relation": "at least", "capital_frequency": 2},
            ["NASA and ESA met.", "STOP NOW"],
            ["NASA met.", "a b"],
        ),
        (
            {"capital_relation": "less than", "capital_frequency": 2},
            ["NASA met.", "none"],
            ["NASA and ESA", "A B C"],
        ),
    ],
    "change_case:english_capital": [
        ({}, [ENGLISH.upper(), "HELLO 123!"], [ENGLISH, "HELLO there", "ÇA VA"])
    ],
    "change_case:english_lowercase": [
        ({}, [ENGLISH, "hi 1."], [ENGLISH.upper(), "Hello there", "ça va"])
    ],
    "combination:repeat_prompt": [
        (
            {"prompt_to_repeat": "Write a haiku."},
            ["Write a haiku.\n\nOld pond", "  write a haiku. ok"],
            ["Old pond", "Sure! Write a haiku.", "Write one haiku."],
        )
    ],
    "combination:two_responses": [
        (
            {},
            ["one\n******\ntwo", "******one******two******"],
            ["one", "one******one", "a******b******c", "one ****** "],
        )
    ],
    "detectable_content:number_placeholders": [
        (
            {"num_placeholders": 2},
            ["[name] lives at [street]", "[a] [b] [c]"],
            ["[name]", "name, street", "[[] ]"],
        )
    ],
    "detectable_content:postscript": [
        (
            {"postscript_marker": "P.S."},
            ["Bye.\n\nP.S. Call me.", "Bye.\np. s. more", "Bye\n**P.S.** x"],
            ["Bye.", "PS5 games rule"],
        ),
        ({"postscript_marker": "P.P.S"}, ["Bye.\nP.P.S one more"], ["Bye.\nP.S. one", "none"]),
    ],
    "detectable_format:constrained_response": [
        (
            {},
            ["My answer is yes.", "Well... My answer is maybe."],
            ["Yes.", "My answer is certainly."],
        )
    ],
    "detectable_format:json_format": [
        ({}, ['{"a": 1}', "```json\n[1, 2]\n```"], ["{a: 1}", 'Here: {"a": 1}', "plain"])
    ],
    "detectable_format:multiple_sections": [
        (
            {"section_spliter": "SECTION", "num_sections": 2},
            ["SECTION 1\na\nSECTION 2\nb", "# SECTION 1\n# SECTION 2\n# SECTION 3"],
            ["SECTION 1\na", "Section 1\nSection 2", "SECTION one SECTION two"],
        )
    ],
    "detectable_format:number_bullet_lists": [
        (
            {"num_bullets": 2},
            ["* a\n* b", "Intro\n- a\n- b\nEnd"],
            ["* a", "* a\n* b\n* c", "a\nb", "**bold** a\n**bold** b"],
        )
    ],
    "detectable_format:number_highlighted_sections": [
        (
            {"num_highlights": 2},
            ["*a* and *b*", "**a** *b* **c**"],
            ["*a* and b", "** **  * *", "a b"],
        )
    ],
    "detectable_format:title": [({}, ["<<My Title>>\ntext"], ["<<>>", "<Title>", "<< \n >>"])],
    "keywords:existence": [
        ({"keywords": ["apple", "Pear"]}, ["An APPLE and a pear"], ["apple pie", "nothing"])
    ],
    "keywords:forbidden_words": [
        (
            {"forbidden_words": ["rock", "field"]},
            ["a rocket fielder", "none"],
            ["A Rock.", "the field,"],
        ),
        # Words that are not valid regular expressions count as plain text.
        (
            {"forbidden_words": ["f(", "C[1]["]},
            ["a scarf(", "C[1]", "none"],
            ["call f(x)", "Write c[1][2]."],
        ),
    ],
    "keywords:frequency": [
        ({"keyword": "war", "relation": "at least", "frequency": 2}, ["war and War"], ["war", ""]),
        (
            {"keyword": "war", "relation": "less than", "frequency": 2},
            ["war", "peace"],
            ["war, war, war"],
        ),
    ],
    "keywords:letter_frequency": [
        (
            {"letter": "t", "let_relation": "less than", "let_frequency": 2},
            ["a t b", "abc"],
            ["tTt", "tt"],
        ),
        (
            {"letter": "!", "let_relation": "at least", "let_frequency": 3},
            ["a!!!", "! ! ! !"],
            ["!!", "none"],
        ),
    ],
    "language:response_language": [
        (
            {"language": "de"},
            ["Das ist ein ganz normaler deutscher Satz über das Wetter."],
            ["This is plain English text."],
        ),
        (
            {"language": "hi"},
            ["यह एक सामान्य हिंदी वाक्य है जो मौसम के बारे में है।"],
            ["यो नेपाली भाषामा लेखिएको वाक्य हो र यो छोटो छ।"],
        ),
        (
            {"language": "sw"},
            ["Habari ya asubuhi, leo hali ya hewa ni nzuri sana hapa nchini kwetu."],
            ["Good morning, today"],
        ),
        ({"language": "te"}, ["ఇది తెలుగులో ఒక వాక్యం."], ["This one is not."]),
    ],
    "length_constraints:nth_paragraph_first_word": [
        (
            {"first_word": "weekend", "num_paragraphs": 2, "nth_paragraph": 2},
            ["First one.\n\nWeekend plans.", 'First.\n\n"weekend" is here'],
            ["First.\n\nPlans for the weekend.", "Weekend.\n\nFirst.", "One.\n\nTwo.\n\nWeekend."],
        )
    ],
    "length_constraints:number_paragraphs": [
        (
            {"num_paragraphs": 2},
            ["a\n***\nb", "***\na\n***\nb\n***"],
            ["a", "a\n\nb", "a *** b *** c", "a\n***\n***\nb"],
        )
    ],
    "length_constraints:number_sentences": [
        (
            {"relation": "at least", "num_sentences": 3},
            ["One. Two! Three?", "It is. So it is. It was. So it was."],
            ["One. Two.", "One"],
        ),
        (
            {"relation": "less than", "num_sentences": 3},
            ["Dr. Smith paid $3.50. He left.", "One."],
            ["One. Two. Three."],
        ),
    ],
    "length_constraints:number_words": [
        ({"relation": "at least", "num_words": 4}, ["one two three four"], ["one two three"]),
        ({"relation": "less than", "num_words": 4}, ["one two three"], ["one two three four five"]),
    ],
    "punctuation:no_comma": [({}, ["No commas here; none."], ["One, two"])],
    "startend:end_checker": [
        (
            {"end_phrase": "Is there more?"},
            ["Well. Is there more?", '"Yes. is there more?"'],
            ["Is there more? Yes.", "No."],
        )
    ],
    "startend:quotation": [({}, ['"All of it."'], ["All of it.", '"Only" this', '"'])],
}


def test_every_kind_has_cases() -> None:
    assert set(CASES) == set(CHECKS)
    assert all(passing and failing for cases in CASES.values() for _, passing, failing in cases)


# Verdicts of the official checker (instruction_following_eval, Punkt of NLTK 3.10): arguments, followed, not followed.
OFFICIAL: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        ["Bye. P.S. call me", "Bye.\n**P. S.** call me"],
        ["Bye.\nPS: call me", "Bye.\nP.S: call me"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["Bye.\nP.P. S more"],
        ["Bye.\nPPS more"],
    ),
    (
        "length_constraints:number_sentences",
        {"relation": "at least", "num_sentences": 2},
        [
            "Mr. Smith met Dr. No at 5 p.m. today. It rained.",
            "**Really?** Yes.",
            "**Bold.**",
            'He said "Stop." Then he left.',
            "Plan B. The end.",
            "It costs $3.50 at no. 5 here.",
            "Visit a.b.com. Bye",
        ],
        [
            "- one\n- two\n- three",
            "Wait... what happened?",
            "Wait... Then it rained.",
            "J. R. Smith wrote it",
            "Heading\n\nBody without a stop\n\nMore",
        ],
    ),
    (
        "length_constraints:number_sentences",
        {"relation": "at least", "num_sentences": 3},
        [
            "See e.g. apples, pears, etc. They are good.",
            "1. First\n2. Second",
            "The U.S. army came. The U.S. The war.",
            "What?! No!!",
        ],
        [
            "Mr. Smith met Dr. No at 5 p.m. today. It rained.",
            "**Really?** Yes.",
            "**Bold.**",
            'He said "Stop." Then he left.',
            "Plan B. The end.",
            "It costs $3.50 at no. 5 here.",
            "Visit a.b.com. Bye",
        ],
    ),
    (
        "length_constraints:number_sentences",
        {"relation": "at least", "num_sentences": 4},
        [],
        [
            "See e.g. apples, pears, etc. They are good.",
            "1. First\n2. Second",
            "The U.S. army came. The U.S. The war.",
            "What?! No!!",
        ],
    ),
    (
        "length_constraints:number_sentences",
        {"relation": "at least", "num_sentences": 1},
        [
            "- one\n- two\n- three",
            "Wait... what happened?",
            "Wait... Then it rained.",
            "J. R. Smith wrote it",
            "Heading\n\nBody without a stop\n\nMore",
        ],
        [],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 3},
        ["IT'S HERE", "**YES** A/B, I"],
        ["DON’T"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 4},
        ["WE CANNOT GO", "NASA's U.S. (OK) X-RAY"],
        ["IT'S HERE", "**YES** A/B, I"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 5},
        [],
        ["WE CANNOT GO", "NASA's U.S. (OK) X-RAY"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 2},
        ["DON’T"],
        [],
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ["*a\n-b", "* a\n*\n* b", "**x** a\n* b\n  * c"],
        ["- a\n- b\n---"],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["***both***", "**a** **b**"],
        ["*a\nb* *c*", "**a** ** **"],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["[] []"],
        ["[[a]]", "[a\nb] [c]", "[a] [b"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "hello"},
        ["a\n\nHello!", 'a\n\n"Hello, b'],
        ["a\n\n\n\nHello b", "a\n\n*Hello* b", "a\n\nHello-b"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Day", "num_sections": 2},
        ["Day 1 a Day 2 b", "Day1\nDay2", "MonDay 1 TuesDay 2", "Day\n1 Day\n2"],
        ["day 1 day 2"],
    ),
    ("detectable_format:title", {}, ["<<a>> b <<c>>", "<<<a>>>", "a << b > >>"], ["<<>>", "<<>>>"]),
    (
        "detectable_format:json_format",
        {},
        ['```JSON\n{"a": 1}\n```', "```json\n[1]", '"x"', "NaN"],
        ['{"a": 1}.'],
    ),
    ("startend:quotation", {}, ['"a"'], ["“a”", '"a".', '"']),
    (
        "detectable_format:constrained_response",
        {},
        ["**My answer is no.**"],
        ["my answer is yes.", "My answer is maybe"],
    ),
    (
        "startend:end_checker",
        {"end_phrase": "Any more?"},
        ["x any more?", 'x "Any more?"'],
        ["x Any more?."],
    ),
    (
        "combination:two_responses",
        {},
        ["a*******b", "a******b******", " ******a******b"],
        ["a******a"],
    ),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["rock"]},
        ["rocks", "rock_x"],
        ["rock-solid", "Rock's"],
    ),
]


@pytest.mark.parametrize(
    "case", OFFICIAL, ids=lambda case: f"{case[0]}-{len(case[2])}-{case[2:]}"[:60]
)
def test_verdicts_are_those_of_the_official_checker(
    case: tuple[str, dict[str, Any], list[str], list[str]],
) -> None:
    name, arguments, followed, broken = case
    assert [text for text in followed if not CHECKS[name](text, arguments)] == []
    assert [text for text in broken if CHECKS[name](text, arguments)] == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_checker_agrees_with_the_definition(name: str) -> None:
    for arguments, passing, failing in CASES[name]:
        for text in passing:
            assert CHECKS[name](text, arguments), (arguments, text)
        for text in failing:
            assert not CHECKS[name](text, arguments), (arguments, text)


@pytest.mark.needs("mirror")
async def test_every_kind_of_the_data_has_a_checker_that_takes_its_arguments(
    full_mirror: Path,
) -> None:
    env = get_environment("ifeval")
    seen = set()
    for idx in range(len(env)):
        seed = await env.seed(idx)
        verdict = await env.verify_answer("Some answer, in English. It has two sentences.", seed)
        assert len(verdict.scoring_details["followed"]) == len(seed.metadata["instruction_id_list"])
        seen.update(seed.metadata["instruction_id_list"])
    assert seen == set(CHECKS)


async def test_strict_and_loose(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"key": 1, "prompt": "p", "instruction_id_list": ["startend:quotation", "punctuation:no_comma"],'
        ' "kwargs": [{"relation": null}, {}]}\n'
    )
    env = get_environment("ifeval", params={"dataset": str(path)})
    seed = await env.seed(0)
    strict = await env.verify_answer('"All of it."', seed)
    assert (strict.reward, strict.scoring_details["followed"]) == (1.0, [True, True])
    loose = await env.verify_answer('Sure:\n"All of it."', seed)
    assert (loose.reward, loose.scoring_details["loose"]) == (0.0, True)
    thought = await env.verify_answer('<think>commas, many, commas</think>"All of it."', seed)
    assert thought.reward == 1.0
    empty = await env.verify_answer("<think>hm</think>", seed)
    assert (empty.reward, empty.scoring_details["unparsed"]) == (0.0, True)
    summary = env.facts().summary
    assert summary is not None
    numbers = summary([strict.scoring_details, loose.scoring_details])
    assert numbers == {
        "prompt_strict": 0.5,
        "prompt_loose": 1.0,
        "instruction_strict": 0.75,
        "instruction_loose": 1.0,
    }
