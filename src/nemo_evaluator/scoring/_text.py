"""Preparing text: reasoning stripped, unicode signs unified, markdown and LaTeX wrappers taken off."""

import re
import unicodedata
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._patterns import pattern

CLOSE: Final = pattern("text.close")
OPEN: Final = pattern("text.open")
CONTROL: Final = lazy_pattern(
    r"<\|(?:begin|end)_of_solution\|>|<\|(?:return|end|im_end|eot_id|message)\|>"
)


def strip_reasoning(text: str) -> str:
    """Return the text after the last reasoning block; an unclosed block is dropped up to the end of the text."""
    if "<" not in text and "THINK]" not in text and "◁" not in text:
        return text
    closings = list(CLOSE.finditer(text))
    if closings:
        last_closing = closings[-1]
        opening = OPEN.search(text)
        text_after = text[last_closing.end() :]
        if text_after.strip():
            text = text_after
        elif opening and opening.start() < last_closing.start():
            # The answer may precede a block that reasons about it.
            text = text[: opening.start()]
        else:
            text = ""
    unclosed = OPEN.search(text)
    if unclosed is not None:
        text = text[: unclosed.start()]
    if "<|" in text:
        return CONTROL.sub("", text)
    return text


_SIGNS: Final[dict[int, str | None]] = {
    **dict.fromkeys(map(ord, "−﹣－‒"), "-"),
    **{
        ord(wide): plain
        for wide, plain in zip("，．：（）＝％／＋＊［］٫٬٪＄￥", ",.:()=%/+*[].,%$¥", strict=True)
    },
    **dict.fromkeys(map(ord, "\u00a0\u202f\u2009\u2007\u2008"), "\u00a0"),
    # Letters of the private use area stand for quotations while a response is read: none may come from outside.
    **dict.fromkeys(range(0xE000, 0xF900), None),
    **dict.fromkeys(
        map(ord, "\u200b\u200c\u200e\u200f\u2060\ufeff\u2066\u2067\u2068\u2069\u061c"), None
    ),
}


def prepare(text: str) -> str:
    """Remove reasoning and hidden characters, and replace signs of other scripts and widths by the plain ones."""
    text = strip_reasoning(text)
    if text.isascii():
        return text
    return text.translate(_SIGNS)


# No honest answer is longer; of one that is, the beginning and the end are read.
_HEAD: Final = 4_000
_TAIL: Final = 16_000
_ECHO: Final = 16
_SHARE: Final = 0.6


_STRUCK: Final = lazy_pattern(r"~~[^~\n]{1,80}~~")
# The line of our prompts that says how to answer, when a response repeats it.
_FORMAT: Final = lazy_pattern(r"[^\n]{0,400}\(without quotes\)[^\n]{0,400}")


def readable(text: str, question: str = "", *, part: bool = True) -> str:
    """The part of a response that scorers read: prepared, bounded, and without the question.

    Args:
        text: The response.
        question: The question; where the response repeats it, that is not an answer.
        part: Whether a response that is a part of the question is empty, too.
    """
    text = strip_reasoning(text)
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    if not text.isascii():
        text = text.translate(_SIGNS)
    if "~~" in text:
        text = _STRUCK.sub("", text)
    if "(without quotes)" in text:
        text = _FORMAT.sub("", text)
    if len(question) < _ECHO or len(text) < _ECHO:
        return text
    if question in text:
        return text.replace(question, "\n")
    is_most_of_it = _SHARE * len(question) <= len(text) <= len(question)
    if part and is_most_of_it and text.strip().rstrip(".… ") in question:
        return ""
    return text


_LATEX_GAPS: Final = lazy_pattern(
    r"\\[,;:! ]|\\q?quad\b|\{,\}|~|\\left\b|\\right\b|\\displaystyle\b"
)
_LATEX_WRAP: Final = pattern("text.latex_wrap")
_FRACTION: Final = lazy_pattern(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_SHORT_FRACTION: Final = lazy_pattern(r"\\[dtc]?frac\s*(\d)\s*(\d)")
_MATH_SIGNS: Final = (
    ("\\$", "$"), ("\\%", "%"), ("\\(", " "), ("\\)", " "), ("\\[", " "), ("\\]", " "), ("\\times", "×"),
    ("\\cdot", "·"), ("\\div", "÷"), ("\\approx", "≈"), ("\\pm", "±"), ("^\\circ", "°"), ("^{\\circ}", "°"),
    ("\\#", "#"), ("\\{", "{"), ("\\}", "}"),
)  # fmt: skip


def _plain_gap(match: re.Match[str]) -> str:
    """What remains of LaTeX spacing: nothing between digits, else a blank."""
    if match[0] == "{,}":
        return ","
    if match[0] in ("\\,", "\\!", "~"):
        return ""
    return " "


def unlatex(text: str, *, boxes: bool = False) -> str:
    """Turn simple LaTeX into plain text: wrappers, gaps and fractions of plain numbers.

    Args:
        text: The text.
        boxes: Keep boxes recognizable.
    """
    if "\\" not in text and "{" not in text:
        return text
    if boxes:
        text = text.replace("\\boxed{", " boxed{").replace("\\fbox{", " boxed{")
    text = _LATEX_GAPS.sub(_plain_gap, text)
    for _ in range(4):
        unwrapped = _LATEX_WRAP.sub(r" \1 ", text)
        if unwrapped == text:
            break
        text = unwrapped
    text = _SHORT_FRACTION.sub(r"\1/\2", _FRACTION.sub(r"\1/\2", text))
    for mark, plain_sign in _MATH_SIGNS:
        text = text.replace(mark, plain_sign)
    return text


_MARKUP: Final = pattern("text.markup")


def unmark(text: str) -> str:
    """Remove markdown signs: bold, italics, code, headings, bullets."""
    return _MARKUP.sub("", text)


_DIACRITICS: Final = lazy_pattern("[\u0300-\u036f]")
_ARTICLES: Final = lazy_pattern(r"\b(?:a|an|the)\b")
_NOT_WORD: Final = lazy_pattern(r"(?<=\d)([.,])(?=\d)|(-)(?=\d)|[^\w\s]|_")


def fold(text: str) -> str:
    """Remove accents; letters keep their case."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", unicodedata.normalize("NFKD", text)))


def normalise(text: str) -> str:
    """Remove case, accents, articles, punctuation and extra spaces; signs inside numbers stay (3.14 is not 314)."""
    text = text.casefold()
    if not text.isascii():
        # The dotless i is what remains of an i in Turkish capitals.
        text = fold(text).replace("ı", "i")
    elif text.isalnum() and len(text) > 3:
        return text
    spaced_words = _NOT_WORD.sub(_keep_number_sign, text)
    without_articles = " ".join(_ARTICLES.sub(" ", spaced_words).split())
    return without_articles or " ".join(spaced_words.split()) or text.strip()


def _keep_number_sign(match: re.Match[str]) -> str:
    """A point inside a number and a minus before one stay; a comma inside a number goes."""
    separator, minus = match.groups()
    if separator:
        return "." if separator == "." else ""
    if minus:
        before = match.string[match.start() - 1] if match.start() else " "
        return " " if before.isalnum() else "-"
    return "" if match[0] in "'’`´" else " "
