"""How a pick is found in a response: announced, asserted in words, alone on a line, or by the option's text."""

import re
from collections.abc import Mapping
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._claims import lowered
from nemo_evaluator.scoring._clauses import VOID, NamedValues, clauses
from nemo_evaluator.scoring._commitments import Commitments
from nemo_evaluator.scoring._labels import patterns_of
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._settle import declines, plain_ending, settle
from nemo_evaluator.scoring._text import normalise, prepare, readable, unlatex, unmark
from nemo_evaluator.scoring._vocabulary import REFUSAL, ClauseMark, cut_off

_LOOKALIKES: Final = str.maketrans(
    "АВСЕНΑΒΕΗＡＢＣＤＥＦＧＨＩＪａｂｃｄｅ１２３４５", "ABCEHABEHABCDEFGHIJabcde12345"
)
# "Answer: A dog", "Answer: I think ...": words, not letters.
_AFTER_I: Final = pattern("pick.after_i")
_CONNECTIVE: Final = pattern("pick.connective")
_SLACK: Final = 8
_SHORTEST: Final = 4
_CLOSERS: Final = "*_`~\"'”’)]}>$.,:;!|\\。 \t\n"
_STRANGE: Final = lazy_pattern(r"[\s*_`~\"'“‘$({\[<]*([A-Z])[*_`~\"'”’)\]}>$.,:;!\s]*")
_BY_TEXT: Final = 40
_REGION: Final = 1500
_LAST: Final = 400
_SHORT: Final = 60
_TURN: Final = lazy_pattern(r"[.;,:!\n]|\bbut\b", re.IGNORECASE)
_ARROW: Final = pattern("pick.arrow")
_VERDICT: Final = lazy_pattern(r"correct|wrong|right|true|false|because|not\b", re.IGNORECASE)


class Letters:
    """Reads labels in clauses (see Reader)."""

    def __init__(self, labels: str, options: Mapping[str, str] | None) -> None:
        self.patterns = patterns_of(labels)
        self.options = options

    def read(self, clause: str, *, cued: bool) -> NamedValues[str] | None:
        """The labels a clause names: after an announcement any that it opens with, else only by an assertion."""
        text = _same_length(clause)
        match = self.patterns.opening.match(text)
        if match is not None:
            said = self._opened(clause, match, cued)
            if said is not None:
                return said
        if not cued:
            return self._asserted(text)
        by_text = self.by_text(clause)
        if by_text is not None:
            at = max(
                0, lowered(clause).find(lowered((self.options or {}).get(by_text, "")).strip())
            )
            return NamedValues((by_text,), at, len(clause))
        return self._asserted(text) or self._alone(text)

    def weak(self, line: str) -> NamedValues[str] | None:
        match = self.patterns.opening.match(line)
        if (
            match is None
            or line[match.end() :].strip(_CLOSERS)
            or (match[1].islower() and len(line) > 5)
        ):
            return None
        return NamedValues((self._label(match[1]),), 0, len(line), bare=True)

    def _opened(self, text: str, match: re.Match[str], cued: bool) -> NamedValues[str] | None:
        label = self._label(match[1])
        rest = text[match.end() :]
        bare = not rest.strip(_CLOSERS)
        if bare and (cued or not match[1].islower()):
            return NamedValues((label,), match.start(1), match.end(1), bare=True)
        verbatim = self._verbatim(text)
        if verbatim is not None:
            return NamedValues((verbatim,), 0, len(text), bare=True)
        end = self._past_option(text, match.end(1), label)
        values, last = self._chain(text, label, end)
        if len(values) > 1:
            return NamedValues(values, match.start(1), last, bare=not text[last:].strip(_CLOSERS))
        if not text[end:].strip(_CLOSERS):
            return NamedValues((label,), match.start(1), end, bare=True)
        if not cued or not self._is_label(match, rest, label):
            return None
        return NamedValues((label,), match.start(1), end)

    def _is_label(self, match: re.Match[str], rest: str, label: str) -> bool:
        """Not the article or the pronoun."""
        if not rest or rest[0] in _CLOSERS[:-3] or not label.isalpha():
            return True
        if match[1].islower():
            return label != "A" and _CONNECTIVE.match(rest) is not None
        if label == "I":
            return _AFTER_I.match(rest) is None
        return (
            label != "A"
            or _CONNECTIVE.match(rest) is not None
            or self.by_text(match.string) is None
        )

    def _label(self, sign: str) -> str:
        return self.patterns.tokens.get(sign) or sign.upper()

    def masked(self, text: str) -> str:
        """The text with the options that it quotes as one letter each."""
        if not self.options or len(text) < 2:
            return text
        lower = lowered(text)
        folded = [option.strip().rstrip(".").casefold() for option in self.options.values()]
        for label, option in sorted(self.options.items(), key=lambda pair: -len(pair[1])):
            plain = option.strip().rstrip(".")
            if (
                not plain
                or folded.count(plain.casefold()) > 1
                or label not in self.patterns.tokens.values()
            ):
                continue
            wanted = lowered(_plain(prepare(plain)))
            # A short one ("No", "7") is a quotation only behind its label.
            if len(plain) < _SHORTEST:
                labelled: str | None = label.lower()
            else:
                labelled = None
            at = lower.find(wanted)
            while at >= 0:
                end = at + len(wanted)
                quoted = (
                    labelled is None
                    or lower[max(0, at - 5) : at].strip(_CLOSERS + "([-–—") == labelled
                )
                within = (lower[at - 1 : at].isalnum() and wanted[0].isalnum()) or lower[
                    end : end + 1
                ].isalnum()
                if quoted and not within:
                    token = next(
                        sign for sign, named in self.patterns.tokens.items() if named == label
                    )
                    text = f"{text[:at]}{token}{text[end:]}"
                    lower = f"{lower[:at]}{token}{lower[end:]}"
                at = lower.find(wanted, at + 1)
        return text

    def _past_option(self, text: str, end: int, label: str) -> int:
        """Where the text of the option ends that stands behind its label."""
        start = end
        while start < len(text) and text[start] in _CLOSERS + "-–—(":
            start += 1
        if self.patterns.tokens.get(text[start : start + 1]) == label:
            return start + 1
        return end

    def _chain(self, text: str, label: str, end: int) -> tuple[tuple[str, ...], int]:
        values = [label]
        while (junction := self.patterns.joined.match(text, end)) is not None:
            values.append(self._label(junction[1]))
            end = self._past_option(text, junction.end(), values[-1])
        return tuple(dict.fromkeys(values)), end

    def _asserted(self, text: str) -> NamedValues[str] | None:
        forms = (self.patterns.said, self.patterns.judged)
        lasts = (
            max(form.finditer(text), key=lambda match: match.start(), default=None)
            for form in forms
        )
        last = next(
            (one for one in lasts if one is not None and not one[one.lastindex or 0].islower()),
            None,
        )
        if last is None:
            return None
        start, end = last.span(last.lastindex or 0)
        values, end = self._chain(text, self._label(last[last.lastindex or 0]), end)
        if len(values) == 1:
            previous = self.patterns.joined.search(text[:end])
        else:
            previous = None
        joined = previous is not None and previous.end() == end
        if joined and previous:
            first = self.patterns.single.search(text[: previous.start() + 1])
        else:
            first = None
        if first is not None:
            values = tuple(dict.fromkeys((self._label(first[1]), *values)))
            start = first.start()
        return NamedValues(values, start, end)

    def _alone(self, text: str) -> NamedValues[str] | None:
        found = list(self.patterns.late.finditer(text)) or list(self.patterns.single.finditer(text))
        if not found:
            strange = _STRANGE.fullmatch(text)
            # A letter that was not offered is an answer too, and a wrong one.
            if strange:
                return NamedValues((strange[1],), 0, len(text), bare=True)
            return None
        match = found[-1]
        values, end = self._chain(text, self._label(found[0][1]), found[0].end(1))
        return NamedValues(
            values if len(values) > 1 else (self._label(match[1]),),
            match.start(1),
            max(end, match.end(1)),
        )

    def _verbatim(self, text: str) -> str | None:
        """The label whose option is the text, letter for letter: "A and B" and "B. F. Skinner" are options at times."""
        if not self.options:
            return None
        near: list[tuple[str, str]] = []
        for key, option in self.options.items():
            if abs(len(option) - len(text)) < _SLACK:
                near.append((key, option))
        if near:
            said = _folded(text)
        else:
            said = ""
        same = [key for key, option in near if _folded(option) == said]
        if len(same) == 1:
            return same[0]
        return None

    def by_text(self, text: str) -> str | None:
        """The label whose option a short text states, when it is one and only one."""
        if not self.options:
            return None
        verbatim = self._verbatim(text)
        if verbatim is not None:
            return verbatim
        said = f" {normalise(unmark(unlatex(text)))} "
        options: list[tuple[str, str]] = []
        for key, option in self.options.items():
            options.append((normalise(unlatex(_plain(option))), key))
        held = [(f" {plain} ", key) for plain, key in options if plain]
        exact = [key for option, key in held if option == said]
        if len(exact) == 1:
            return exact[0]
        inside = [(option, key) for option, key in held if option in said]
        widest: list[tuple[str, str]] = []
        for o, key in inside:
            if not any(o != other and o in other for other, _ in inside):
                widest.append((o, key))
        if len(widest) == 1:
            return widest[0][1]
        return None


def pick(
    text: str, labels: str, options: Mapping[str, str] | None = None, question: str = ""
) -> str | None:
    """The label a response picks; None when it picks none or will not decide."""
    reader = Letters(labels, options)
    if len(text) < _SHORT:
        whole = reader.patterns.whole.fullmatch(text)
    else:
        whole = None
    if whole is not None:
        return whole["label"]
    text = _plain(readable(text, question, part=False))
    ending = plain_ending(text, reader.patterns.whole)
    if ending is not None:
        return ending["label"]
    if ">" in text or "→" in text:
        text = _ARROW.sub(": ", text)
    text = reader.masked(text)
    if "\n" in text:
        text = _without_list(text, reader)
    settled = settle(text, reader, lambda part: _unannounced(part, reader))
    if settled and len(settled) == 1:
        return settled[0]
    return None


def _plain(text: str) -> str:
    if text.isascii():
        return text
    return text.translate(_LOOKALIKES)


def _same_length(text: str) -> str:
    """LaTeX wrappers blanked out, every letter in its place."""
    if "\\" not in text and "{" not in text:
        return text
    return _LATEX.sub(lambda match: " " * len(match[0]), text)


_LATEX: Final = lazy_pattern(
    r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:rm|bf|sf|it|bb|tt)|mbox|boxed|[,;:! ()\[\]])|[{}$]"
)


def _folded(text: str) -> str:
    return " ".join(_plain(unlatex(text)).casefold().strip(" .*_`\"'$").split())


def _without_list(text: str, reader: Letters) -> str:
    """The response without a list of the options: to repeat what was offered is no choice."""
    lines = list(reader.patterns.listed.finditer(text))
    labels = [line[1] for line in lines]
    for first in range(len(lines) - 1):
        run = first
        while (
            run + 1 < len(lines)
            and ord(labels[run + 1]) == ord(labels[run]) + 1
            and text.count("\n", lines[run].end(), lines[run + 1].start()) < 3
        ):
            run += 1
        if run > first and not any(_says_more(line, reader) for line in lines[first : run + 1]):
            return f"{text[: lines[first].start()]}\uf8ff\n{_without_list(text[lines[run].end() :], reader)}"
    return text


def _says_more(line: re.Match[str], reader: Letters) -> bool:
    said = line[2].strip(" *_.")
    return (said not in reader.patterns.tokens and bool(_VERDICT.search(said))) or line.start(
        1
    ) - line.start() > 60


def _unannounced(text: str, reader: Letters) -> tuple[str, ...] | None:
    if not text:
        return None
    lines = [line for line in text.split("\n") if line.strip()]
    alone = {said.values[0] for line in lines if len(line) < 12 and (said := reader.weak(line))}
    for line in (lines[-1], lines[0]):
        said = reader.weak(line)
        if said is not None:
            if len(alone) <= 1:
                return said.values
            return None
    if len(lines) == 1 or not reader.patterns.line.match(lines[-1]):
        opened = _listed_pick(lines, reader)
        if opened is not None:
            return opened
    unfinished = cut_off(text)
    refused = max(
        REFUSAL.finditer(text, max(0, len(text) - _REGION)), key=lambda one: one.end(), default=None
    )
    if refused is not None:
        # "Hard to say, but I'd go with B."
        turn = _TURN.search(text, refused.end())
        after: Commitments[str] = Commitments(reader)
        if turn is not None and not unfinished:
            after.add_text(text, turn.start(), len(text), cued=False)
        return after.values or None
    ledger: Commitments[str] = Commitments(reader, free=not unfinished)
    ledger.add_text(text, max(0, len(text) - _REGION), len(text), cued=False)
    if ledger.values or ledger.retracted:
        return ledger.values
    if unfinished:
        return None
    last = _listed_pick(lines[-1:], reader)
    return last or _by_text(text, lines, reader)


def _listed_pick(lines: list[str], reader: Letters) -> tuple[str, ...] | None:
    """One line only that begins with a label and goes on with its option (or little else)."""
    begun = [(line, match) for line in lines if (match := reader.patterns.line.match(line))]
    if len({reader._label(match[1] or match[2]) for _, match in begun}) != 1:
        return None
    line, match = begun[-1]
    label = reader._label(match[1] or match[2])
    end = reader._past_option(line, match.end(match.lastindex or 0), label)
    rest = line[end:]
    if _folded(rest.lstrip(_CLOSERS)) == _folded((reader.options or {}).get(label, "")):
        return (label,)
    if end > match.end() or not (reader.options or {}).get(label):
        whole = len(rest.split()) <= 12 and not declines(rest)
    else:
        whole = False
        stated = reader.by_text(line)
        if stated is not None:
            return (stated,)
    if (rest.lstrip("*_. ").startswith((":", "?", "-")) or cut_off(rest)) and rest.strip("*_:?. "):
        return None
    said = list(clauses(rest, 0, len(rest)))
    if said[0].has(VOID) or any(one.opener & ClauseMark.CORRECT for one in said):
        return None
    if reader.read(rest, cued=False) is not None:
        return None  # a later word settles it
    if whole or not rest.strip(_CLOSERS) or rest.rstrip("*_ ").endswith((".", "!")):
        return (label,)
    return None


def _by_text(text: str, lines: list[str], reader: Letters) -> tuple[str, ...] | None:
    """A short text, or a last line, that holds one option and no other."""
    tokens = reader.patterns.tokens
    for part in (text, lines[-1]):
        if len(part) > _LAST or len(part.split()) > _BY_TEXT or reader.patterns.line.match(part):
            continue
        named = {tokens[sign] for sign in part if sign in tokens}
        if len(named) == 1:
            ledger: Commitments[str] = Commitments(_Texts(tokens), free=True)
            ledger.add_text(part, 0, len(part), cued=False)
            return ledger.values or None
        if not named:
            label = reader.by_text(part)
        else:
            label = None
        if label is not None and not any(one.has(VOID) for one in clauses(part, 0, len(part))):
            return (label,)
    if lines[-1].rstrip(" *_").endswith((".", "!")) and len(lines[-1]) <= _LAST:
        named = {reader._label(match[1]) for match in reader.patterns.parens.finditer(lines[-1])}
        if len(named) == 1 and not declines(lines[-1]):
            return (named.pop(),)
        return None
    return None


class _Texts:
    """Reads masked options anywhere in a clause."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = tokens

    def read(self, clause: str, *, cued: bool) -> NamedValues[str] | None:
        at = next((number for number, sign in enumerate(clause) if sign in self._tokens), None)
        if at is None:
            return None
        return NamedValues((self._tokens[clause[at]],), at, at + 1)

    def weak(self, line: str) -> NamedValues[str] | None: ...
