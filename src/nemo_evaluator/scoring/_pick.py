"""Which of the offered letters a response picks.

An announcement decides (see ``_settle``). Without one, the rules of ``UNANNOUNCED`` are tried in their order. The
examples of all tables answer a problem with the options A) Rome, B) Paris, C) Oslo and D) Bern.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._clauses import VOID, NamedValues, clauses
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._letters import CLOSERS, Letters, fold_option, latin
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._settle import declines, plain_ending, settle
from nemo_evaluator.scoring._text import readable
from nemo_evaluator.scoring._ticks import CROSSES, TICKS, ticked_labels
from nemo_evaluator.scoring._vocabulary import REFUSAL, ClauseMark, cut_off

# Bounds, in letters: of a response that may be one plain announcement, of a line that may be a letter, of the end in
# which assertions count, of a text that may quote an option (and in words).
_SHORT: Final = 60
_LETTER_LINE: Final = 12
_REGION: Final = 1500
_LAST: Final = 400
_LAST_WORDS: Final = 40
_REMARK_WORDS: Final = 12
_LIST_GAP: Final = 3
_LATE_LABEL: Final = 60
_LISTED: Final = "\uf8ff"
_TURN: Final = lazy_pattern(r"[.;,:!\n]|\bbut\b", re.IGNORECASE)
_ARROW: Final = pattern("pick.arrow")
_VERDICT: Final = lazy_pattern(
    rf"correct|wrong|right|true|false|because|not\b|[{TICKS}{CROSSES}]", re.IGNORECASE
)


def pick(
    text: str, labels: str, options: Mapping[str, str] | None = None, question: str = ""
) -> str | None:
    """Find the label that a response picks.

    Args:
        text: The response.
        labels: The offered labels, one letter each.
        options: The texts of the options by label.
        question: The question, which does not count where the response repeats it.

    Returns:
        The label; None if the response picks none or several.
    """
    reader = Letters(labels, options)
    if len(text) < _SHORT:
        whole_match = reader.patterns.whole.fullmatch(text)
        if whole_match is not None:
            return whole_match["label"]
    text = latin(readable(text, question, part=False))
    ending_match = plain_ending(text, reader.patterns.whole)
    if ending_match is not None:
        return ending_match["label"]
    if ">" in text or "→" in text:
        text = _ARROW.sub(": ", text)
    text = reader.masked(text)
    if "\n" in text:
        text = _without_list(text, reader)
    settled_labels = settle(text, reader, lambda part: _unannounced(part, reader))
    if settled_labels and len(settled_labels) == 1:
        return settled_labels[0]
    return None


def _without_list(text: str, reader: Letters) -> str:
    """Remove lists of the options from a response: repeating them is not a choice."""
    items = list(reader.patterns.listed.finditer(text))
    for first_item in range(len(items) - 1):
        last_item = first_item
        while last_item + 1 < len(items) and _follows(text, items[last_item], items[last_item + 1]):
            last_item += 1
        if last_item == first_item:
            continue
        if not any(_comments(item, reader) for item in items[first_item : last_item + 1]):
            text_before = text[: items[first_item].start()]
            text_after = _without_list(text[items[last_item].end() :], reader)
            return f"{text_before}{_LISTED}\n{text_after}"
    return text


def _follows(text: str, item: re.Match[str], following: re.Match[str]) -> bool:
    """Whether a line continues a list: the next label, at most two lines later."""
    is_next_label = ord(following[1]) == ord(item[1]) + 1
    return is_next_label and text.count("\n", item.end(), following.start()) < _LIST_GAP


def _comments(item: re.Match[str], reader: Letters) -> bool:
    """Return whether a line of a list contains more than its option."""
    remark = item[2].strip(" *_.")
    if remark not in reader.patterns.tokens and _VERDICT.search(remark):
        return True
    return item.start(1) - item.start() > _LATE_LABEL


class Unannounced:
    """A response (or its part) that announces nothing.

    Attributes:
        text: The response, options masked.
        lines: Its lines that are not blank.
        reader: Finds labels.
    """

    def __init__(self, text: str, reader: Letters) -> None:
        self.text = text
        self.reader = reader
        self.lines = [line for line in text.split("\n") if line.strip()]

    @cached_property
    def unfinished(self) -> bool:
        """Whether the response ends in the middle of a sentence."""
        return cut_off(self.text)


class Decision(NamedTuple):
    """What a rule decides: one label, several, none (), or None for a response without any claim."""

    labels: tuple[str, ...] | None


class PickRule(NamedTuple):
    """A way to find the label of a response that announces nothing.

    Attributes:
        decide: Returns None if the rule does not apply; then the next one is tried.
        examples: Answers, each with the letter it picks (None: no letter or several).
    """

    decide: Callable[[Unannounced], Decision | None]
    examples: Mapping[str, str | None]


def _unannounced(text: str, reader: Letters) -> tuple[str, ...] | None:
    if not text:
        return None
    response = Unannounced(text, reader)
    for rule in UNANNOUNCED.values():
        decision = rule.decide(response)
        if decision is not None:
            return decision.labels
    return None


def _ticked(response: Unannounced) -> Decision | None:
    """A list with ticks and crosses: the one option that is ticked."""
    ticked = ticked_labels(response.text, response.reader.patterns.labels)
    if ticked is None:
        return None
    return Decision(tuple(ticked) if len(ticked) == 1 else None)


def _letter_on_its_own_line(response: Unannounced) -> Decision | None:
    """The last or the first line is a letter, and no other line is another one."""
    lines = response.lines
    for line in (lines[-1], lines[0]):
        named_values = response.reader.weak(line)
        if named_values is not None:
            letters = _lone_letters(response)
            return Decision(named_values.values if len(letters) <= 1 else None)
    return None


def _lone_letters(response: Unannounced) -> set[str]:
    letters = set()
    for line in response.lines:
        named_values = response.reader.weak(line) if len(line) < _LETTER_LINE else None
        if named_values is not None:
            letters.add(named_values.values[0])
    return letters


def _labelled_line(response: Unannounced) -> Decision | None:
    """One line begins with a label and continues with its option; it is the only line, or not the last one."""
    lines = response.lines
    if len(lines) > 1 and response.reader.patterns.line.match(lines[-1]):
        return None
    label = _label_of_line(lines, response.reader)
    return None if label is None else Decision((label,))


def _after_refusal(response: Unannounced) -> Decision | None:
    """ "Hard to say, but I'd go with B": behind a refusal only an assertion in a later clause counts."""
    text = response.text
    refusals = list(REFUSAL.finditer(text, max(0, len(text) - _REGION)))
    if not refusals:
        return None
    turn = _TURN.search(text, refusals[-1].end())
    ledger: Commitments[str] = Commitments(response.reader)
    if turn is not None and not response.unfinished:
        ledger.add_text(text, turn.start(), len(text), cued=False)
    return Decision(ledger.values or None)


def _asserted_in_words(response: Unannounced) -> Decision | None:
    """ "I choose B", "B is correct": the last assertion near the end."""
    text = response.text
    ledger: Commitments[str] = Commitments(response.reader, free=not response.unfinished)
    ledger.add_text(text, max(0, len(text) - _REGION), len(text), cued=False)
    if ledger.values or ledger.retracted:
        return Decision(ledger.values)
    return None


def _cut_off(response: Unannounced) -> Decision | None:
    """A response that was cut off picks nothing else."""
    return Decision(None) if response.unfinished else None


def _labelled_last_line(response: Unannounced) -> Decision | None:
    """The last line begins with a label and continues with its option."""
    label = _label_of_line(response.lines[-1:], response.reader)
    return None if label is None else Decision((label,))


def _option_text(response: Unannounced) -> Decision | None:
    """A short response, or its last line, contains the text of one option and of no other."""
    for part in (response.text, response.lines[-1]):
        is_short = len(part) <= _LAST and len(part.split()) <= _LAST_WORDS
        if is_short and not response.reader.patterns.line.match(part):
            decision = _quoted_option(part, response.reader)
            if decision is not None:
                return decision
    return None


def _quoted_option(text: str, reader: Letters) -> Decision | None:
    """The option that a short text quotes: masked, else in other words that contain it."""
    tokens = reader.patterns.tokens
    quoted_labels = {tokens[sign] for sign in text if sign in tokens}
    if len(quoted_labels) == 1:
        ledger: Commitments[str] = Commitments(_Tokens(tokens), free=True)
        ledger.add_text(text, 0, len(text), cued=False)
        return Decision(ledger.values or None)
    if quoted_labels:
        return None
    label = reader.by_text(text)
    if label is None or any(clause.has(VOID) for clause in clauses(text, 0, len(text))):
        return None
    return Decision((label,))


def _letter_in_parentheses(response: Unannounced) -> Decision | None:
    """The last line is a whole sentence with one letter in parentheses: "Paris it must be (B)." """
    line = response.lines[-1]
    is_sentence = line.rstrip(" *_").endswith((".", "!"))
    if not is_sentence or len(line) > _LAST:
        return None
    reader = response.reader
    labels = {reader.label(match[1]) for match in reader.patterns.parens.finditer(line)}
    if len(labels) == 1 and not declines(line):
        return Decision((labels.pop(),))
    return None


UNANNOUNCED: Final = {
    "the one ticked option": PickRule(
        _ticked,
        {"❌ A) south of it\n✅ B) on it\n❌ C) north of it": "B", "✅ A\n✅ B\n❌ C": None},
    ),
    "a letter on its own line": PickRule(
        _letter_on_its_own_line, {"Rome is south of it.\n(B)": "B", "B\nsomething\nC": None}
    ),
    "a line that begins with a label": PickRule(
        _labelled_line, {"B) on the Seine.\nThat was easy.": "B"}
    ),
    "a letter behind a refusal": PickRule(
        _after_refusal,
        {"Hard to say, but I'd go with B.": "B", "I would pick B but I don't know": None},
    ),
    "an assertion in words": PickRule(
        _asserted_in_words, {"I choose B.": "B", "I choose B. No, that is wrong.": None}
    ),
    "nothing in a text that was cut off": PickRule(
        _cut_off, {"The city on the Seine is Paris and the": None}
    ),
    "a last line that begins with a label": PickRule(
        _labelled_last_line, {"I compared them all.\nB) a city on the Seine.": "B"}
    ),
    "the text of an option": PickRule(
        _option_text, {"On the Seine lies Paris": "B", "Either Paris or Bern.": None}
    ),
    "a letter in parentheses": PickRule(
        _letter_in_parentheses,
        {"On the Seine lies that city (B).": "B", "That city (B) or that (D).": None},
    ),
}


def _label_of_line(lines: list[str], reader: Letters) -> str | None:
    """The label of the last line that begins with one, if no line begins with another.

    The line must consist of the label and its option, or of little else, without any of ``LINE_OBJECTIONS``.
    """
    matches: list[re.Match[str]] = []
    labels: set[str] = set()
    for line in lines:
        match = reader.patterns.line.match(line)
        if match is not None:
            matches.append(match)
            labels.add(reader.label(match[1] or match[2]))
    if len(labels) != 1:
        return None
    return _committed_label(matches[-1], labels.pop(), reader)


def _committed_label(match: re.Match[str], label: str, reader: Letters) -> str | None:
    """The label that a line picks which begins with a label; None if it picks none.

    Args:
        match: The match of the label, in its line.
        label: That label.
        reader: Finds labels.
    """
    line = match.string
    option = reader.options.get(label, "")
    end = reader.past_option(line, match.end(match.lastindex or 0), label)
    text_behind = line[end:]
    if fold_option(text_behind.lstrip(CLOSERS)) == fold_option(option):
        return label
    option_precedes = end > match.end() or not option
    if not option_precedes:
        by_text = reader.by_text(line)
        if by_text is not None:
            return by_text
    for objection in LINE_OBJECTIONS.values():
        if objection.applies(text_behind, reader):
            return None
    if option_precedes and len(text_behind.split()) <= _REMARK_WORDS and not declines(text_behind):
        return label
    is_sentence = text_behind.rstrip("*_ ").endswith((".", "!"))
    if is_sentence or not text_behind.strip(CLOSERS):
        return label
    return None


class LineObjection(NamedTuple):
    """A reason why a line that begins with a label does not pick it.

    Attributes:
        applies: The condition, given the rest of the line behind the label and its option.
        examples: Answers, each with the letter it picks (None: no letter or several).
    """

    applies: Callable[[str, Letters], bool]
    examples: Mapping[str, str | None]


def _is_heading(rest: str, reader: Letters) -> bool:
    if not rest.strip("*_:?. "):
        return False
    return rest.lstrip("*_. ").startswith((":", "?", "-")) or cut_off(rest)


def _is_denied(rest: str, reader: Letters) -> bool:
    parts = clauses(rest, 0, len(rest))
    return parts[0].has(VOID) or any(part.opener & ClauseMark.CORRECT for part in parts)


def _names_another(rest: str, reader: Letters) -> bool:
    return reader.read(rest, cued=False) is not None


LINE_OBJECTIONS: Final = {
    "the rest is a heading, or was cut off": LineObjection(
        _is_heading, {"B) Paris? lies on a river": None, "B) Paris lies on the": None}
    ),
    "the rest denies or corrects the label": LineObjection(
        _is_denied, {"B) is wrong here.": None, "B) Paris is a trap": None}
    ),
    "the rest asserts a letter": LineObjection(_names_another, {"B) is near and I choose C.": "C"}),
}


class _Tokens:
    """Finds masked options anywhere in a clause (see Reader)."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = tokens

    def read(self, clause: str, *, cued: bool) -> NamedValues[str] | None:
        """Return the first masked option of a clause; None when it has none."""
        for place, sign in enumerate(clause):
            if sign in self._tokens:
                return NamedValues((self._tokens[sign],), place, place + 1)
        return None

    def weak(self, line: str) -> NamedValues[str] | None:
        """Return None: masked options are only read in clauses."""
