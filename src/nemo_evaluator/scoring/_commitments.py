"""What a response has committed to: one ledger that goes through the clauses and keeps the values that count.

Every decision is a named rule of one of five tables, with example answers and the letter each of them picks:

- ``CUES``: the clause is read as the continuation of an announcement.
- ``POSITIONS``: a word such as "not" or "perhaps" is about the value.
- ``DOUBTS``: the clause doubts its value although no word of it does.
- ``ADDITIONS``: the value is added to the earlier ones, instead of replacing them.
- ``COUNTS``: a value that is neither announced nor added counts.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple

from nemo_evaluator.scoring._clauses import (
    BLANK,
    COMMAS,
    OPENERS,
    VOID,
    Clause,
    MarkedWord,
    NamedValues,
    Reader,
    V,
    clauses,
    supposed,
)
from nemo_evaluator.scoring._patterns import pattern
from nemo_evaluator.scoring._vocabulary import ClauseMark

_ARROWS: Final = ("->", "=>", "→")
_QUESTION_MARKS: Final = ("?", "？")
_AFTER_VALUE: Final = ClauseMark.NOT | ClauseMark.WRONG | ClauseMark.CONTRARY | ClauseMark.REFUSAL
# What may follow "B is not": anything else would be said of something else.
_COMPLEMENTS: Final = (
    "",
    "correct",
    "right",
    "true",
    "it",
    "the answer",
    "the one",
    "so",
    "fit",
    "work",
    "possible",
)
# "If it had rained, the answer would be B" says that it is not.
# "B would be right if it rained" says that it is not; "it would be B if I had to choose" chooses B.
_WERE_IT_SO: Final = pattern("commitments.unreal")
# What may stand between a value and a word that denies it: "B is (clearly) wrong", not "B) Nothing is wrong".
_PREDICATE: Final = pattern("clauses.predicate")
_ANAPHOR: Final = pattern("clauses.anaphor")
# "B is true, but it does not answer the question": what was asserted is no answer.
_BESIDE: Final = pattern("clauses.beside")
_CONCESSION: Final = pattern("clauses.concession")
# What a mark that applies to a value makes of it.
_EFFECTS: Final = {
    ClauseMark.NOT: ClauseMark.NOT,
    ClauseMark.REJECT: ClauseMark.NOT,
    ClauseMark.WRONG: ClauseMark.NOT,
    ClauseMark.CONTRARY: ClauseMark.CONTRARY,
    ClauseMark.REFUSAL: ClauseMark.CONTRARY,
    ClauseMark.SOFT: ClauseMark.SOFT,
    ClauseMark.OR: ClauseMark.OR,
}


class Statement(NamedTuple, Generic[V]):
    """A clause with the values it names.

    Attributes:
        clause: The clause.
        named: The values.
        stance: What the clause makes of them: NOT, CONTRARY, SOFT and OR, or 0.
    """

    clause: Clause
    named: NamedValues[V]
    stance: int


class Commitments(Generic[V]):
    """The values that a response has committed to so far.

    Attributes:
        values: One value, several for a hedge, or none.
        soft: Whether the commitment was only supposed ("perhaps B").
        retracted: Whether a commitment was withdrawn and none took its place.
        reader: Finds the values of a clause.
        free: Whether nothing was announced, so that each assertion replaces the one before.
        pending: Whether a correction has begun that named no value yet.
        correcting: Whether a correction has begun in this sentence.
        supposing: SOFT if this sentence began with "if", with CONTRARY if the supposition is unreal.
        joined: Whether only a comma follows the last commitment.
        void: Whether only a comma follows the last value that does not count.
        denied: None until a value was denied; then whether that value was announced.
    """

    def __init__(self, reader: Reader[V], *, free: bool = False) -> None:
        self.values: tuple[V, ...] = ()
        self.soft = False
        self.retracted = False
        self.reader = reader
        self.free = free
        self.pending = False
        self.correcting = False
        self.supposing = 0
        self.joined = False
        self.void = False
        self.denied: bool | None = None

    def add_text(self, text: str, start: int, end: int, *, cued: bool, prefix: int = 0) -> None:
        """Weigh a stretch of text, clause by clause.

        Args:
            text: The text.
            start: Where the stretch begins.
            end: Where the stretch ends.
            cued: Whether it follows an announcement.
            prefix: The marks that precede the announcement in its sentence.
        """
        for clause in clauses(text, start, end):
            if clause.first:
                self.correcting = False
                self.supposing = 0
            if clause.opener & ClauseMark.CORRECT:
                self.pending = self.correcting = True
            # "(The answer would be) B if it rained, so it is C": the condition is about B alone.
            is_unreal = bool(cued and prefix & ClauseMark.CONTRARY)
            if clause.text.strip(BLANK):
                cued = self._add_clause(clause, cued, prefix)
            if not is_unreal:
                self.supposing |= supposed(clause)
            if clause.edge in _ARROWS:
                self.pending = self.correcting = True

    def _add_clause(self, clause: Clause, cued: bool, prefix: int) -> bool:
        """Weigh one clause. Returns whether the next clause still follows the announcement."""
        continues = cued or _some_rule_applies(CUES, self, clause)
        named_values = _named_values(self.reader, clause, continues)
        if named_values is None:
            return self._add_nothing(clause, cued)
        statement = _stated(self, clause, named_values, prefix=prefix if cued else 0)
        self.void = bool(statement.stance & VOID) and clause.edge[:1] in COMMAS
        if statement.stance & VOID:
            self._deny(statement, cued)
        else:
            adds_values = _some_rule_applies(ADDITIONS, self, statement)
            if continues or adds_values or _some_rule_applies(COUNTS, self, statement):
                self._commit(statement, adds=adds_values)
            else:
                self.joined = False
        return False

    def _add_nothing(self, clause: Clause, cued: bool) -> bool:
        """A clause without a value may withdraw the last one. An announcement reaches past a comma or a line break."""
        self._withdraw_if_wrong(clause)
        is_void = clause.has(VOID)
        ends_with_comma = clause.edge[:1] in COMMAS
        self.void = is_void and ends_with_comma
        if not cued:
            return False
        return clause.edge[:1] == "\n" or (ends_with_comma and not is_void)

    def _deny(self, statement: Statement[V], cued: bool) -> None:
        """Note that a clause denies or doubts its values: a denial withdraws them if they counted."""
        denies = statement.stance & (ClauseMark.NOT | ClauseMark.WRONG)
        if denies and self.values and set(statement.named.values) >= set(self.values):
            self.values = ()
            self.retracted = True
        self._withdraw_if_wrong(statement.clause)
        self.denied = self.denied or cued

    def _commit(self, statement: Statement[V], *, adds: bool) -> None:
        """Count the values of a clause: besides the earlier ones, or in their place."""
        if adds:
            self.values = tuple(dict.fromkeys((*self.values, *statement.named.values)))
        else:
            self.values = statement.named.values
            self.soft = bool(statement.stance & ClauseMark.SOFT)
        self.pending = False
        self.retracted = False
        self.joined = statement.clause.edge[:1] in (*COMMAS, ";", "；")

    def _withdraw_if_wrong(self, clause: Clause) -> None:
        """Withdraw the values that a later sentence denies ("The answer is B. That is wrong.")."""
        self.joined = False
        if self.values and clause.opener & ClauseMark.BUT and _BESIDE.search(clause.text):
            self.values = ()
            self.retracted = True
        if not (self.values and clause.has(ClauseMark.WRONG)):
            return
        if self.pending or _ANAPHOR.match(clause.text):
            self.values = ()
            self.retracted = True


class LedgerRule(NamedTuple):
    """A condition on a clause, and answers that show its effect.

    Attributes:
        applies: The condition, given the ledger and the clause (``CUES``) or the statement (the other tables).
        examples: Answers, each with the letter it picks (None: no letter or several).
    """

    applies: Callable[[Commitments[Any], Any], object]
    examples: Mapping[str, str | None]


def _some_rule_applies(
    rules: Mapping[str, LedgerRule], ledger: Commitments[Any], subject: Clause | Statement[Any]
) -> bool:
    for rule in rules.values():  # noqa: SIM110 - a generator would cost more than the rules
        if rule.applies(ledger, subject):
            return True
    return False


# When a clause is read as the continuation of an announcement.


def _names_alternative(ledger: Commitments[Any], clause: Clause) -> object:
    return ledger.values and clause.opener & ClauseMark.OR


def _corrects(ledger: Commitments[Any], clause: Clause) -> bool:
    return ledger.correcting


def _replaces_denied(ledger: Commitments[Any], clause: Clause) -> object:
    if ledger.denied is None or ledger.values:
        return False
    return ledger.denied or clause.opener & ClauseMark.BUT


CUES: Final = {
    "'or' behind a value": LedgerRule(
        _names_alternative, {"The answer might be B, or possibly C.": None}
    ),
    "a correction in this sentence": LedgerRule(
        _corrects, {"The answer is B. Wait, C it must have been.": "C"}
    ),
    "only a denied value so far": LedgerRule(
        _replaces_denied, {"The answer is not B. The letter C it must have been.": "C"}
    ),
}

# When a clause adds its value to the values that count already. Two values are a hedge.


def _joins_by_word(ledger: Commitments[Any], statement: Statement[Any]) -> object:
    if not ledger.values or ledger.correcting:
        return False
    return (statement.clause.opener | statement.stance) & (ClauseMark.OR | ClauseMark.SOFT)


def _joins_by_comma(ledger: Commitments[Any], statement: Statement[Any]) -> object:
    if not ledger.values or ledger.correcting:
        return False
    return ledger.joined and statement.named.bare


ADDITIONS: Final = {
    "by 'or' or 'perhaps'": LedgerRule(_joins_by_word, {"The answer is B. Or perhaps C.": None}),
    "by a comma": LedgerRule(_joins_by_comma, {"The answer is B; C": None}),
}

# When a value counts that continues no announcement and adds to no other value.


def _completes_correction(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    return ledger.pending


def _nothing_is_announced(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    return ledger.free


def _is_first_assertion(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    return not ledger.values and not statement.named.bare


def _is_first_conclusion(ledger: Commitments[Any], statement: Statement[Any]) -> object:
    return not ledger.values and statement.clause.opener & (ClauseMark.BUT | ClauseMark.SO)


COUNTS: Final = {
    "completes a correction": LedgerRule(
        _completes_correction, {"The answer is B. Wait. I choose C.": "C"}
    ),
    "nothing is announced": LedgerRule(_nothing_is_announced, {"Not A. B.": "B"}),
    "the first value, in a sentence": LedgerRule(
        _is_first_assertion, {"The answer is unclear to many. I choose B.": "B"}
    ),
    "the first value, behind 'so' or 'but'": LedgerRule(
        _is_first_conclusion, {"Eliminating A and C leaves D. A because ": "D"}
    ),
}


# When a marked word of a clause is about the value, by where it stands.


class PositionRule(NamedTuple):
    """A place in which a marked word is about the value.

    Attributes:
        applies: The condition, given the word, the clause and the values.
        examples: Answers, each with the letter it picks (None: no letter or several).
    """

    applies: Callable[[MarkedWord, Clause, NamedValues[Any]], bool]
    examples: Mapping[str, str | None]


def _precedes(word: MarkedWord, clause: Clause, named: NamedValues[Any]) -> bool:
    return word.end <= named.start


def _overlaps(word: MarkedWord, clause: Clause, named: NamedValues[Any]) -> bool:
    if word.kind == ClauseMark.SOFT:
        return word.start < named.end
    return word.start < named.start < word.end


def _is_predicate(word: MarkedWord, clause: Clause, named: NamedValues[Any]) -> bool:
    if word.start < named.end or not word.kind & _AFTER_VALUE:
        return False
    if _PREDICATE.fullmatch(clause.text, named.end, word.start) is None:
        return False
    if word.kind != ClauseMark.NOT:
        return True
    return clause.text[word.end :].strip(" .,!*)") in _COMPLEMENTS


POSITIONS: Final = {
    "before the value": PositionRule(_precedes, {"The answer is not B.": None}),
    "around the value": PositionRule(_overlaps, {"Answer: option B says so.": None}),
    "behind the value, as its predicate": PositionRule(
        _is_predicate, {"The answer: B is wrong.": None, "The answer: B is not about it.": "B"}
    ),
}


def _stance_of_words(clause: Clause, named: NamedValues[Any]) -> int:
    """Return how the marked words of a clause affect its values."""
    stance = 0
    for marked_word in clause.marks:
        if marked_word.kind not in _EFFECTS:
            continue
        for rule in POSITIONS.values():
            if rule.applies(marked_word, clause, named):
                stance |= _EFFECTS[marked_word.kind]
                break
    return stance


# When a clause doubts its values although no word of it does.


def _asks(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    return statement.clause.edge[:1] in _QUESTION_MARKS


def _is_unreal(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    condition = _WERE_IT_SO.search(statement.clause.text)
    return condition is not None and condition.end() > statement.named.end


def _is_conceded(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    if not statement.clause.first or statement.clause.edge[:1] not in COMMAS:
        return False
    return _CONCESSION.match(statement.clause.text) is not None


def _is_beside_the_point(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    return _BESIDE.search(statement.clause.text, statement.named.end) is not None


def _continues_denied_list(ledger: Commitments[Any], statement: Statement[Any]) -> bool:
    return ledger.void and statement.named.bare and not statement.clause.opener & OPENERS


DOUBTS: Final = {
    "a question": LedgerRule(_asks, {"Is the answer B?": None}),
    "an unreal condition": LedgerRule(
        _is_unreal,
        {"The answer B would be right if it rained.": None, "It would be B if it rained.": None},
    ),
    "a concession": LedgerRule(
        _is_conceded, {"While B is true, the question is about another city.": None}
    ),
    "beside the point": LedgerRule(
        _is_beside_the_point, {"B is correct and answers a different question.": None}
    ),
    "a list of denied values": LedgerRule(
        _continues_denied_list, {"I choose neither A, B, nor D.": None}
    ),
}


def _named_values(reader: Reader[V], clause: Clause, cued: bool) -> NamedValues[V] | None:
    named_values = reader.read(clause.text, cued=cued)
    if named_values is None and clause.has(ClauseMark.REJECT):
        # "A (and not B)": what precedes the rejection may be readable by itself.
        rejection = next(
            marked_word for marked_word in clause.marks if marked_word.kind & ClauseMark.REJECT
        )
        named_values = reader.read(clause.text[: rejection.start], cued=cued)
    return named_values


def _stated(
    ledger: Commitments[V], clause: Clause, named: NamedValues[V], prefix: int
) -> Statement[V]:
    """The values of a clause, with its stance to them."""
    stance = _stance_of_words(clause, named) | ledger.supposing | prefix
    if stance & ClauseMark.NOT and not prefix & VOID:
        preferred = _preferred(ledger.reader, clause, named)
        if preferred is not None:
            statement = Statement(clause, preferred, ledger.supposing)
            if _continues_denied_list(ledger, statement):
                return statement._replace(stance=statement.stance | ClauseMark.CONTRARY)
            return statement
    statement = Statement(clause, named, stance)
    if _some_rule_applies(DOUBTS, ledger, statement):
        return statement._replace(stance=stance | ClauseMark.CONTRARY)
    return statement


def _preferred(reader: Reader[V], clause: Clause, named: NamedValues[V]) -> NamedValues[V] | None:
    """ "It is A rather than B": the values before the denial, if there are any."""
    for marked_word in clause.marks:
        if marked_word.kind & (ClauseMark.NOT | ClauseMark.REJECT):
            if 0 < marked_word.start <= named.start:
                return reader.read(clause.text[: marked_word.start], cued=False)
            return None
    return None
