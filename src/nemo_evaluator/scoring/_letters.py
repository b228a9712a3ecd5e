"""The letters (or digits) of options in a clause: named, asserted, alone, or by the text of the option."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import lowered
from nemo_evaluator.scoring._clauses import NamedValues
from nemo_evaluator.scoring._labels import patterns_of
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._text import normalise, prepare, unlatex, unmark

_LOOKALIKES: Final = str.maketrans(
    "АВСЕНΑΒΕΗＡＢＣＤＥＦＧＨＩＪａｂｃｄｅ１２３４５", "ABCEHABEHABCDEFGHIJabcde12345"
)
# "Answer: A dog", "Answer: I think ...": words, not letters.
_AFTER_I: Final = pattern("pick.after_i")
_CONNECTIVE: Final = pattern("pick.connective")
# Options that differ more in length from a text are not compared with it.
_SLACK: Final = 8
_SHORTEST_QUOTATION: Final = 4
_LABEL_WINDOW: Final = 5
_LONGEST_LOWER_CASE: Final = 5
_CLOSING_SIGNS: Final = "*_`~\"'”’)]}>$.,:;!|\\。"
# What may stand between a label and what follows it.
CLOSERS: Final = _CLOSING_SIGNS + " \t\n"
_LOWER_WORD: Final = lazy_pattern(r"\s+[a-z]+(?:-[a-z]+)*\s+\w")
_STRANGE: Final = lazy_pattern(r"[\s*_`~\"'“‘$({\[<]*([A-Z])[*_`~\"'”’)\]}>$.,:;!\s]*")
_LATEX: Final = lazy_pattern(
    r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:rm|bf|sf|it|bb|tt)|mbox|boxed|[,;:! ()\[\]])|[{}$]"
)


class Letters:
    """Finds labels in clauses (see Reader).

    Attributes:
        patterns: The expressions for the offered labels.
        options: The texts of the options by label, if the problem has them.
    """

    def __init__(self, labels: str, options: Mapping[str, str] | None) -> None:
        self.patterns = patterns_of(labels)
        self.options = options or {}

    def read(self, clause: str, *, cued: bool) -> NamedValues[str] | None:
        """Find the labels of a clause.

        Args:
            clause: The text of the clause.
            cued: Whether it follows an announcement. If not, only an assertion counts ("I choose B").

        Returns:
            The labels, or None.
        """
        text = _without_latex(clause)
        match = self.patterns.opening.match(text)
        if match is not None:
            named_values = self._opening_label(clause, match, cued)
            if named_values is not None:
                return named_values
        if not cued:
            return self._asserted(text)
        label = self.by_text(clause)
        if label is not None:
            option = lowered(self.options.get(label, "")).strip()
            start = lowered(clause).find(option)
            return NamedValues((label,), max(0, start), len(clause))
        return self._asserted(text) or self._alone(text)

    def weak(self, line: str) -> NamedValues[str] | None:
        """The label of a line that consists of a label alone."""
        match = self.patterns.opening.match(line)
        if match is None or line[match.end() :].strip(CLOSERS):
            return None
        if match[1].islower() and len(line) > _LONGEST_LOWER_CASE:
            return None
        return NamedValues((self.label(match[1]),), 0, len(line), bare=True)

    def label(self, sign: str) -> str:
        """The label that a letter of the text stands for, which may be the token of a masked option."""
        return self.patterns.tokens.get(sign) or sign.upper()

    def past_option(self, text: str, end: int, label: str) -> int:
        """Where the masked option of a label ends, if it follows the label; else ``end``."""
        start = end
        while start < len(text) and text[start] in CLOSERS + "-–—(":
            start += 1
        if self.patterns.tokens.get(text[start : start + 1]) == label:
            return start + 1
        return end

    def _opening_label(
        self, text: str, match: re.Match[str], cued: bool
    ) -> NamedValues[str] | None:
        """The labels with which a clause begins."""
        letter = match[1]
        start = match.start(1)
        label = self.label(letter)
        text_behind = text[match.end() :]
        is_bare = not text_behind.strip(CLOSERS)
        may_be_article = letter.islower() and not cued
        if is_bare and not may_be_article:
            return NamedValues((label,), start, match.end(1), bare=True)
        verbatim = self._verbatim(text)
        if verbatim is not None:
            return NamedValues((verbatim,), 0, len(text), bare=True)
        option_end = self.past_option(text, match.end(1), label)
        labels, joined_end = self._joined_labels(text, label, option_end)
        has_joined = len(labels) > 1
        end = joined_end if has_joined else option_end
        is_followed = bool(text[end:].strip(CLOSERS))
        if has_joined or not is_followed:
            return NamedValues(labels, start, end, bare=not is_followed)
        if cued and self._is_label(match, text_behind, label):
            return NamedValues(labels, start, end)
        return None

    def _is_label(self, match: re.Match[str], rest: str, label: str) -> bool:
        """Whether a letter before other words is a label, and not the article "a" or the pronoun "I"."""
        if not rest or rest[0] in _CLOSING_SIGNS or not label.isalpha():
            return True
        connected = _CONNECTIVE.match(rest) is not None
        if match[1].islower():
            return label != "A" and connected
        if label == "I":
            return _AFTER_I.match(rest) is None
        if label != "A" or connected:
            return True
        return not self._is_article(rest) and self.by_text(match.string) is None

    def _is_article(self, rest: str) -> bool:
        """Whether an "A" before some words is the article: "A careful look", but not the text of option A."""
        if _LOWER_WORD.match(rest) is None:
            return False
        option = fold_option(self.options.get("A", ""))
        first_words = fold_option(rest)
        return not option or not first_words.startswith(option[:_SHORTEST_QUOTATION])

    def _joined_labels(self, text: str, label: str, end: int) -> tuple[tuple[str, ...], int]:
        """A label and those joined to it ("B or C"), and where they end."""
        labels = [label]
        while (junction := self.patterns.joined.match(text, end)) is not None:
            labels.append(self.label(junction[1]))
            end = self.past_option(text, junction.end(), labels[-1])
        return tuple(dict.fromkeys(labels)), end

    def _asserted(self, text: str) -> NamedValues[str] | None:
        """The labels of the last assertion: "I choose B", else "B is correct"."""
        assertion = self._last_assertion(text)
        if assertion is None:
            return None
        group = assertion.lastindex or 0
        start, end = assertion.span(group)
        labels, end = self._joined_labels(text, self.label(assertion[group]), end)
        if len(labels) == 1:
            joined_label = self._joined_before(text[:end])
            if joined_label is not None:
                labels = tuple(dict.fromkeys((self.label(joined_label[1]), *labels)))
                start = joined_label.start()
        return NamedValues(labels, start, end)

    def _last_assertion(self, text: str) -> re.Match[str] | None:
        for form in (self.patterns.said, self.patterns.judged):
            matches = list(form.finditer(text))
            if form is self.patterns.said:
                matches = [match for match in matches if not self._names_article(match)]
            if matches and not matches[-1][matches[-1].lastindex or 0].islower():
                return matches[-1]
        return None

    def _names_article(self, match: re.Match[str]) -> bool:
        """Whether the letter of an assertion is the article "A" ("Answer: A careful look ...")."""
        group = match.lastindex or 0
        rest = match.string[match.end(group) :]
        return match[group] == "A" and _CONNECTIVE.match(rest) is None and self._is_article(rest)

    def _joined_before(self, text: str) -> re.Match[str] | None:
        """The label to which the label at the end of a text is joined: the B of "B and C are correct"."""
        junction = self.patterns.joined.search(text)
        if junction is None or junction.end() != len(text):
            return None
        return self.patterns.single.search(text[: junction.start() + 1])

    def _alone(self, text: str) -> NamedValues[str] | None:
        """The last single letter of an announcement, or those joined to the first one."""
        letters = list(self.patterns.late.finditer(text))
        if not letters:
            letters = list(self.patterns.single.finditer(text))
        if not letters:
            # A letter that was not offered is an answer too, and a wrong one.
            unoffered = _STRANGE.fullmatch(text)
            if unoffered:
                return NamedValues((unoffered[1],), 0, len(text), bare=True)
            return None
        first_letter = letters[0]
        last_letter = letters[-1]
        labels, end = self._joined_labels(text, self.label(first_letter[1]), first_letter.end(1))
        if len(labels) == 1:
            labels = (self.label(last_letter[1]),)
        return NamedValues(labels, last_letter.start(1), max(end, last_letter.end(1)))

    def _verbatim(self, text: str) -> str | None:
        """Return the label of the one option that equals a text: "A and B" and "B. F. Skinner" may be options."""
        folded = ""
        equal_labels: list[str] = []
        for label, option in self.options.items():
            if abs(len(option) - len(text)) >= _SLACK:
                continue
            folded = folded or fold_option(text)
            if fold_option(option) == folded:
                equal_labels.append(label)
        return equal_labels[0] if len(equal_labels) == 1 else None

    def by_text(self, text: str) -> str | None:
        """Return the label of the option that a short text contains, if it contains exactly one."""
        if not self.options:
            return None
        verbatim = self._verbatim(text)
        if verbatim is not None:
            return verbatim
        plain_text = normalise(unmark(unlatex(text)))
        padded_text = f" {plain_text} "
        equal_labels = [label for option, label in self._option_words if option == padded_text]
        if len(equal_labels) == 1:
            return equal_labels[0]
        contained = [pair for pair in self._option_words if pair[0] in padded_text]
        contained_texts = [option for option, _ in contained]
        # "New York City" contains "New York", which then does not count.
        widest_labels: list[str] = []
        for option, label in contained:
            if not _is_part_of_another(option, contained_texts):
                widest_labels.append(label)
        return widest_labels[0] if len(widest_labels) == 1 else None

    @cached_property
    def _option_words(self) -> list[tuple[str, str]]:
        """The normalised texts of the options between blanks, with their labels."""
        option_words: list[tuple[str, str]] = []
        for label, option in self.options.items():
            normalised_option = normalise(unlatex(latin(option)))
            if normalised_option:
                option_words.append((f" {normalised_option} ", label))
        return option_words

    def masked(self, text: str) -> str:
        """Replace each quoted option in a text by one letter of the private use area."""
        if not self.options or len(text) < 2:
            return text
        stripped_options: dict[str, str] = {}
        for label, option in self.options.items():
            stripped_options[label] = option.strip().rstrip(".")
        option_counts = Counter(option.casefold() for option in stripped_options.values())
        token_of = {label: token for token, label in reversed(self.patterns.tokens.items())}
        lowered_text = lowered(text)
        # The longest option first, since it may contain another one.
        for label in sorted(stripped_options, key=lambda label: -len(self.options[label])):
            option = stripped_options[label]
            is_unique = option_counts[option.casefold()] == 1
            if not option or not is_unique or label not in token_of:
                continue
            quotation = lowered(latin(prepare(option)))
            if quotation not in lowered_text:
                continue
            # A short option ("No", "7") is a quotation only behind its label.
            required_label = label.lower() if len(option) < _SHORTEST_QUOTATION else None
            text = _masked_option(text, quotation, required_label, token=token_of[label])
            lowered_text = lowered(text)
        return text


def _is_part_of_another(option: str, options: list[str]) -> bool:
    """Whether another one of some option texts contains an option."""
    return any(option != other and option in other for other in options)


def _masked_option(text: str, wanted: str, label: str | None, token: str) -> str:
    """Replace an option by one letter, wherever it is quoted as whole words.

    Args:
        text: The text.
        wanted: The option, in lower case.
        label: The label that must precede the option; None if none has to.
        token: The letter.
    """
    lower = lowered(text)
    start = lower.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        text_before = lower[max(0, start - _LABEL_WINDOW) : start].strip(CLOSERS + "([-–—")
        has_label = label is None or text_before == label
        begins_in_word = lower[start - 1 : start].isalnum() and wanted[0].isalnum()
        ends_in_word = lower[end : end + 1].isalnum()
        if has_label and not begins_in_word and not ends_in_word:
            text = f"{text[:start]}{token}{text[end:]}"
            lower = f"{lower[:start]}{token}{lower[end:]}"
        start = lower.find(wanted, start + 1)
    return text


def latin(text: str) -> str:
    """Replace Cyrillic, Greek and full-width letters by the Latin ones that look the same."""
    if text.isascii():
        return text
    return text.translate(_LOOKALIKES)


def fold_option(text: str) -> str:
    """Return the text of an option without case, LaTeX, markdown signs and extra blanks."""
    return " ".join(latin(unlatex(text)).casefold().strip(" .*_`\"'$").split())


def _without_latex(text: str) -> str:
    """LaTeX wrappers as blanks, every other letter in its place."""
    if "\\" not in text and "{" not in text:
        return text
    return _LATEX.sub(lambda match: " " * len(match[0]), text)
