"""The words by which a clause denies, doubts, corrects or explains, in the languages that answers come in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final


class Mark:
    """What a word does to the values of its clause: bits, as plain integers (an IntFlag costs more than the scan)."""

    NOT: Final = 1  # denies what follows it in the clause; what stands before it when nothing follows
    REJECT: Final = 2  # "rather than": what stands before it is meant, what follows is not
    WRONG: Final = 4  # "B is wrong", "we rule out B": denies all of the clause
    CONTRARY: Final = 8  # "one might think", "some sources say", "whether": not the speaker's own word
    SOFT: Final = 16  # "perhaps", "if": said, but two such sayings are no commitment
    CORRECT: Final = 32  # "wait", "actually": what was said before is superseded by what follows
    BECAUSE: Final = 64  # from here to the end of the sentence reasons are given
    BUT: Final = 128  # begins a clause that takes the place of the one before
    OR: Final = 256  # begins a clause that adds to the one before
    REFUSAL: Final = 512  # the answer is declined
    PLAIN: Final = 1024  # looks like another mark and is none
    SO: Final = 2048  # begins a clause that concludes


# One table by what the words do, in the languages that answers come in.
_WORDS: Final = {
    Mark.PLAIN: """no doubt|without doubt|without a doubt|no longer|not only|not just|not surprisingly|nothing but|none other than
        |no other than|not until|no fewer than|no matter|not to mention|why not|most plausible|more plausible|nobody but|no one but|none but""",
    Mark.NOT: """not|never|cannot|can not|neither|nor|no|none of|none|nobody|anything but|anyone but|everybody but|everyone but|everything but|all but|all except
        |except|doubt|doubtful|nicht|kein|keine|keinen|weder|niemals|n'est pas|n'était pas|n'est|n'était|ne|pas|jamais|nunca|tampoco|não|bukan|tidak|nie|ليس|ليست|không phải
        |nothing to do with
        |不是|并非|并不是|不选|不能选|没有|не|ни""",
    Mark.REJECT: """rather than|instead of|as opposed to|in place of|up from|down from|compared to|compared with|unlike|and not|but not|and never|und nicht|anstatt|anstelle von|statt|et non|et pas
        |au lieu de|plutôt que|y no|en lugar de|en vez de|而不是|而非|а не|и не|вместо""",
    Mark.WRONG: """wrong|incorrect|mistaken|a mistake|ruled out|rule out|rules out|ruling out|excluded|exclude|eliminate|eliminated|eliminating|eliminates
        |is out|are out|irrelevant|misconception|a trap|tempting|plausible|too large|too small|too high|too low|too big|partially|partly|half right|isn't what|is not what|no sense|cannot decide|can't decide|cannot tell which|can't tell which
        |too vague|too many|too few|it is false that|not correct
        |not right|cannot be right|can't be right|isn't right|is false|reject|rejected|discard|discarded|falsch|unzutreffend|faux|fausse|incorrecte|erroné
        |incorrecto|incorrecta|incorreta|errada|sbagliata|errata|błędna|błędny|falso|falsa|equivocada|错误|错的|不正确|不对|誤り|間違い|ではありません|ではない|じゃない|でない|неверно|неправильно|неверен|неправильный|ошибочно""",
    Mark.CONTRARY: r"""might think|may think|could think|would think|might say|might believe|may say|might guess|at first|first guess|first glance|first look
        |first thought|first result|first impression|initially|originally|i thought|told me|disagree|half say|often pick|often choose|usually pick|naive|naively|mentions|according to one|according to another|according to some
        |and a few more|among others|and others|and so on|some say|some sources|sources say|others say|others claim|some would|some might|some may|some people
        |some students|many people|many would|many think|many say|many believe|most people|people often|people think|students answer|common answer
        |common mistake|common error|often named|often confused|often thought|obvious answer|it is said|supposedly|whether|not sure|unsure|uncertain|depends|depending
        |if the answer|problem states|problem says|question about|question asks|we are asked|we are told|we are given|suppose|assume|candidates|possible answers|options are
        |choices are|torn|undecided|each option|every option|all options|you might|you may think|könnte meinen|man denkt|zunächst|zuerst|on pourrait croire|on pourrait penser|d'abord|podría pensar|al principio
        |有人认为|起初|一开始|最初|сначала|можно подумать|some believe|others believe|others argue|some argue|critics|rumor|rumour|alleged|allegedly|reportedly|if not|guess of others|would have been|could have been|was expected|asks|claims that
        |option \(?[a-j]\)? says|option \(?[a-j]\)? states|option \(?[a-j]\)? reads|option \(?[a-j]\)? mentions""",
    Mark.SOFT: """maybe|perhaps|possibly|might be|could be|may be|could also be|might also be|can be|if|otherwise|seems|seem|appears|looks like|unless|vielleicht|wenn|sonst
        |möglicherweise|peut-être|si|sinon|quizás|quizá|tal vez|可能|也许|如果|かもしれ|もし|возможно|если|может быть""",
    Mark.CORRECT: r"""wait|actually|hmm+|hm|correction|corrected|scratch that|sorry|apologies|i apologize|i mean|i meant|on second thoughts?|on reflection|looking again|or rather
        |upon review|upon reflection|upon closer|on closer|closer look|let me reconsider|let me re-?check|let me recompute|let me recalculate|let me correct|oops|my mistake|my bad|i made a mistake|i made an error
        |i made an arithmetic error|i misread|i miscounted|i forgot|instead|after checking|rechecking|double-checking|reconsidering|in fact|strike that|should have said|moment|nein|warte|halt
        |korrektur|attendez|non|en fait|pardon|espera|perdón|corrección|mejor dicho|等等|不对|更正|修正|待って|いや|訂正|подождите|нет|вернее|точнее|исправление|change my answer|changing my answer""",
    Mark.BECAUSE: """because|since|given that|due to|weil|denn|parce que|puisque|porque|ya que|因为|由于|なぜなら|потому что|так как|explanation|reason""",
    Mark.BUT: """but|however|yet|whereas|sondern|aber|jedoch|allerdings|mais|cependant|sino|pero|sin embargo|而是|但是|但|しかし|ではなく|でなく|じゃなく|но|а|однако|though|değil|değildir|नहीं|नहीं है|가 아니라|이 아니라|아니라|아니고|아닙니다|아니다""",
    Mark.OR: """or|also|alternatively|oder|auch|ou|aussi|o|también|或|或者|または|もしくは|или|также|and so does|so does|and so did|so did|and so is|so is""",
    Mark.REFUSAL: r"""cannot answer|can't answer|can't solve|cannot solve|could not solve|couldn't solve|cannot help|can't help|can't compute|unable to|not able to|isn't enough information|aren't enough data|not enough information|not enough data|not enough context|insufficient|cannot be determined|can't be determined|cannot determine|can't determine
        |cannot be answered|can't be answered|cannot say|can't say|cannot tell|can't tell|don't know|do not know|no idea|unclear|ambiguous|does not say|doesn't say|not mention|no information|refuse to|decline to|not possible to|impossible to
        |hard to say|keine ahnung|weiß nicht|nicht genug|je ne sais pas|no sé|无法|不知道|不确定|わかりません|分かりません|не знаю|невозможно|недостаточно|no answer""",
    Mark.SO: """so|therefore|thus|hence|consequently|then|also folglich|deshalb|daher|donc|por lo tanto|así que|所以|因此|よって|したがって|поэтому|значит|and so|leaves|leaving""",
}  # fmt: skip
_NEGATED_VERB: Final = (
    r"(?:is|was|are|were|do|does|did|ca|could|would|wo|should|must|might|has|had|have)n['’]t|can['’]t|won['’]t"
)


def _phrases() -> dict[str, int]:
    table: dict[str, int] = {}
    for mark, words in _WORDS.items():
        for phrase in words.split("|"):
            table[phrase.strip() or phrase] = mark
    return table


_TABLE: Final = _phrases()


def _spaced(phrase: str) -> bool:
    return phrase[0] < "\u3000"


def _alternation(words: list[str]) -> str:
    """One expression for many words: literal ones as a trie, so that the engine tries few branches at each place."""
    patterns = [word for word in words if any(sign in word for sign in "?+(")]
    trie: dict[str, Any] = {}
    for word in words:
        if word not in patterns:
            node = trie
            for sign in word:
                node = node.setdefault(sign, {})
            node[""] = {}
    return "|".join([*patterns, *([_branches(trie)] if trie else [])])


def _branches(node: dict[str, Any]) -> str:
    parts = [re.escape(sign) + _branches(rest) for sign, rest in node.items() if sign]
    if not parts:
        return ""
    # The longest word first: where one may end, the longer ones are tried before.
    ends = "" in node
    return parts[0] if len(parts) == 1 and not ends else f"(?:{'|'.join([*parts, *([''] if ends else [])])})"


def _compiled(phrases: list[str]) -> str:
    spaced = _alternation([one for one in phrases if _spaced(one)])
    joined = _alternation([one for one in phrases if not _spaced(one)])
    words = rf"(?<![\w'’])(?:{spaced})(?![\w])"
    return f"{words}|{joined}" if joined else words


def _group(mark: int) -> list[str]:
    return [phrase for phrase, its in _TABLE.items() if its == mark]


_EDGES: Final = r"[.!?…]+(?=[\s\"'”’)*_\]$]|\Z)|[。！？；;\n]+|[,，](?!\d)|、|\s[-–—]+\s(?![\d$€£])|—(?!\d)|[-=]>|→"
_WORD: Final = r"\w[\w'’]*"
_UNSPACED: Final = re.compile("[\u3000-\uabff\uac00-\ud7af\uff00-\uffef]")


class Scan:
    """Finds the phrases of the table (and ``edges``) in a text.

    Where words are parted by spaces only a word that begins some phrase is looked at: a tenth of the cost of a search.
    """

    def __init__(self, phrases: list[str], edges: str = "") -> None:
        self._phrases, self._edges = phrases, edges
        self._tokens = re.compile(f"{_WORD}|{edges}" if edges else _WORD)
        self._verbs = bool(edges)
        self._first = {found[0].rstrip("+") for one in phrases if (found := re.match(_WORD, one))}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Made on first use: it is large, and a run may have nothing to score."""
        verbs = rf"|(?<![\w'’])(?:{_NEGATED_VERB})(?!\w)|{self._edges}" if self._edges else ""
        return re.compile(_compiled(self._phrases) + verbs, re.IGNORECASE)

    def finditer(self, text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
        """The matches in [start, end)."""
        end = len(text) if end is None else end
        if not text.isascii() and _UNSPACED.search(text, start, end):
            yield from self._pattern.finditer(text, start, end)
            return
        past, first, match_at = start, self._first, self._pattern.match
        for token in self._tokens.finditer(text, start, end):
            if token.start() < past:
                continue
            word = token[0].lower()
            if word in first or word[:2] == "hm" or (self._verbs and word[-2:] in ("'t", "’t")):
                match = match_at(text, token.start(), end)
                if match is not None:
                    past = match.end()
                    yield match
            elif self._verbs and not (word[0].isalnum() or word[0] == "_"):
                yield token

    def search(self, text: str, start: int = 0, end: int | None = None) -> re.Match[str] | None:
        """The first match in [start, end)."""
        return next(self.finditer(text, start, end), None)


SCAN: Final = Scan(list(_TABLE), _EDGES)
CORRECTION: Final = Scan(
    [*_group(Mark.CORRECT), *(one for one in _group(Mark.WRONG) if one not in ("tempting", "plausible"))]
)
REFUSAL: Final = Scan(_group(Mark.REFUSAL))
_PATTERNED: Final = [(re.compile(one, re.I), mark) for one, mark in _TABLE.items() if any(c in one for c in "?+(")]
_IF_PAUSED: Final = frozenset(("no", "non", "nein", "moment", "halt", "нет"))


def mark_of(word: str, following: str) -> int | None:
    """What a word found by SCAN does, given the two letters behind it; None for an edge."""
    lower = word.lower()
    if lower in _IF_PAUSED:
        paused = following[:1] in tuple(",:.!…—–") or following in (" -", " –", " —")
        denies = lower == "no" or (lower == "non" and following[:1] == " ")
        return Mark.CORRECT if paused else Mark.NOT if denies else Mark.PLAIN
    known = _TABLE.get(lower)
    if known is not None:
        return known
    if not word[0].isalpha():
        return None
    return Mark.NOT if lower.endswith("t") and lower[-2] in "'’" else _patterned(lower)


def is_opinion(word: str) -> bool:
    """Whether a CONTRARY word speaks of the clause that follows it: "one might think, ..."."""
    return word.lower().endswith(
        ("think", "meinen", "croire", "penser", "pensar", "believe", "say", "denkt", "guess", "подумать", "认为")
    )


def _patterned(word: str) -> int | None:
    return next((mark for pattern, mark in _PATTERNED if pattern.fullmatch(word)), None)


# Words on which no sentence ends: a text that does was cut off.
_UNFINISHED: Final = frozenset(
    """the an that to of and or then is are was we it this with for in on by which if as be would not from at so its their his
    her times because whether than but first next these those who where when while will can one they he she you i""".split()  # noqa: SIM905
)
_OPERATORS: Final = frozenset("-+=×÷/(")
_OFFER: Final = re.compile(
    r"\W*(?:let me know|would you like|do you want|shall i|should i|can i help|any (?:other|more|further)|feel free|i hope|hope this|is there anything|if you (?:have|need|want)|good luck|happy to)\b",
    re.IGNORECASE,
)
_TASK: Final = re.compile(
    r"\W*(?:calculate|compute|find|determine|evaluate|solve|how (?:many|much|long|far|old)|what|which|who|when|where|why|simplify|express|let|suppose|given|answer the following|please)\b",
    re.IGNORECASE,
)


def cut_off(text: str) -> bool:
    """Whether a text ends in the middle of a sentence."""
    words = text[-40:].rstrip(" \t\n\r,:").split()
    if not words:
        return False
    last = words[-1].lstrip("(*_\"'“‘[$")
    return last == "a" or last.lower() in _UNFINISHED or (len(words) > 1 and words[-1] in _OPERATORS)


def is_offer(sentence: str) -> bool:
    """A closing politeness that says nothing of the answer."""
    return _OFFER.match(sentence) is not None


def is_task(sentence: str) -> bool:
    """A sentence that asks or sets a task, not one that answers."""
    return _TASK.match(sentence) is not None or sentence.rstrip(" *_\"'”)").endswith(("?", "？"))


# A line that begins another, invented task after the answer.
NEXT_TASK: Final = re.compile(
    r"""^[ \t#*_>-]{0,8}(?:(?:next|another|new|follow-?up)[ ](?:question|problem|task)|question|problem|passage|exercise|context|input|human|user
    |frage|aufgabe|question|problème|pregunta|problema|问题|题目|問題|質問|вопрос|задача)(?:[ ]?\#?\d{1,3})?[ ]?[*_]{0,2}[:：.)][ *_\n]
    |^[ \t#*_>-]{0,8}Q\d{0,3}[:：][ *_\n]
    |^[^\n]{8,300}\?[ *_]*\n\s{0,3}(?:[ \t*-]{0,4}\(?A[).:]|\uf8ff)
    |^[ \t]*<\|(?:im_start|start_header_id|user|endoftext)\|?>|^[ \t]*\[INST\]""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
