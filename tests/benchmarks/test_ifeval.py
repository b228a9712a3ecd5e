"""IFEval: for every kind of instruction, answers that follow it and answers that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks.ifeval.checks import CHECKS
from nemo_evaluator.environments import get_environment

ENGLISH = "the quick brown fox jumps over the lazy dog because it wants to reach the other side of the field"
CASES: dict[str, list[tuple[dict[str, Any], list[str], list[str]]]] = {
    "change_case:capital_word_frequency": [
        (
            {"capital_relation": "at least", "capital_frequency": 2},
            ["NASA and ESA met.", "STOP NOW"],
            ["NASA met.", "a b"],
        ),
        ({"capital_relation": "less than", "capital_frequency": 2}, ["NASA met.", "none"], ["NASA and ESA", "A B C"]),
    ],
    "change_case:english_capital": [({}, [ENGLISH.upper(), "HELLO 123!"], [ENGLISH, "HELLO there", "ÇA VA"])],
    "change_case:english_lowercase": [({}, [ENGLISH, "hi 1."], [ENGLISH.upper(), "Hello there", "ça va"])],
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
        ({"num_placeholders": 2}, ["[name] lives at [street]", "[a] [b] [c]"], ["[name]", "name, street", "[] []"])
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
        ({}, ["My answer is yes.", "Well... My answer is maybe."], ["Yes.", "My answer is certainly."])
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
        ({"num_highlights": 2}, ["*a* and *b*", "**a** *b* **c**"], ["*a* and b", "** **  * *", "a b"])
    ],
    "detectable_format:title": [({}, ["<<My Title>>\ntext"], ["<<>>", "<Title>", "<< \n >>"])],
    "keywords:existence": [({"keywords": ["apple", "Pear"]}, ["An APPLE and a pear"], ["apple pie", "nothing"])],
    "keywords:forbidden_words": [
        ({"forbidden_words": ["rock", "field"]}, ["a rocket fielder", "none"], ["A Rock.", "the field,"])
    ],
    "keywords:frequency": [
        ({"keyword": "war", "relation": "at least", "frequency": 2}, ["war and War"], ["war", ""]),
        ({"keyword": "war", "relation": "less than", "frequency": 2}, ["war", "peace"], ["war, war, war"]),
    ],
    "keywords:letter_frequency": [
        ({"letter": "t", "let_relation": "less than", "let_frequency": 2}, ["a t b", "abc"], ["tTt", "tt"]),
        ({"letter": "!", "let_relation": "at least", "let_frequency": 3}, ["a!!!", "! ! ! !"], ["!!", "none"]),
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
            ["One. Two! Three?", "A b. C d. E f. G h."],
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
    "startend:quotation": [({}, ['"All of it."', "“All of it.”"], ["All of it.", '"Only" this', '"'])],
}


def test_every_kind_has_cases() -> None:
    assert set(CASES) == set(CHECKS)
    assert all(passing and failing for cases in CASES.values() for _, passing, failing in cases)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_checker_agrees_with_the_definition(name: str) -> None:
    for arguments, passing, failing in CASES[name]:
        for text in passing:
            assert CHECKS[name](text, arguments), (arguments, text)
        for text in failing:
            assert not CHECKS[name](text, arguments), (arguments, text)


@pytest.mark.needs("mirror")
async def test_every_kind_of_the_data_has_a_checker_that_takes_its_arguments(full_mirror: Path) -> None:
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
    numbers = env.summary([strict.scoring_details, loose.scoring_details])  # type: ignore[attr-defined]
    assert numbers == {"prompt_strict": 0.5, "prompt_loose": 1.0, "instruction_strict": 0.75, "instruction_loose": 1.0}
