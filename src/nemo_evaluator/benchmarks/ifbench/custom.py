"""IFBench: instructions that occur once, each with its own answer form."""

import csv
import itertools
import re
import string
import unicodedata
from datetime import date
from typing import Final

from nemo_evaluator.benchmarks._instructions import Check, named
from nemo_evaluator.benchmarks._prose import lower_words, sentences, words
from nemo_evaluator.core.types import JsonDict

_CAPITALS: Final = (
    "reykjavik", "helsinki", "oslo", "tallinn", "stockholm", "riga", "moscow", "copenhagen", "vilnius", "minsk",
    "dublin", "berlin", "amsterdam", "warsaw", "london", "brussels", "kyiv", "prague", "luxembourg", "paris", "vienna",
    "bratislava", "budapest", "vaduz", "chisinau", "bern", "ljubljana", "zagreb",
)  # fmt: skip
_SPELLINGS: Final = {"kiev": "kyiv", "luxembourg city": "luxembourg", "berne": "bern"}
_FEWEST_COUNTRIES: Final = 50
_FEWEST_DATES: Final = 5


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in folded if not unicodedata.combining(sign)).strip(" .*-`\"'")


def _table(text: str, delimiter: str) -> list[list[str]]:
    bare = re.sub(r"^```\w*\s*\n|\n?```$", "", text.strip())
    return [row for row in csv.reader(bare.splitlines(), delimiter=delimiter) if row]


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
    return _is_table(_table(text, ","), header, 14) and any(re.search(r"[^\w\s]", field) for field in quoted)


def csv_quotes(text: str, args: JsonDict) -> bool:
    """Tab-delimited, three rows, every field in double quotes."""
    header = ["StudentID", "Subject", "Grade", "Semester", "Score"]
    lines = [line for line in re.sub(r"^```\w*\s*\n|\n?```$", "", text.strip()).splitlines() if line.strip()]
    quoted = all(re.fullmatch(r'"[^"]*"', field.strip(" ")) for line in lines for field in line.split("\t"))
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


def european_capitals_sort(text: str, args: JsonDict) -> bool:
    """The capitals north of 45 degrees, from north to south, separated by commas."""
    listed = [_plain(part) for part in text.strip().split(",")]
    return tuple(_SPELLINGS.get(name, name) for name in listed) == _CAPITALS


def mcq_count_length(text: str, args: JsonDict) -> bool:
    """Four questions that begin with the label, five options each, each question longer than the one before."""
    blocks = re.split(r"(?m)^[\s*#_]*Question\b", text)
    if len(blocks) != 5 or blocks[0].strip():
        return False
    stems = []
    for numbered in blocks[1:]:
        block = re.sub(r"^\s*\d*\s*[:.)]?", "", numbered)
        options = re.findall(r"(?m)^[\s*-]*\(?[A-Ea-e1-5][.):]\s*\S", block)
        if len(options) != 5:
            return False
        stems.append(len(re.split(r"(?m)^[\s*-]*\(?[Aa1][.):]\s", block)[0].strip()))
    return all(shorter < longer for shorter, longer in itertools.pairwise(stems))


def reverse_newline(text: str, args: JsonDict) -> bool:
    """African countries one a line, in reverse alphabetical order."""
    lines = [_plain(re.sub(r"^\s*(?:\d+[.)]|[*-])\s*", "", line)) for line in text.strip().splitlines() if line.strip()]
    return len(lines) >= _FEWEST_COUNTRIES and lines == sorted(lines, reverse=True) and "zimbabwe" in lines


def sentence_alphabet(text: str, args: JsonDict) -> bool:
    """Twenty-six sentences that begin with A to Z in order."""
    initials = "".join(words(sentence)[0][0].lower() for sentence in sentences(text))
    return initials == string.ascii_lowercase


def word_reverse(text: str, args: JsonDict) -> bool:
    """The answer (the bald eagle) in reverse order of words."""
    said = lower_words(text)
    return "bald eagle" in " ".join(reversed(said)) and "bald eagle" not in " ".join(said)


CHECKS: Final[dict[str, Check]] = {
    **named("custom", csv_quotes, csv_special_character, date_format_list, european_capitals_sort, mcq_count_length),
    **named("custom", reverse_newline, sentence_alphabet, word_reverse),
    # The answer (the bald eagle) spelled backwards.
    "custom:character_reverse": lambda text, args: (
        "bald eagle" in text[::-1].casefold() and "eagle" not in text.casefold()
    ),
    # A header of five names and seven rows.
    "custom:csv_city": lambda text, args: _is_table(_table(text, ","), ["ID", "Country", "City", "Year", "Count"], 7),
    # The multiples of seven from 10 to 50 and no other number.
    "custom:multiples": lambda text, args: list(map(int, re.findall(r"\d+", text))) == [14, 21, 28, 35, 42, 49],
}
