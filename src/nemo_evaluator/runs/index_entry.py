"""What the index keeps of a row, from the records of a journal or from a line of ``results.jsonl``."""

from __future__ import annotations

import re
from typing import Any, Final

from nemo_evaluator.core.failures import POLICY, Cause, RowOutcome
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row, category_of
from nemo_evaluator.store.records import ANSWER, OUTCOME, total_tokens
from nemo_evaluator.store.view_rows import TRUNCATED, is_refusal, is_tripped

TRUNCATED_FLAG: Final = 1
UNPARSED_FLAG: Final = 2
REFUSED_FLAG: Final = 4
TRIPPED_FLAG: Final = 8
# The cause of a row that is there and that no parser of ours reads.
UNREADABLE: Final = "unreadable"
# Where a line says which step it is of, and how near its beginning.
STEP_OF_LINE: Final = re.compile(rb'"problem_idx":\s?(\d{1,18}),\s?"repeat":\s?(\d{1,18})[,}]')
STEP_WITHIN: Final = 200
# A row's number: problems above, repeats in the lower bits, so that the order of numbers is the order of rows.
REPEAT_BITS: Final = 20
_MOST: Final = 1 << (62 - REPEAT_BITS)
_ABSENT: Final = frozenset(cause.value for cause in Cause if POLICY[cause].row is RowOutcome.ABSENT)
_KINDS: Final = (float, str, int, float, str)
# Number, offset, length, offset of the answer, reward, cause, category, finish reason, tokens, latency, flags, cost.
Entry = tuple[Any, ...]
_NO_ANSWER: Final[Entry] = (None, None, 0, None, 0, None, None)


def journal_entry(
    answers: dict[int, Entry], offset: int, length: int, record: JsonDict
) -> Entry | None:
    """The entry that the record of an outcome makes, unless its step was cancelled. An answer waits for its outcome in
    ``answers``, by number: where it begins, and what the row takes from it."""
    kind = record.get("kind")
    if kind == ANSWER:
        finish = record.get("finish_reason")
        flags = TRUNCATED_FLAG if finish in TRUNCATED else 0
        if is_refusal(record.get("response") or "", finish):
            flags |= REFUSED_FLAG
        meta = record.get("metadata")
        if type(meta) is dict:
            category = meta.get("category")
        else:
            category = None
        tokens = total_tokens(record)
        latency = record.get("latency_ms")
        cost = record.get("cost_usd")
        facts = offset, _clean(finish), tokens, latency, flags, category, cost
        answers[(record["problem_idx"] << REPEAT_BITS) | record["repeat"]] = facts
        return None
    if kind != OUTCOME:
        return None
    number = (record["problem_idx"] << REPEAT_BITS) | record["repeat"]
    answer, finish, tokens, latency, flags, category, cost = answers.pop(number, _NO_ANSWER)
    if record["status"] == "failed":
        cause: Any | None = record["failure"]["cause"]
    else:
        cause = None
    if cause in _ABSENT:
        return None
    details = record.get("scoring_details")
    if details:
        if details.get("unparsed"):
            flags |= UNPARSED_FLAG
        if details.get("tripwires"):
            flags |= TRIPPED_FLAG
    category = _clean(category_of(record) if category is None else category)
    reward = record.get("reward")
    return (
        number,
        offset,
        length,
        answer,
        reward,
        cause,
        category,
        finish,
        tokens,
        latency,
        flags,
        cost,
    )


def row_entry(offset: int, length: int, data: JsonDict) -> Entry | None:
    """The entry of a line of ``results.jsonl``, whoever wrote it; None when it does not say which step it is of."""
    plain = _plain(offset, length, data)
    if plain is not None:
        return plain
    row = Row(data)
    problem, repeat = row.key
    if (
        type(data.get("problem_idx")) is not int
        or not 0 <= repeat < 1 << REPEAT_BITS
        or not -_MOST < problem < _MOST
    ):
        return None
    flags = (
        row.truncated * TRUNCATED_FLAG | row.unparsed * UNPARSED_FLAG | row.refused * REFUSED_FLAG
    )
    flags |= is_tripped(row.data) * TRIPPED_FLAG
    at = (problem << REPEAT_BITS) | repeat, offset, length, None, row.reward, row.cause or None
    return (*at, row.category, row.finish_reason, row.tokens, row.latency_ms, flags, row.cost_usd)


def unreadable_entry(offset: int, length: int, line: bytes) -> Entry | None:
    """The entry of a line that cannot be parsed; None when its beginning does not say which step it is of."""
    place = STEP_OF_LINE.search(line, 0, STEP_WITHIN)
    if place is None or not line.endswith(b"\n"):
        # A line without an end was cut off: it is lost, and the run can be resumed.
        return None
    problem = int(place[1])
    repeat = int(place[2])
    if problem >= _MOST or repeat >= 1 << REPEAT_BITS:
        return None
    number = (problem << REPEAT_BITS) | repeat
    return number, offset, length, None, None, UNREADABLE, None, None, None, None, 0, None


def _plain(offset: int, length: int, data: JsonDict) -> Entry | None:
    """The same of a scored row as nel writes it, in a fifth of the time; None for any other."""
    get = data.get
    reward = get("reward")
    finish = get("finish_reason")
    tokens = get("tokens")
    latency = get("latency_ms")
    text = get("model_response")
    details = get("scoring_details")
    meta = get("metadata")
    cost = get("cost_usd")
    repeat = get("repeat")
    problem = get("problem_idx")
    kinds = (type(reward), type(finish), type(tokens), type(latency), type(text))
    if (
        kinds != _KINDS
        or type(details) is not dict
        or type(meta) is not dict
        or type(repeat) is not int
    ):
        return None
    if (
        get("status") != "scored"
        or get("failure")
        or (cost is not None and type(cost) is not float)
    ):
        return None
    if type(problem) is not int or not 0 <= problem < _MOST or not 0 <= repeat < 1 << REPEAT_BITS:
        return None
    flags = TRUNCATED_FLAG if finish in TRUNCATED else 0
    if details.get("unparsed") or get("unparsed"):
        flags |= UNPARSED_FLAG
    if is_refusal(str(text), finish):
        flags |= REFUSED_FLAG
    if details.get("tripwires"):
        flags |= TRIPPED_FLAG
    category = meta.get("category")
    if type(category) is not str:
        category = category_of(data)
    number = (problem << REPEAT_BITS) | repeat
    return (
        number,
        offset,
        length,
        None,
        reward,
        None,
        category,
        finish,
        tokens,
        latency,
        flags,
        cost,
    )


def _clean(word: Any) -> Any:
    """A word of a record without secrets: the journal masks its lines as it writes them, which is later."""
    if word is None or word == "stop":
        return word
    return scrub(str(word))
