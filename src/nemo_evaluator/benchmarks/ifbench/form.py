"""IFBench: checkers of the layout of a response, and of instructions that require one particular answer."""

import csv
import operator
import re
import string
import unicodedata
from datetime import date
from itertools import pairwise
from typing import Final

from nemo_evaluator.benchmarks._instructions import Check, named
from nemo_evaluator.benchmarks._prose import every, in_turn, lower_words, sentences, words
from nemo_evaluator.core.types import JsonDict

_EMOJI: Final = (
    "[\U0001f000-\U0001faff\u2600-\u27bf\u2b05-\u2b55\u231a-\u23ff\u2190-\u21ff\u3030\u303d\u3297\u3299\u00a9\u00ae"
    "\u203c\u2049\u2122\u2139][\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U0001f000-\U0001faff\u2600-\u27bf]*"
)
_SENTENCE: Final = re.compile(
    rf"(?P<body>[^.!?\n]+)(?P<end>[.!?]+[\"'”’)\]*]*|\n|$)[ \t]*(?P<emoji>{_EMOJI})?"
)
_ENDS_IN_EMOJI: Final = re.compile(rf"{_EMOJI}\s*[\"'”’)\]*]*\s*$")
_MINOR: Final = frozenset(
    ("a", "an", "the", "and", "but", "or", "nor", "for", "so", "yet", "as", "at", "by", "in", "of", "off", "on", "per",
     "to", "up", "via", "with", "from", "into", "onto", "over", "than", "that", "if", "vs", "is", "it", "its")
)  # fmt: skip
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_DEPTH: Final = 5
_QUOTES: Final = 3
# A quotation mark; the apostrophe inside a word is not one.
_QUOTE_SIGN: Final = re.compile(r"\"|(?<![^\W_])'|'(?![^\W_])")
_CAPITALS: Final = (
    "reykjavik", "helsinki", "oslo", "tallinn", "stockholm", "riga", "moscow", "copenhagen", "vilnius", "minsk",
    "dublin", "berlin", "amsterdam", "warsaw", "london", "brussels", "kyiv", "prague", "luxembourg", "paris", "vienna",
    "bratislava", "budapest", "vaduz", "chisinau", "bern", "ljubljana", "zagreb",
)  # fmt: skip
_SPELLINGS: Final = {"kiev": "kyiv", "luxembourg city": "luxembourg", "berne": "bern"}
_FEWEST_COUNTRIES: Final = 50
_FEWEST_DATES: Final = 5
# Lengths in characters: the end of a sentence that is searched for an emoji, and the longest name and number.
_TAIL: Final = 100
_LONGEST_NAME: Final = 200
_LONGEST_NUMBER: Final = 20
_MULTIPLES: Final = [14, 21, 28, 35, 42, 49]


def emoji(text: str, args: JsonDict) -> bool:
    """Whether every sentence ends in an emoji, before or after its full stop."""
    # The point of a decimal number does not end a sentence.
    undotted = re.sub(r"(?<=\d)\.(?=\d)", "·", text)
    worded_sentences = [
        sentence for sentence in _SENTENCE.finditer(undotted) if re.search(r"\w", sentence["body"])
    ]
    return every(worded_sentences, _ends_in_emoji)


def _ends_in_emoji(sentence: re.Match[str]) -> bool:
    if sentence["emoji"]:
        return True
    return _ENDS_IN_EMOJI.search(sentence["body"][-_TAIL:]) is not None


def line_indent(text: str, args: JsonDict) -> bool:
    """Whether every line is indented further than the one before."""
    indents: list[int] = []
    for line in text.strip("\n").split("\n"):
        if line.strip():
            expanded = line.expandtabs(4)
            indents.append(len(expanded) - len(expanded.lstrip()))
    return in_turn(indents, operator.lt)


def _filled_lines(text: str) -> list[str]:
    """Return the lines that are not blank, without the spaces around them."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def listed(text: str, args: JsonDict) -> bool:
    """Whether at least two items begin with the separator and there are no other bullets."""
    separator = args["sep"]
    item_count = 0
    for line in _filled_lines(text):
        if line.startswith(separator):
            item_count += bool(line[len(separator) :].strip())
        elif re.match(r"(?:[*•+-]|\d+[.)])\s", line):
            return False
    return item_count >= 2


def newline(text: str, args: JsonDict) -> bool:
    """Whether every line has exactly one word, and there are at least two lines."""
    lines = _filled_lines(text)
    words_per_line = [len(line.split()) for line in lines]
    return len(lines) > 1 and set(words_per_line) == {1}


def no_bullets_bullets(text: str, args: JsonDict) -> bool:
    """Whether at least two sentences with full stops precede at least two bullet points."""
    lines = text.split("\n")
    bullet_lines: list[int] = []
    for number, line in enumerate(lines):
        if re.match(r"\s*\*(?!\*)\s*\S", line):
            bullet_lines.append(number)
    if len(bullet_lines) < 2:
        return False
    opening_text = "\n".join(lines[: bullet_lines[0]])
    full_stop_count = 0
    for sentence in sentences(opening_text):
        if sentence.rstrip("*_ ").endswith("."):
            full_stop_count += 1
    return full_stop_count >= 2


def options(text: str, args: JsonDict) -> bool:
    """Whether the response is exactly one of the options."""
    option_texts = re.split(r"/|\s+or\s+|,\s*", args["options"])
    option_labels = [option.strip().casefold().rstrip(")") for option in option_texts]
    one_line = " ".join(text.split()).casefold()
    # The parenthesis of a label such as "a)".
    answer = one_line.strip(" .!\"'*").rstrip(")").replace("’", "'")
    return answer in option_labels


def output_template(text: str, args: JsonDict) -> bool:
    """Whether the three labels of the template occur in order, each followed by a text."""
    first_label = re.match(r"[\s*]*My Answer:", text)
    if first_label is None:
        return False
    # Every section has at least one character.
    conclusion = text.find("My Conclusion:", first_label.end() + 1)
    outlook = text.find("Future Outlook:", conclusion + len("My Conclusion:") + 1)
    if min(conclusion, outlook) < 0:
        return False
    section_texts = (
        text[first_label.end() : conclusion],
        text[conclusion + len("My Conclusion:") : outlook],
        text[outlook + len("Future Outlook:") :],
    )
    return all(re.search(r"\w", section_text) for section_text in section_texts)


def parentheses(text: str, args: JsonDict) -> bool:
    """Whether brackets of any kind are nested at least five deep, each closed by its own kind."""
    open_brackets: list[str] = []
    greatest_depth = 0
    for character in text:
        if character in "([{":
            open_brackets.append(character)
        elif character in _PAIRS:
            if open_brackets and open_brackets[-1] == _PAIRS[character]:
                greatest_depth = max(greatest_depth, len(open_brackets))
                open_brackets.pop()
            else:
                open_brackets.clear()
    return greatest_depth >= _DEPTH


def quote_unquote(text: str, args: JsonDict) -> bool:
    """Whether there is a quoted phrase and unquoted words follow every quoted phrase."""
    # Text outside and inside quotes, in turn.
    parts = re.split(r'["“”]', text)
    all_closed = len(parts) % 2 == 1
    return all_closed and every(parts[2::2], words)


def quotes(text: str, args: JsonDict) -> bool:
    """Whether quotes are nested at least three deep, double and single ones in turn."""
    straightened = text.translate(str.maketrans("“”‘’", "\"\"''"))
    open_quotes: list[str] = []
    greatest_depth = 0
    for quote in _QUOTE_SIGN.findall(straightened):
        if open_quotes and open_quotes[-1] == quote:
            greatest_depth = max(greatest_depth, len(open_quotes))
            open_quotes.pop()
        else:
            open_quotes.append(quote)
    return greatest_depth >= _QUOTES


def sub_bullets(text: str, args: JsonDict) -> bool:
    """Whether there are ``*`` bullets and each is followed by at least one ``-`` bullet."""
    bullets: list[str] = []
    for line in text.split("\n"):
        bullet_match = re.match(r"\s*(\*(?!\*)|-)\s*\S", line)
        if bullet_match:
            bullets.append(bullet_match[1])
    if not bullets or bullets[0] != "*" or bullets[-1] != "-":
        return False
    return all("-" in pair for pair in pairwise(bullets))


def thesis(text: str, args: JsonDict) -> bool:
    """Whether every section begins with HTML italics.

    A section is the text after a heading; without headings, the whole text is one section.
    """
    heading = r"(?m)^[^\S\n]*(?:#{1,6}\s.*|<h[1-6]>.*</h[1-6]>|\*\*[^*\n]+\*\*[^\S\n]*)$"
    section_texts = [section_text.strip() for section_text in re.split(heading, text)]
    sections = [section_text for section_text in section_texts if section_text]
    italics = re.compile(r"(?:<p>\s*)?<(i|em)\b[^>]*>\s*\S.*?</\1>", re.DOTALL | re.IGNORECASE)
    return every(sections, italics.match)


def title_case(text: str, args: JsonDict) -> bool:
    """Whether every major word begins with a capital letter."""
    text_words = words(text)
    major_words = text_words[:1]
    for word in text_words[1:]:
        if word.casefold() not in _MINOR:
            major_words.append(word)
    return every(major_words, _is_capitalised)


def _is_capitalised(word: str) -> bool:
    """Whether a word begins with a capital letter, or with a sign that is not a letter."""
    return word[0].isupper() or not word[0].isalpha()


def _plain(text: str) -> str:
    """Normalise a name: lower case, without accents and without punctuation around it."""
    if len(text) > _LONGEST_NAME:
        # Too long for a name, and the normalisation takes time quadratic in the length.
        return text
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    unaccented = [character for character in decomposed if not unicodedata.combining(character)]
    return "".join(unaccented).strip(" .*-`\"'")


def _table(text: str, delimiter: str) -> list[list[str]]:
    """Parse the rows of a table; empty if the text is not a table."""
    try:
        rows = list(csv.reader(_unfenced(text).splitlines(), delimiter=delimiter))
    except csv.Error:
        return []
    return [row for row in rows if row]


def _is_table(table: list[list[str]], header: list[str], rows: int) -> bool:
    """Whether a table has the header, the given number of further rows and no empty cells."""
    if len(table) != rows + 1:
        return False
    first_row = [cell.strip() for cell in table[0]]
    if first_row != header:
        return False
    for row in table:
        cells = [cell.strip() for cell in row]
        if len(cells) != len(header) or "" in cells:
            return False
    return True


def csv_special_character(text: str, args: JsonDict) -> bool:
    """Whether the response is the requested table of 14 rows with a special character in a quoted field."""
    header = ["ProductID", "Category", "Brand", "Price", "Stock"]
    if not _is_table(_table(text, ","), header, 14):
        return False
    quoted_fields = re.findall(r'(?:^|,)"([^"\n]+)"(?=,|\s*$)', text, re.MULTILINE)
    return any(re.search(r"[^\w\s]", field) for field in quoted_fields)


def csv_quotes(text: str, args: JsonDict) -> bool:
    """Whether the response is the requested tab-delimited table of three rows with every field in double quotes."""
    header = ["StudentID", "Subject", "Grade", "Semester", "Score"]
    for line in _unfenced(text).splitlines():
        if not line.strip():
            continue
        for field in line.split("\t"):
            if not re.fullmatch(r'"[^"]*"', field.strip(" ")):
                return False
    return _is_table(_table(text, "\t"), header, 3)


def _unfenced(text: str) -> str:
    """Remove the code fence around a text."""
    return re.sub(r"^```\w*\s*\n|\n?```$", "", text.strip())


def date_format_list(text: str, args: JsonDict) -> bool:
    """Whether the response consists of at least five dates as YYYY-MM-DD, separated by commas."""
    parts = text.strip().rstrip(".").split(",")
    if len(parts) < _FEWEST_DATES:
        return False
    return all(_is_date(part.strip()) for part in parts)


def _is_date(part: str) -> bool:
    """Whether a text is a valid date in the form YYYY-MM-DD."""
    try:
        date.fromisoformat(part)
    except ValueError:
        return False
    return re.fullmatch(r"\d{4}-\d\d-\d\d", part) is not None


def mcq_count_length(text: str, args: JsonDict) -> bool:
    """Whether there are four labelled questions with five options each, every question longer than the one before."""
    blocks = re.split(r"(?m)^(?:[^\S\n]|[*#_])*Question\b", text)
    if len(blocks) != 5 or blocks[0].strip():
        return False
    stem_lengths: list[int] = []
    for numbered_block in blocks[1:]:
        block = re.sub(r"^\s*\d*\s*[:.)]?", "", numbered_block)
        options = re.findall(r"(?m)^(?:[^\S\n]|[*-])*\(?[A-Ea-e1-5][.):]\s*\S", block)
        if len(options) != 5:
            return False
        stem = re.split(r"(?m)^(?:[^\S\n]|[*-])*\(?[Aa1][.):]\s", block)[0]
        stem_lengths.append(len(stem.strip()))
    return in_turn(stem_lengths, operator.lt)


def reverse_newline(text: str, args: JsonDict) -> bool:
    """Whether the response lists at least 50 names, one per line in reverse alphabetical order, with Zimbabwe."""
    country_names: list[str] = []
    for line in text.strip().splitlines():
        if line.strip():
            without_bullet = re.sub(r"^\s*(?:\d+[.)]|[*-])\s*", "", line)
            country_names.append(_plain(without_bullet))
    if len(country_names) < _FEWEST_COUNTRIES or "zimbabwe" not in country_names:
        return False
    return country_names == sorted(country_names, reverse=True)


def multiples(text: str, args: JsonDict) -> bool:
    """Whether the numbers in the response are exactly the multiples of seven from 10 to 50, in order."""
    number_texts = re.findall(r"\d+", text)
    if len(number_texts) != len(_MULTIPLES) or max(map(len, number_texts)) > _LONGEST_NUMBER:
        return False
    return [int(number) for number in number_texts] == _MULTIPLES


def word_reverse(text: str, args: JsonDict) -> bool:
    """Whether the response contains the answer, the bald eagle, with its words in reverse order."""
    answer_words = lower_words(text)
    forwards = " ".join(answer_words)
    backwards = " ".join(reversed(answer_words))
    return "bald eagle" in backwards and "bald eagle" not in forwards


def no_whitespace(text: str, args: JsonDict) -> bool:
    """Whether there is no space or line break inside the response."""
    return re.search(r"\s", text.strip()) is None


def character_reverse(text: str, args: JsonDict) -> bool:
    """Whether the response contains the answer, the bald eagle, spelled backwards."""
    return "bald eagle" in text[::-1].casefold() and "eagle" not in text.casefold()


def csv_city(text: str, args: JsonDict) -> bool:
    """Whether the response is a table with a header of five names and seven rows."""
    header = ["ID", "Country", "City", "Year", "Count"]
    return _is_table(_table(text, ","), header, 7)


def european_capitals_sort(text: str, args: JsonDict) -> bool:
    """Whether the response lists the capitals north of 45 degrees, from north to south, separated by commas."""
    capitals: list[str] = []
    for part in text.strip().split(","):
        name = _plain(part)
        capitals.append(_SPELLINGS.get(name, name))
    return tuple(capitals) == _CAPITALS


def sentence_alphabet(text: str, args: JsonDict) -> bool:
    """Whether there are twenty-six sentences that begin with A to Z in order."""
    initials = [words(sentence)[0][0].lower() for sentence in sentences(text)]
    return "".join(initials) == string.ascii_lowercase


CHECKS: Final[dict[str, Check]] = {
    # These two names are not names of functions in Python.
    "format:list": listed,
    "format:sub-bullets": sub_bullets,
    **named("format", emoji, line_indent, newline, no_bullets_bullets, no_whitespace),
    **named("format", options, output_template, parentheses, quote_unquote, quotes),
    **named("format", thesis, title_case),
    **named("custom", character_reverse, csv_city, csv_quotes, csv_special_character),
    **named("custom", date_format_list, european_capitals_sort, mcq_count_length, multiples),
    **named("custom", reverse_newline, sentence_alphabet, word_reverse),
}
