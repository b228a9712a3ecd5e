"""The index entry of a row, made from the records of a journal or from a line of ``results.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
# The cause of a row that exists but cannot be parsed.
UNREADABLE: Final = "unreadable"
# The problem and repeat in a line, and how many bytes from its beginning to search for them.
STEP_OF_LINE: Final = re.compile(rb'"problem_idx":\s?(\d{1,18}),\s?"repeat":\s?(\d{1,18})[,}]')
STEP_WITHIN: Final = 200
# A row's number has the problem in the upper and the repeat in the lower bits, so that numbers sort like rows.
REPEAT_BITS: Final = 20
_MOST: Final = 1 << (62 - REPEAT_BITS)
_ABSENT: Final = frozenset(cause.value for cause in Cause if POLICY[cause].row is RowOutcome.ABSENT)
_KINDS: Final = (float, str, int, float, str, dict, dict, int, int)
# Number, offset, length, offset of the answer, reward, cause, category, finish reason, tokens, latency, flags and cost.
Entry = tuple[Any, ...]
_NO_ANSWER: Final[Entry] = (None, None, 0, None, 0, None, None)


def journal_entry(
    answers: dict[int, Entry], offset: int, length: int, record: Mapping[str, Any]
) -> Entry | None:
    """Return the entry of an outcome's row; None for other records and for cancelled samples.

    An answer waits for its outcome in ``answers``, by row number, with its offset and the fields that its row needs.
    """
    kind = record.get("kind")
    if kind == ANSWER:
        number = (record["problem_idx"] << REPEAT_BITS) | record["repeat"]
        answers[number] = _answer_fields(offset, record)
    elif kind == OUTCOME:
        number = (record["problem_idx"] << REPEAT_BITS) | record["repeat"]
        answer_fields = answers.pop(number, _NO_ANSWER)
        return _outcome_entry(number, offset, length, record=record, answer_fields=answer_fields)
    return None


def _answer_fields(offset: int, record: Mapping[str, Any]) -> Entry:
    """Return the offset of an answer and the fields that its row needs."""
    get = record.get
    finish_reason = get("finish_reason")
    flags = TRUNCATED_FLAG if finish_reason in TRUNCATED else 0
    if is_refusal(get("response") or "", finish_reason):
        flags |= REFUSED_FLAG
    metadata = get("metadata")
    category = metadata.get("category") if type(metadata) is dict else None
    return (
        offset,
        _clean(finish_reason),
        total_tokens(record),
        get("latency_ms"),
        flags,
        category,
        get("cost_usd"),
    )


def _outcome_entry(
    number: int, offset: int, length: int, *, record: Mapping[str, Any], answer_fields: Entry
) -> Entry | None:
    """Return the entry of an outcome's row; None for a cancelled sample."""
    answer, finish_reason, tokens, latency, flags, category, cost = answer_fields
    cause = record["failure"]["cause"] if record["status"] == "failed" else None
    if cause in _ABSENT:
        return None
    details = record.get("scoring_details")
    if details:
        if details.get("unparsed"):
            flags |= UNPARSED_FLAG
        if details.get("tripwires"):
            flags |= TRIPPED_FLAG
    if category is None:
        category = category_of(record)
    return (
        number,
        offset,
        length,
        answer,
        record.get("reward"),
        cause,
        _clean(category),
        finish_reason,
        tokens,
        latency,
        flags,
        cost,
    )


def row_entry(offset: int, length: int, data: JsonDict) -> Entry | None:
    """Return the entry of a line of ``results.jsonl`` from any writer, or None if it does not name its sample."""
    plain_entry = _plain(offset, length, data)
    if plain_entry is not None:
        return plain_entry
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
    leading_fields = (
        (problem << REPEAT_BITS) | repeat,
        offset,
        length,
        None,
        row.reward,
        row.cause or None,
    )
    return (
        *leading_fields,
        row.category,
        row.finish_reason,
        row.tokens,
        row.latency_ms,
        flags,
        row.cost_usd,
    )


def unreadable_entry(offset: int, length: int, line: bytes) -> Entry | None:
    """Return the entry of a line that cannot be parsed, or None if its beginning does not name its sample."""
    step_match = STEP_OF_LINE.search(line, 0, STEP_WITHIN)
    if step_match is None or not line.endswith(b"\n"):
        # A line without a line break was cut off: it is lost, and the run can be resumed.
        return None
    problem = int(step_match[1])
    repeat = int(step_match[2])
    if problem >= _MOST or repeat >= 1 << REPEAT_BITS:
        return None
    number = (problem << REPEAT_BITS) | repeat
    return number, offset, length, None, None, UNREADABLE, None, None, None, None, 0, None


def _plain(offset: int, length: int, data: JsonDict) -> Entry | None:
    """Return the entry of a scored row in nel's own form, in a fifth of the time; None for any other row."""
    if not _is_plain(data):
        return None
    finish_reason = data["finish_reason"]
    details = data["scoring_details"]
    flags = TRUNCATED_FLAG if finish_reason in TRUNCATED else 0
    if details.get("unparsed") or data.get("unparsed"):
        flags |= UNPARSED_FLAG
    if is_refusal(data["model_response"], finish_reason):
        flags |= REFUSED_FLAG
    if details.get("tripwires"):
        flags |= TRIPPED_FLAG
    category = data["metadata"].get("category")
    if type(category) is not str:
        category = category_of(data)
    return (
        (data["problem_idx"] << REPEAT_BITS) | data["repeat"],
        offset,
        length,
        None,
        data["reward"],
        None,
        category,
        finish_reason,
        data["tokens"],
        data["latency_ms"],
        flags,
        data.get("cost_usd"),
    )


def _is_plain(data: JsonDict) -> bool:
    """Whether a row is scored, and its fields have the types and ranges that nel writes."""
    get = data.get
    value_types = (
        type(get("reward")),
        type(get("finish_reason")),
        type(get("tokens")),
        type(get("latency_ms")),
        type(get("model_response")),
        type(get("scoring_details")),
        type(get("metadata")),
        type(get("repeat")),
        type(get("problem_idx")),
    )
    if value_types != _KINDS or get("status") != "scored" or get("failure"):
        return False
    cost = get("cost_usd")
    if cost is not None and type(cost) is not float:
        return False
    problem: int = data["problem_idx"]
    repeat: int = data["repeat"]
    return 0 <= problem < _MOST and 0 <= repeat < 1 << REPEAT_BITS


def _clean(word: Any) -> Any:
    """Return a text of a record without secrets; the journal masks them only later, when it writes its lines."""
    if word is None or word == "stop":
        return word
    return scrub(str(word))
