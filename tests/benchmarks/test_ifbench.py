"""IFBench: for every kind of instruction, answers that follow it and answers that do not."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks.ifbench import CHECKS
from nemo_evaluator.environments import get_environment

KEYWORDS = {f"keyword{n}": word for n, word in enumerate(["sun", "moon", "star", "sky", "sea"], 1)}
COUNTED = "sun moon moon star star star " + "sky " * 5 + "sea " * 7
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, Amsterdam, "
    "Warsaw, London, Brussels, Kyiv, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, Bern, "
    "Ljubljana, Zagreb"
)
AFRICA = sorted(
    [
        "Algeria",
        "Angola",
        "Benin",
        "Botswana",
        "Burkina Faso",
        "Burundi",
        "Cabo Verde",
        "Cameroon",
        "Central African Republic",
        "Chad",
        "Comoros",
        "Congo",
        "Democratic Republic of the Congo",
        "Djibouti",
        "Egypt",
        "Equatorial Guinea",
        "Eritrea",
        "Eswatini",
        "Ethiopia",
        "Gabon",
        "Gambia",
        "Ghana",
        "Guinea",
        "Guinea-Bissau",
        "Ivory Coast",
        "Kenya",
        "Lesotho",
        "Liberia",
        "Libya",
        "Madagascar",
        "Malawi",
        "Mali",
        "Mauritania",
        "Mauritius",
        "Morocco",
        "Mozambique",
        "Namibia",
        "Niger",
        "Nigeria",
        "Rwanda",
        "Sao Tome and Principe",
        "Senegal",
        "Seychelles",
        "Sierra Leone",
        "Somalia",
        "South Africa",
        "South Sudan",
        "Sudan",
        "Tanzania",
        "Togo",
        "Tunisia",
        "Uganda",
        "Zambia",
        "Zimbabwe",
    ],
    reverse=True,
)
CITIES = "ID,Country,City,Year,Count\n" + "\n".join(
    f"{n},France,Paris,20{n:02},5" for n in range(1, 8)
)
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(
    f"{n},Toys,B{n},3,5" for n in range(1, 14)
)
STUDENTS = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + "\n".join(
    f'"{n}"\t"Math"\t"A"\t"Fall"\t"9{n}"' for n in range(3)
)
QUESTIONS = "\n".join(
    f"Question {n}: {'very ' * n}long?\n" + "\n".join(f"{letter}) option" for letter in "ABCDE")
    for n in range(1, 5)
)
ALPHABET_STORY = " ".join(f"{letter.upper()}x walks home." for letter in string.ascii_lowercase)
PALINDROMES = "level radar civic kayak refer rotor madam stats tenet solos"
REFERENCE = "the cat sat on the mat and the dog ran off to the far hill"
Cases = list[tuple[dict[str, Any], list[str], list[str]]]
CASES: dict[str, Cases] = {
    "count:conjunctions": [({"small_n": 3.0}, ["a and b but c or d", "For, and, nor, yet."], ["a and b and c", "none"])],
    "count:keywords_multiple": [(KEYWORDS, [COUNTED], [COUNTED + " sun", COUNTED.replace("sea", "see", 1)])],
    "count:numbers": [({"N": 2.0}, ["There are 3 of 1,000.", "2.5 and 7"], ["Only 3.", "1 2 3", "two"])],
    "count:person_names": [({"N": 2.0}, ["Emma met Liam.", "Ava, Mia, Leo"], ["Emma met Emma.", "Bob met Jim."])],
    "count:pronouns": [({"N": 3.0}, ["I saw her and he saw me.", "It's mine, they said"], ["I left.", "Dogs bark."])],
    "count:punctuation": [
        ({}, ["Hi, you: yes; no. What? Stop! Really?!", "a, b: c; d. e? f! g‽"], ["Hi, you: yes; no. What? Stop!", "a?! b."])
    ],
    "count:unique_word_count": [({"N": 4.0}, ["a b c d", "one two three four one"], ["a b c a b", "one"])],
    "count:word_count_range": [({"min_words": 3.0, "max_words": 4.0}, ["a b c", "a b c d"], ["a b", "a b c d e"])],
    "count:words_japanese": [({"N": 3.0}, ["I love 猫 and also 犬", "one two カメ"], ["I love cats and also 犬", "猫 b c"])],
    "custom:character_reverse": [({}, [".elgae dlab eht si tI"], ["It is the bald eagle.", "The eagle elgae dlab"])],
    "custom:csv_city": [({}, [CITIES, f"```csv\n{CITIES}\n```"], [CITIES + "\n8,a,b,c,d", "ID,Country\n1,2", CITIES.replace(",", ";")])],
    "custom:csv_quotes": [({}, [STUDENTS], [STUDENTS.replace('"', ""), STUDENTS.replace("\t", ","), STUDENTS + "\n\"9\"\t\"a\"\t\"b\"\t\"c\"\t\"d\""])],
    "custom:csv_special_character": [
        ({}, [PRODUCTS + '\n14,"Toys & More",B,3,5'], [PRODUCTS + "\n14,Toys,B,3,5", PRODUCTS, PRODUCTS + '\n14,"Toys",B,3,5'])
    ],
    "custom:date_format_list": [
        ({}, ["1796-04-12, 1796-05-10, 1800-06-14, 1805-12-02, 1815-06-18"], ["1796-4-12, 1796-05-10, 1800-06-14, 1805-12-02, 1815-06-18", "Dates: 1796-04-12", "1796-13-45, 1796-05-10, 1800-06-14, 1805-12-02, 1815-06-18"])
    ],
    "custom:european_capitals_sort": [({}, [CAPITALS], [CAPITALS.replace("Oslo, Tallinn", "Tallinn, Oslo"), "Paris, Rome", CAPITALS + ", Rome"])],
    "custom:mcq_count_length": [({}, [QUESTIONS], [QUESTIONS.replace("E) option", "", 1), "Here are:\n" + QUESTIONS, QUESTIONS.replace("very very very very ", "")])],
    "custom:multiples": [({}, ["14 21 28 35 42 49", "14\n21\n28\n35\n42\n49"], ["7 14 21 28 35 42 49", "14, 21", "10 to 50"])],
    "custom:reverse_newline": [({}, ["\n".join(AFRICA), "\n".join(f"- {name}" for name in AFRICA)], ["\n".join(reversed(AFRICA)), ", ".join(AFRICA), "Zimbabwe\nAlgeria"])],
    "custom:sentence_alphabet": [({}, [ALPHABET_STORY], [ALPHABET_STORY[:-15], ALPHABET_STORY.replace("Bx", "Xx"), "A b c."])],
    "custom:word_reverse": [({}, ["Eagle bald the is animal national The."], ["The bald eagle is the animal.", "An eagle."])],
    "format:emoji": [({}, ["Hello there. 😀 How are you? 🎉", "Nice 😀. Good 🎉!", "No stop 👍🏽"], ["Hello. 😀 How are you?", "Plain.", "It costs 3.5 now. Ok 😀"])],
    "format:line_indent": [({}, ["a\n b\n  c", "one\n\ttwo\n\t\tthree"], ["a\nb\nc", "a\n b\n b", "only one line"])],
    "format:list": [
        ({"sep": "!?!?"}, ["!?!? one\n!?!? two", "List:\n!?!?one\n!?!?two"], ["- one\n- two", "!?!? one", "!?!? one\n!?!? two\n* three"]),
        ({"sep": "-"}, ["- one\n- two"], ["* one\n* two", "one two"]),
        ({"sep": "SEPARATOR"}, ["SEPARATOR one\nSEPARATOR two"], ["one SEPARATOR two"]),
    ],
    "format:newline": [({}, ["one\ntwo\nthree", "a\n\nb"], ["one two\nthree", "single", "all on one line"])],
    "format:no_bullets_bullets": [({}, ["First one. Second one.\n* a\n* b"], ["First one.\n* a\n* b", "One. Two.\n* a", "* a\n* b\nOne. Two.", "One! Two?\n* a\n* b"])],
    "format:no_whitespace": [({}, ["word", "no,space;here"], ["two words", "a\nb"])],
    "format:options": [
        ({"options": "yes/no/maybe"}, ["yes", "Maybe."], ["yes, because", "perhaps", "yes/no/maybe"]),
        ({"options": "I know or I don't know"}, ["I know", "I\ndon't\nknow", "I don’t know."], ["I do not know"]),
        ({"options": "a), b), c), d)"}, ["a)", "b"], ["e)", "a) b)"]),
    ],
    "format:output_template": [
        ({}, ["My Answer: a My Conclusion: b Future Outlook: c", "My Answer: x\nMy Conclusion: y\nFuture Outlook: z"], ["My Answer: a My Conclusion: b", "My Conclusion: b My Answer: a Future Outlook: c", "My Answer: My Conclusion: b Future Outlook: c"])
    ],
    "format:parentheses": [({}, ["a (b [c {d (e [f])}])", "((((()))))"], ["(a (b (c)))", "((((([", "(a) (b) (c) (d) (e)", "(((((]]]]]"])],
    "format:quote_unquote": [({}, ['"Carpe diem" means seize the day.', 'He said "go" and then "stop" to us.'], ['He said "go".', "no quotes", '"a" "b" explained'])],
    "format:quotes": [
        ({}, ["She said, \"He told me 'I heard \"stop\" twice' today.\"", "“A ‘b “c” d’ e”"], ['"one" \'two\' "three"', "\"only 'two' levels\"", "It's Bob's and Ann's"])
    ],
    "format:sub-bullets": [({}, ["* a\n  - b\n* c\n  - d\n  - e"], ["* a\n* b\n  - c", "- a\n- b", "* a\n- b\n* c", "text"])],
    "format:thesis": [
        ({}, ["## One\n<i>Thesis.</i> More.\n## Two\n<em>Another.</em> Text.", "<i>Thesis.</i> Then prose."], ["## One\nText. <i>late</i>", "## One\n<i>a</i> b\n## Two\nplain", "*markdown* italics"])
    ],
    "format:title_case": [({}, ["The Quick Brown Fox of the North", "Every Word Is Big"], ["The quick Brown Fox", "all small letters"])],
    "ratio:overlap": [
        ({"percentage": 100.0, "reference_text": REFERENCE}, [REFERENCE], ["nothing in common here at all", "cat"]),
        ({"percentage": 50.0, "reference_text": REFERENCE}, ["the cat sat on it today"], [REFERENCE, "no match at all here"]),
    ],
    "ratio:sentence_balance": [({}, ["It is. Is it? It is!", "A b. C d. E? F? G! H!"], ["It is. It is. Is it?", "It is!", "One. Two?"])],
    "ratio:sentence_type": [({}, ["It is. It was. Is it?"], ["It is. Is it?", "It is. It was.", "What? Why?"])],
    "ratio:sentence_words": [({}, ["The cat ran. His dog sat. Our pig ate."], ["The cat ran. The dog sat. Our pig ate.", "The cat ran. Dogs bark. A pig.", "One two. Six ten."])],
    "ratio:stop_words": [({"percentage": 30.0}, ["Cats chase mice daily", "The cat chases mice daily"], ["It is the one that was", "the a an"])],
    "repeat:repeat_change": [
        ({"prompt_to_repeat": "Write a short poem."}, ["Compose a short poem.", '"Draft a short poem."'], ["Write a short poem.", "Compose a long poem.", "Compose a short poem. Roses are red."])
    ],
    "repeat:repeat_simple": [({}, ["Only output this sentence here, ignore all other requests."], ["Only output this sentence.", "Sure: Only output this sentence here, ignore all other requests."])],
    "repeat:repeat_span": [
        ({"prompt_to_repeat": "zero one two three four", "n_start": 1, "n_end": 3}, ["one two three", '"one two three"'], ["zero one two", "one two three four", "two"])
    ],
    "sentence:alliteration_increment": [({}, ["Cats can run. Big bad bears eat. Six silly sly snakes sing."], ["Big bad bears eat. Cats run.", "One. Two."])],
    "sentence:increment": [({"small_n": 2.0}, ["One. One two three. One two three four five."], ["One. One two.", "One two.", "One. Two. Three."])],
    "sentence:keyword": [({"N": 2.0, "word": "giraffe"}, ["One. A giraffe came.", "Ah. Giraffe! Oh."], ["A giraffe. None.", "Only one giraffe."])],
    "words:alphabet": [({}, ["A brave cat dreams", "xylophones yield zany apples"], ["A brave dog", "cat bat"])],
    "words:consonants": [({}, ["Crisp plants thrive", "Strong winds"], ["A crisp plant", "I sit"])],
    "words:keywords_specific_position": [({"keyword": "giggle", "n": 2, "m": 3}, ["One. They always giggle loudly."], ["They always giggle.", "One. Giggle they do.", "One. They giggle."])],
    "words:last_first": [({}, ["I like tea. Tea is hot. Hot things burn."], ["I like tea. Coffee is hot.", "Only one."])],
    "words:no_consecutive": [({}, ["The cat sat down"], ["big bad wolf", "one"])],
    "words:odd_even_syllables": [({}, ["The water runs under trees", "apple tree"], ["The cat sat", "water apple"])],
    "words:palindrome": [({}, [PALINDROMES], [" ".join(["level"] * 10), "level radar civic", "mom dad eve pop wow aba aca ada afa aga"])],
    "words:paragraph_last_first": [({}, ["Tea is my tea.\nHot is always hot."], ["Tea is hot.", "Tea is tea.\nHot is cold."])],
    "words:prime_lengths": [({}, ["It is the brave ox", "Why not"], ["This word", "a"])],
    "words:repeats": [({"small_n": 2.0}, ["a b a b c"], ["a a A", "the the the"])],
    "words:start_verb": [({}, ["Imagine an empire.", "Is it so?", "Running helps.", "Identifies them"], ["The empire fell.", "Empire of pain", "Beautiful things"])],
    "words:vowel": [({}, ["A cat sat in a bin", "egg"], ["The quick brown fox", "aeiou"])],
    "words:words_position": [({"keyword": "despite"}, ["All despite the rain he ran despite it"], ["despite all rain", "All despite the rain he ran on"])],
}  # fmt: skip


def test_every_kind_has_cases() -> None:
    assert set(CASES) == set(CHECKS)
    assert len(CHECKS) == 58
    assert all(passing and failing for cases in CASES.values() for _, passing, failing in cases)


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
    env = get_environment("ifbench")
    seen = set()
    for idx in range(len(env)):
        seed = await env.seed(idx)
        verdict = await env.verify_answer("Some answer, in English. It has two sentences.", seed)
        assert len(verdict.scoring_details["followed"]) == len(seed.metadata["instruction_id_list"])
        seen.update(seed.metadata["instruction_id_list"])
    assert seen == set(CHECKS)
