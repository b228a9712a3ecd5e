"""IFBench: how the response is laid out; and instructions that occur once, each with its own answer form."""

import csv
import operator
import re
import string
import unicodedata
from datetime import date
from typing import Any, Final

from nemo_evaluator.benchmarks._instructions import Check, named
from nemo_evaluator.benchmarks._prose import in_turn, lower_words, sentences, words
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
_CAPITALS: Final = (
    "reykjavik", "helsinki", "oslo", "tallinn", "stockholm", "riga", "moscow", "copenhagen", "vilnius", "minsk",
    "dublin", "berlin", "amsterdam", "warsaw", "london", "brussels", "kyiv", "prague", "luxembourg", "paris", "vienna",
    "bratislava", "budapest", "vaduz", "chisinau", "bern", "ljubljana", "zagreb",
)  # fmt: skip
_SPELLINGS: Final = {"kiev": "kyiv", "luxembourg city": "luxembourg", "berne": "bern"}
_FEWEST_COUNTRIES: Final = 50
_FEWEST_DATES: Final = 5
# Characters at the end of a sentence among which its emoji is; and those of the longest name and number in a list.
_TAIL: Final = 100
_LONGEST_NAME: Final = 200
_LONGEST_NUMBER: Final = 20
_MULTIPLES: Final = [14, 21, 28, 35, 42, 49]


def emoji(text: str, args: JsonDict) -> bool:
    """An emoji at the end of every sentence, before or after its full stop."""
    plain = re.sub(r"(?<=\d)\.(?=\d)", "·", text)
    ends = [found for found in _SENTENCE.finditer(plain) if re.search(r"\w", found["body"])]
    return bool(ends) and all(
        found["emoji"] or _ENDS_IN_EMOJI.search(found["body"][-_TAIL:]) for found in ends
    )


def line_indent(text: str, args: JsonDict) -> bool:
    """Every line is indented further than the one before."""
    lines = (line.expandtabs(4) for line in text.strip("\n").split("\n") if line.strip())
    return in_turn((len(line) - len(line.lstrip()) for line in lines), operator.lt)


def listed(text: str, args: JsonDict) -> bool:
    """At least two items that begin with the separator, and no other bullets."""
    sep = args["sep"]
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    items = [line for line in lines if line.startswith(sep) and line[len(sep) :].strip()]
    others = [
        line
        for line in lines
        if not line.startswith(sep) and re.match(r"(?:[*•+-]|\d+[.)])\s", line)
    ]
    return len(items) >= 2 and not others


def newline(text: str, args: JsonDict) -> bool:
    """One word a line."""
    lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
    return len(lines) > 1 and all(len(line.split()) == 1 for line in lines)


def no_bullets_bullets(text: str, args: JsonDict) -> bool:
    """Two sentences with full stops, then two bullet points."""
    lines = text.split("\n")
    starts: list[int] = []
    for number, line in enumerate(lines):
        if re.match(r"\s*\*(?!\*)\s*\S", line):
            starts.append(number)
    if len(starts) > 1:
        before = sentences("\n".join(lines[: starts[0]]))
    else:
        before = []
    return sum(sentence.rstrip("*_ ").endswith(".") for sentence in before) >= 2


def options(text: str, args: JsonDict) -> bool:
    """Exactly one of the options and nothing else."""
    offered = re.split(r"/|\s+or\s+|,\s*", args["options"])
    said = " ".join(text.split()).casefold().strip(" .!\"'*").rstrip(")").replace("’", "'")
    return said in {option.strip().casefold().rstrip(")") for option in offered}


def output_template(text: str, args: JsonDict) -> bool:
    """The three labels of the template in order, each with something after it."""
    begin = re.match(r"[\s*]*My Answer:", text)
    if begin is None:
        return False
    # Each part has a character at least.
    conclusion = text.find("My Conclusion:", begin.end() + 1)
    outlook = text.find("Future Outlook:", conclusion + len("My Conclusion:") + 1)
    if min(conclusion, outlook) < 0:
        return False
    parts = (
        text[begin.end() : conclusion],
        text[conclusion + len("My Conclusion:") : outlook],
        text[outlook + len("Future Outlook:") :],
    )
    return all(re.search(r"\w", part) for part in parts)


def parentheses(text: str, args: JsonDict) -> bool:
    """Brackets of any kind nested at least five deep, each closed by its own kind."""
    stack: list[str] = []
    deepest = 0
    for sign in text:
        if sign in "([{":
            stack.append(sign)
        elif sign in _PAIRS:
            if stack and stack[-1] == _PAIRS[sign]:
                deepest = max(deepest, len(stack))
                stack.pop()
            else:
                stack.clear()
    return deepest >= _DEPTH


def quote_unquote(text: str, args: JsonDict) -> bool:
    """After every quoted phrase come unquoted words."""
    parts = re.split(r'["“”]', text)
    quoted = len(parts) // 2
    return (
        quoted > 0 and len(parts) % 2 == 1 and all(words(parts[2 * n + 2]) for n in range(quoted))
    )


def quotes(text: str, args: JsonDict) -> bool:
    """Quotes within quotes within quotes, double and single in turn."""
    plain = text.translate(str.maketrans("“”‘’", "\"\"''"))
    stack: list[str] = []
    deepest = 0
    for at, sign in enumerate(plain):
        if sign not in "\"'":
            continue
        before = plain[at - 1] if at else " "
        if at + 1 < len(plain):
            after = plain[at + 1]
        else:
            after = " "
        if sign == "'" and before.isalnum() and after.isalnum():
            continue
        if stack and stack[-1] == sign:
            deepest = max(deepest, len(stack))
            stack.pop()
        else:
            stack.append(sign)
    return deepest >= _QUOTES


def sub_bullets(text: str, args: JsonDict) -> bool:
    """Under every ``*`` bullet at least one ``-`` bullet."""
    marks: list[str | Any] = []
    for line in text.split("\n"):
        found = re.match(r"\s*(\*(?!\*)|-)\s*\S", line)
        if found:
            marks.append(found[1])
    return marks[:1] == ["*"] and all(
        mark == "-" or marks[at + 1 : at + 2] == ["-"] for at, mark in enumerate(marks)
    )


def thesis(text: str, args: JsonDict) -> bool:
    """Every section (what follows a heading; without headings, the whole) begins with HTML italics."""
    heading = r"(?m)^[^\S\n]*(?:#{1,6}\s.*|<h[1-6]>.*</h[1-6]>|\*\*[^*\n]+\*\*[^\S\n]*)$"
    sections = [part.strip() for part in re.split(heading, text) if part.strip()]
    italics = re.compile(r"(?:<p>\s*)?<(i|em)\b[^>]*>\s*\S.*?</\1>", re.DOTALL | re.IGNORECASE)
    return bool(sections) and all(italics.match(section) for section in sections)


def title_case(text: str, args: JsonDict) -> bool:
    """Every major word begins with a capital letter."""
    said = words(text)
    major = [word for at, word in enumerate(said) if at == 0 or word.casefold() not in _MINOR]
    return bool(said) and all(word[0].isupper() or not word[0].isalpha() for word in major)


def _plain(text: str) -> str:
    if len(text) > _LONGEST_NAME:
        # This is not a name, and Python takes time with the square of its length.
        return text
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in folded if not unicodedata.combining(sign)).strip(" .*-`\"'")


def _table(text: str, delimiter: str) -> list[list[str]]:
    """The rows of a table; empty where the text is not a table."""
    bare = re.sub(r"^```\w*\s*\n|\n?```$", "", text.strip())
    try:
        return [row for row in csv.reader(bare.splitlines(), delimiter=delimiter) if row]
    except csv.Error:
        return []


def _is_table(table: list[list[str]], header: list[str], rows: int) -> bool:
    return (
        len(table) == rows + 1
        and [cell.strip() for cell in table[0]] == header
        and all(len(row) == len(header) and all(cell.strip() for cell in row) for row in table)
    )


def csv_special_character(text: str, args: JsonDict) -> bool:
    """Fourteen rows, and a quoted field with a special character."""
    header = ["ProductID", "Category", "Brand", "Price", "Stock"]
    quoted = re.findall(r'(?:^|,)"([^"\n]+)"(?=,|\s*$)', text, re.MULTILINE)
    return _is_table(_table(text, ","), header, 14) and any(
        re.search(r"[^\w\s]", field) for field in quoted
    )


def csv_quotes(text: str, args: JsonDict) -> bool:
    """Tab-delimited, three rows, every field in double quotes."""
    header = ["StudentID", "Subject", "Grade", "Semester", "Score"]
    lines: list[str] = []
    for line in re.sub(r"^```\w*\s*\n|\n?```$", "", text.strip()).splitlines():
        if line.strip():
            lines.append(line)
    quoted = all(
        re.fullmatch(r'"[^"]*"', field.strip(" ")) for line in lines for field in line.split("\t")
    )
    return quoted and _is_table(_table(text, "\t"), header, 3)


def date_format_list(text: str, args: JsonDict) -> bool:
    """Dates as YYYY-MM-DD, separated by commas, and nothing else."""
    listed = [part.strip() for part in text.strip().rstrip(".").split(",")]
    return len(listed) >= _FEWEST_DATES and all(_is_date(part) for part in listed)


def _is_date(part: str) -> bool:
    try:
        date.fromisoformat(part)
    except ValueError:
        return False
    return re.fullmatch(r"\d{4}-\d\d-\d\d", part) is not None


def mcq_count_length(text: str, args: JsonDict) -> bool:
    """Four questions that begin with the label, five options each, each question longer than the one before."""
    blocks = re.split(r"(?m)^(?:[^\S\n]|[*#_])*Question\b", text)
    if len(blocks) != 5 or blocks[0].strip():
        return False
    stems = []
    for numbered in blocks[1:]:
        block = re.sub(r"^\s*\d*\s*[:.)]?", "", numbered)
        options = re.findall(r"(?m)^(?:[^\S\n]|[*-])*\(?[A-Ea-e1-5][.):]\s*\S", block)
        if len(options) != 5:
            return False
        stems.append(len(re.split(r"(?m)^(?:[^\S\n]|[*-])*\(?[Aa1][.):]\s", block)[0].strip()))
    return in_turn(stems, operator.lt)


def reverse_newline(text: str, args: JsonDict) -> bool:
    """African countries one a line, in reverse alphabetical order."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.strip():
            lines.append(_plain(re.sub(r"^\s*(?:\d+[.)]|[*-])\s*", "", line)))
    return (
        len(lines) >= _FEWEST_COUNTRIES
        and lines == sorted(lines, reverse=True)
        and "zimbabwe" in lines
    )


def multiples(text: str, args: JsonDict) -> bool:
    """The multiples of seven from 10 to 50 and no other number."""
    listed = re.findall(r"\d+", text)
    if len(listed) != len(_MULTIPLES) or max(map(len, listed)) > _LONGEST_NUMBER:
        return False
    return [int(number) for number in listed] == _MULTIPLES


def word_reverse(text: str, args: JsonDict) -> bool:
    """The answer (the bald eagle) in reverse order of words."""
    said = lower_words(text)
    return "bald eagle" in " ".join(reversed(said)) and "bald eagle" not in " ".join(said)


CHECKS: Final[dict[str, Check]] = {
    **named(
        "format",
        emoji,
        line_indent,
        newline,
        no_bullets_bullets,
        options,
        output_template,
        parentheses,
    ),
    **named("format", quote_unquote, quotes, thesis, title_case),
    **{"format:list": listed, "format:sub-bullets": sub_bullets},
    "format:no_whitespace": lambda text, args: re.search(r"\s", text.strip()) is None,
    **named(
        "custom",
        csv_quotes,
        csv_special_character,
        date_format_list,
        mcq_count_length,
        reverse_newline,
    ),
    **named("custom", multiples, word_reverse),
    # The answer (the bald eagle) spelled backwards.
    "custom:character_reverse": lambda text, args: (
        "bald eagle" in text[::-1].casefold() and "eagle" not in text.casefold()
    ),
    # A header of five names and seven rows.
    "custom:csv_city": lambda text, args: _is_table(
        _table(text, ","), ["ID", "Country", "City", "Year", "Count"], 7
    ),
    # The capitals north of 45 degrees, from north to south, separated by commas.
    "custom:european_capitals_sort": lambda text, args: (
        tuple(_SPELLINGS.get(name, name) for name in map(_plain, text.strip().split(",")))
        == _CAPITALS
    ),
    # Twenty-six sentences that begin with A to Z in order.
    "custom:sentence_alphabet": lambda text, args: (
        "".join(words(sentence)[0][0].lower() for sentence in sentences(text))
        == string.ascii_lowercase
    ),
}
