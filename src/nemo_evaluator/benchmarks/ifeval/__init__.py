"""IFEval: prompts with instructions whose following can be checked by a program."""

import json
import re
from collections.abc import Callable
from typing import Final

from nemo_evaluator.benchmarks._instructions import Check, check_all, named, prepare, summary
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks.ifeval.sentences import count_capital_words, count_sentences
from nemo_evaluator.core.lazy import optional
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput

_SHORT_TEXT: Final = 40
_ANSWERS: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_POSTSCRIPTS: Final = {"P.S.": r"p\.\s?s\.", "P.P.S": r"p\.\s?p\.\s?s"}


def _counted(
    limit: str, count: Callable[[str, JsonDict], int], relation: str = "relation"
) -> Check:
    """Make a checker that compares a count with a limit: ``at least`` or, for any other relation, ``less than``.

    Args:
        limit: The name of the argument with the limit.
        count: Counts in the response.
        relation: The name of the argument with the relation.
    """

    def check(text: str, args: JsonDict) -> bool:
        reaches_limit = bool(count(text, args) >= args[limit])
        at_least = bool(args[relation] == "at least")
        return reaches_limit == at_least

    return check


def _keyword_pattern(keyword: str) -> re.Pattern[str]:
    """Compile a keyword as a regular expression, as the official checker does; an invalid one counts as plain text."""
    try:
        return re.compile(keyword, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(keyword), re.IGNORECASE)


def _word_pattern(word: str) -> re.Pattern[str]:
    r"""Compile a word as the regular expression ``\bWORD\b``, as the official checker does.

    If this is invalid, the word counts as plain text; where it begins or ends with a letter or digit, no other one may
    be next to it.
    """
    try:
        return re.compile(rf"\b{word}\b", re.IGNORECASE)
    except re.error:
        before = r"\b" if re.match(r"\w", word) else ""
        after = r"\b" if re.search(r"\w\Z", word) else ""
        return re.compile(f"{before}{re.escape(word)}{after}", re.IGNORECASE)


def number_paragraphs(text: str, args: JsonDict) -> bool:
    """Whether there are exactly the given number of paragraphs between ``***`` dividers.

    Only the first and the last part may be empty; empty parts are not counted.
    """
    paragraphs = [paragraph.strip() for paragraph in re.split(r"\s?\*\*\*\s?", text)]
    inner_paragraphs = paragraphs[1:-1]
    if not all(inner_paragraphs):
        return False
    filled_count = len([paragraph for paragraph in paragraphs if paragraph])
    return bool(filled_count == args["num_paragraphs"])


def nth_paragraph_first_word(text: str, args: JsonDict) -> bool:
    """Whether there are exactly the given number of paragraphs between blank lines, and the nth begins with the word.

    A surplus blank line counts as a paragraph when the nth is located.
    """
    paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
    count = len([paragraph for paragraph in paragraphs if paragraph])
    number = args["nth_paragraph"]
    if count != args["num_paragraphs"] or number > count:
        return False
    nth_words = paragraphs[number - 1].split()
    if not nth_words:
        return False
    unquoted_word = nth_words[0].lstrip("'").lstrip('"')
    first_word = re.split("[.,?!'\"]", unquoted_word)[0]
    return bool(first_word.lower() == args["first_word"].lower())


def number_placeholders(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of ``[placeholders]``, each on one line."""
    count = 0
    for line in text.split("\n"):
        # Every part but the last ends with a closing bracket.
        for closed_part in line.split("]")[:-1]:
            if "[" in closed_part:
                count += 1
    return bool(count >= args["num_placeholders"])


def postscript(text: str, args: JsonDict) -> bool:
    """Whether the response contains the marker of a postscript, with its full stops."""
    marker = args["postscript_marker"].strip()
    return re.search(_POSTSCRIPTS.get(marker) or marker.lower(), text.lower()) is not None


def number_bullet_lists(text: str, args: JsonDict) -> bool:
    """Whether there are exactly the given number of bullet points, ``*`` or ``-``.

    A horizontal rule of hyphens counts as a bullet point; a line that begins with ``**bold**`` does not.
    """
    star_bullets = re.findall(r"^[^\S\n]*\*[^*].*$", text, re.MULTILINE)
    hyphen_bullets = re.findall(r"^[^\S\n]*-", text, re.MULTILINE)
    return bool(len(star_bullets) + len(hyphen_bullets) == args["num_bullets"])


def number_highlighted_sections(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of ``*highlighted*`` or ``**highlighted**`` sections.

    ``***this***`` counts as both.
    """
    count = 0
    for section in re.findall(r"\*[^\n*]*\*", text):
        count += bool(section.strip("*").strip())
    for section in re.findall(r"\*\*[^\n*]*\*\*", text):
        count += bool(section[2:-2].strip())
    return bool(count >= args["num_highlights"])


def json_format(text: str, args: JsonDict) -> bool:
    """Whether the whole response is JSON, with or without a code fence."""
    unfenced = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        unfenced = unfenced.removeprefix(opening)
    try:
        json.loads(unfenced.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(text: str, args: JsonDict) -> bool:
    """Whether a line contains a title in ``<<double angular brackets>>``."""
    for line in text.split("\n"):
        opening = line.find("<<")
        closing = line.rfind(">>")
        if 0 <= opening < closing:
            bracketed = line[opening : closing + 2]
            if bracketed.lstrip("<").rstrip(">").strip():
                return True
    return False


def two_responses(text: str, args: JsonDict) -> bool:
    """Whether there are two different responses, separated by six asterisks."""
    parts = [part.strip() for part in text.split("******")]
    inner_parts = parts[1:-1]
    if not all(inner_parts):
        return False
    responses = [part for part in parts if part]
    return len(responses) == 2 and responses[0] != responses[1]


def _language_of(text: str) -> str:
    """Return the ISO 639-1 code of the likeliest language.

    py3langid takes 120 MB of memory and is loaded at the first call.
    """
    return str(optional("py3langid", extra="all").classify(text)[0])


def _is_english(text: str) -> bool:
    """Whether a text is English; a short text is English if all its letters are ASCII."""
    letters = [character for character in text if character.isalpha()]
    if len(letters) < _SHORT_TEXT:
        return all(map(str.isascii, letters))
    return _language_of(text.lower()) == "en"


def english_capital(text: str, args: JsonDict) -> bool:
    """Whether the response is English and has no lower-case letters."""
    return text.isupper() and _is_english(text)


def english_lowercase(text: str, args: JsonDict) -> bool:
    """Whether the response is English and has no capital letters."""
    return text.islower() and _is_english(text)


def repeat_prompt(text: str, args: JsonDict) -> bool:
    """Whether the response begins with the request, word for word."""
    request = args["prompt_to_repeat"].strip().lower()
    return text.strip().lower().startswith(request)


def constrained_response(text: str, args: JsonDict) -> bool:
    """Whether one of the three allowed answers occurs, letter for letter."""
    return any(answer in text for answer in _ANSWERS)


def multiple_sections(text: str, args: JsonDict) -> bool:
    """Whether there are at least the given number of sections that begin with the splitter and a number."""
    splitter = args["section_spliter"].strip()
    section_starts = re.findall(rf"{splitter}\s?\d+", text)
    return bool(len(section_starts) >= args["num_sections"])


def existence(text: str, args: JsonDict) -> bool:
    """Whether every keyword occurs, in any case, also inside a longer word."""
    return all(_keyword_pattern(keyword).search(text) for keyword in args["keywords"])


def forbidden_words(text: str, args: JsonDict) -> bool:
    """Whether none of the words occurs as a word."""
    present_words = [word for word in args["forbidden_words"] if _word_pattern(word).search(text)]
    return not present_words


def response_language(text: str, args: JsonDict) -> bool:
    """Whether the response is in the language; a response without letters is in every language."""
    has_letters = any(map(str.isalpha, text))
    return not has_letters or bool(_language_of(text) == args["language"])


def no_comma(text: str, args: JsonDict) -> bool:
    """Whether the response has no comma."""
    return "," not in text


def end_checker(text: str, args: JsonDict) -> bool:
    """Whether the response ends with the phrase, apart from quotation marks."""
    phrase = args["end_phrase"].strip().lower()
    return text.strip().strip('"').lower().endswith(phrase)


def quotation(text: str, args: JsonDict) -> bool:
    """Whether the whole response is in straight double quotation marks."""
    stripped = text.strip()
    return len(stripped) > 1 and stripped.startswith('"') and stripped.endswith('"')


def _capital_words(text: str, args: JsonDict) -> int:
    return count_capital_words(text)


def _keyword_count(text: str, args: JsonDict) -> int:
    """Count the occurrences of the keyword, in any case."""
    return len(_keyword_pattern(args["keyword"].strip()).findall(text))


def _letter_count(text: str, args: JsonDict) -> int:
    """Count the occurrences of the letter or sign, in any case."""
    return text.lower().count(args["letter"].strip().lower())


def _sentence_count(text: str, args: JsonDict) -> int:
    return count_sentences(text)


def _word_count(text: str, args: JsonDict) -> int:
    return len(re.findall(r"\w+", text))


# The 25 kinds of instruction, each a function of the response and its arguments that follows the verdicts of the
# official checker (instruction_following_eval). Known differences: another library detects languages, so that
# verdicts do not change from run to run, and a text without letters matches every language.
CHECKS: Final[dict[str, Check]] = {
    **named("change_case", english_capital, english_lowercase),
    **named("combination", repeat_prompt, two_responses),
    **named("detectable_content", number_placeholders, postscript),
    **named("detectable_format", constrained_response, json_format, multiple_sections, title),
    **named("detectable_format", number_bullet_lists, number_highlighted_sections),
    **named("keywords", existence, forbidden_words),
    **named("language", response_language),
    **named("length_constraints", nth_paragraph_first_word, number_paragraphs),
    **named("punctuation", no_comma),
    **named("startend", end_checker, quotation),
    # At least, or fewer than, the given number of them.
    "change_case:capital_word_frequency": _counted(
        "capital_frequency", _capital_words, "capital_relation"
    ),
    "keywords:frequency": _counted("frequency", _keyword_count),
    "keywords:letter_frequency": _counted("let_frequency", _letter_count, "let_relation"),
    "length_constraints:number_sentences": _counted("num_sentences", _sentence_count),
    "length_constraints:number_words": _counted("num_words", _word_count),
}


SELF_TEST: Final = SelfTest(mirror_rows=541, has_target=False)


@benchmark(
    "ifeval",
    dataset="hf://google/IFEval?split=train",
    prepare_row=prepare,
    prompt="{prompt}",
    carried=("arguments",),
    summary=summary,
    cluster=Independent("each prompt was written on its own"),
    info=BenchmarkInfo(
        title="IFEval",
        group="instructions",
        size=541,
        scorer="25 instruction checkers (strict; loose beside it)",
        license="Apache-2.0 (hub), CC-BY-4.0 (authors' repository)",
        source="https://huggingface.co/datasets/google/IFEval",
        columns=("key", "prompt", "instruction_id_list", "kwargs"),
        categories="family of the first instruction",
        published=Published(
            protocol=(
                "The prompt as it stands; strict and loose accuracy, by prompt and by "
                "instruction (Zhou et al., 2023)."
            ),
            differs=(
                "Verdicts follow the official checker (on 11,676 stress answers 18 differ). "
                "Known differences: py3langid detects languages, not langdetect, whose "
                "verdicts change from run to run; a sign other than a letter is counted as "
                "asked, where the official checker draws a letter at random; Punkt's trained "
                "table is replaced by short lists, which moves 0.8 % of sentence counts by "
                "one; reasoning blocks are not part of the answer."
            ),
            comparable="yes",
        ),
    ),
)
def ifeval(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
