"""The 25 kinds of instruction in IFEval, each a function of the response and its arguments."""

from __future__ import annotations

import json
import re
from typing import Final

from nemo_evaluator.benchmarks._instructions import Check
from nemo_evaluator.benchmarks._langid import language_of
from nemo_evaluator.benchmarks._prose import bullets, sentences
from nemo_evaluator.core.types import JsonDict

_SHORT_TEXT: Final = 40
_ANSWERS: Final = ("my answer is yes.", "my answer is no.", "my answer is maybe.")


def compare(count: int, relation: str, limit: float) -> bool:
    """``at least`` or ``less than``, the two relations of the data."""
    return count >= limit if relation == "at least" else count < limit


def keywords_exist(text: str, args: JsonDict) -> bool:
    """Every keyword occurs, in any case, also inside a longer word."""
    return all(word.casefold() in text.casefold() for word in args["keywords"])


def keyword_frequency(text: str, args: JsonDict) -> bool:
    """The keyword occurs at least, or fewer than, so many times."""
    count = text.casefold().count(args["keyword"].strip().casefold())
    return compare(count, args["relation"], args["frequency"])


def no_forbidden_words(text: str, args: JsonDict) -> bool:
    """None of the words occurs as a word."""
    return not any(
        re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in args["forbidden_words"]
    )


def letter_frequency(text: str, args: JsonDict) -> bool:
    """The letter (or sign) occurs at least, or fewer than, so many times, in any case."""
    count = text.casefold().count(args["letter"].casefold())
    return compare(count, args["let_relation"], args["let_frequency"])


def response_language(text: str, args: JsonDict) -> bool:
    """The response is in the language."""
    return bool(language_of(text) == args["language"])


def number_sentences(text: str, args: JsonDict) -> bool:
    """At least, or fewer than, so many sentences."""
    return compare(len(sentences(text)), args["relation"], args["num_sentences"])


def number_words(text: str, args: JsonDict) -> bool:
    """At least, or fewer than, so many words."""
    return compare(len(re.findall(r"\w+", text)), args["relation"], args["num_words"])


def number_paragraphs(text: str, args: JsonDict) -> bool:
    """So many paragraphs, separated by the divider ``***``; only the first and last may be empty."""
    parts = [part.strip() for part in re.split(r"\s?\*\*\*\s?", text)]
    inner = parts[1:-1] if len(parts) > 1 else []
    return bool(all(inner) and sum(bool(part) for part in parts) == args["num_paragraphs"])


def nth_paragraph_first_word(text: str, args: JsonDict) -> bool:
    """So many paragraphs between blank lines, and the nth begins with the word."""
    parts = [part.strip() for part in re.split(r"\n\n", text) if part.strip()]
    nth = args["nth_paragraph"]
    if len(parts) != args["num_paragraphs"] or nth > len(parts):
        return False
    first = re.match(r"[^\w]*([\w'’-]+)", parts[nth - 1])
    return first is not None and first[1].casefold() == args["first_word"].casefold()


def number_placeholders(text: str, args: JsonDict) -> bool:
    """At least so many ``[placeholders]``."""
    return bool(len(re.findall(r"\[[^\[\]\n]+\]", text)) >= args["num_placeholders"])


def postscript(text: str, args: JsonDict) -> bool:
    """A postscript that begins with the marker."""
    letters = re.sub(r"[^A-Za-z]", "", args["postscript_marker"])
    pattern = r"\.?\s?".join(letters)
    return re.search(rf"(?:^|\n)[\s*_#>]*{pattern}\b\.?[\s\S]*\S", text, re.IGNORECASE) is not None


def number_bullets(text: str, args: JsonDict) -> bool:
    """Exactly so many bullet points, ``*`` or ``-``."""
    return bool(len(bullets(text)) == args["num_bullets"])


def constrained_response(text: str, args: JsonDict) -> bool:
    """One of the three allowed answers is there."""
    return any(answer in text.casefold() for answer in _ANSWERS)


def number_highlights(text: str, args: JsonDict) -> bool:
    """At least so many ``*highlighted*`` (or ``**highlighted**``) sections."""
    double = re.compile(r"\*\*[^\n*]*[^\s*][^\n*]*\*\*")
    count = len(double.findall(text))
    count += len(re.findall(r"\*[^\n*]*[^\s*][^\n*]*\*", double.sub("", text)))
    return bool(count >= args["num_highlights"])


def multiple_sections(text: str, args: JsonDict) -> bool:
    """At least so many sections that begin with the splitter and a number."""
    pattern = rf"(?:^|[\s#*_]){re.escape(args['section_spliter'])}\s?\d+"
    return bool(len(re.findall(pattern, text)) >= args["num_sections"])


def json_format(text: str, args: JsonDict) -> bool:
    """The whole response is JSON, with or without a code fence."""
    bare = re.sub(r"^```(?:json)?\s*|\s*```$", "", text.strip(), flags=re.IGNORECASE)
    try:
        json.loads(bare)
    except ValueError:
        return False
    return True


def title(text: str, args: JsonDict) -> bool:
    """A title in ``<<double angular brackets>>``."""
    return re.search(r"<<[^\n<>]*[^\s<>][^\n<>]*>>", text) is not None


def two_responses(text: str, args: JsonDict) -> bool:
    """Two different responses, separated by six asterisks."""
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    return len(filled) == 2 and filled[0] != filled[1] and all(parts[1:-1])


def repeat_prompt(text: str, args: JsonDict) -> bool:
    """The request comes first, word for word, then an answer."""
    request = args["prompt_to_repeat"].strip().casefold()
    return text.strip().casefold().startswith(request)


def end_checker(text: str, args: JsonDict) -> bool:
    """The response ends with the phrase and nothing after it."""
    return text.strip().strip('"').casefold().endswith(args["end_phrase"].strip().casefold())


def quotation(text: str, args: JsonDict) -> bool:
    """The whole response stands in double quotation marks."""
    bare = text.strip()
    return len(bare) > 1 and bare[0] in '"“' and bare[-1] in '"”'


def no_comma(text: str, args: JsonDict) -> bool:
    """Not one comma."""
    return "," not in text


def _is_english(text: str) -> bool:
    letters = [sign for sign in text if sign.isalpha()]
    if len(letters) < _SHORT_TEXT:
        return all(sign.isascii() for sign in letters)
    return language_of(text.lower()) == "en"


def english_capital(text: str, args: JsonDict) -> bool:
    """English, all in capital letters."""
    return text.isupper() and _is_english(text)


def english_lowercase(text: str, args: JsonDict) -> bool:
    """English, all in small letters."""
    return text.islower() and _is_english(text)


def capital_word_frequency(text: str, args: JsonDict) -> bool:
    """At least, or fewer than, so many words in capital letters."""
    count = sum(word.isupper() for word in re.findall(r"[\w'’-]+", text))
    return compare(count, args["capital_relation"], args["capital_frequency"])


CHECKS: Final[dict[str, Check]] = {
    "change_case:capital_word_frequency": capital_word_frequency,
    "change_case:english_capital": english_capital,
    "change_case:english_lowercase": english_lowercase,
    "combination:repeat_prompt": repeat_prompt,
    "combination:two_responses": two_responses,
    "detectable_content:number_placeholders": number_placeholders,
    "detectable_content:postscript": postscript,
    "detectable_format:constrained_response": constrained_response,
    "detectable_format:json_format": json_format,
    "detectable_format:multiple_sections": multiple_sections,
    "detectable_format:number_bullet_lists": number_bullets,
    "detectable_format:number_highlighted_sections": number_highlights,
    "detectable_format:title": title,
    "keywords:existence": keywords_exist,
    "keywords:forbidden_words": no_forbidden_words,
    "keywords:frequency": keyword_frequency,
    "keywords:letter_frequency": letter_frequency,
    "language:response_language": response_language,
    "length_constraints:nth_paragraph_first_word": nth_paragraph_first_word,
    "length_constraints:number_paragraphs": number_paragraphs,
    "length_constraints:number_sentences": number_sentences,
    "length_constraints:number_words": number_words,
    "punctuation:no_comma": no_comma,
    "startend:end_checker": end_checker,
    "startend:quotation": quotation,
}
