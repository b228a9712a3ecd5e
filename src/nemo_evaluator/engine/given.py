"""Checks of what solvers and scorers return, before it is counted: they may be third-party code."""

import math
from operator import attrgetter
from typing import Any, Final

from nemo_evaluator.core.errors import ScorerError, SolverError
from nemo_evaluator.core.json_coerce import as_count, as_dict, as_number, as_word
from nemo_evaluator.core.text import text_of
from nemo_evaluator.core.types import ModelResponse, SolveResult, VerifyResult

_TEXTS: Final = ("content", "model", "finish_reason")
_COUNTS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cached_tokens",
)
_NUMBERS: Final = ("latency_ms", "queue_ms", "time_to_first_token_ms", "cost_usd")
_texts = attrgetter(*_TEXTS)
_counts = attrgetter(*_COUNTS)
_numbers = attrgetter(*_NUMBERS)
_LONGEST: Final = 100
_MOST: Final = 10**15


def checked_answer(answer: Any) -> SolveResult:
    """Return a solver's answer with every field converted to its declared type.

    Args:
        answer: What ``solve()`` returned.

    Raises:
        SolverError: If it is not a SolveResult.
        ScorerError: If its reward is not a finite number.
    """
    if not isinstance(answer, SolveResult):
        raise SolverError(f"solve() returned {type(answer).__name__}", hint="return a SolveResult")
    if type(answer.response) is not str:
        answer.response = "" if answer.response is None else text_of(answer.response)
    if answer.reward is not None:
        answer.reward = checked_reward(answer.reward)
    if type(answer.scoring_details) is not dict:
        answer.scoring_details = as_dict(answer.scoring_details)
    reply = answer.model_response
    if reply is not None and type(reply.raw_response) is dict:
        _check_reply(reply)
    return answer


def _check_reply(reply: ModelResponse) -> None:
    """Convert the fields of a model's reply that have the wrong type or are out of range.

    It runs for every answer, so the usual case costs one comparison per field.
    """
    for name, value in zip(_TEXTS, _texts(reply), strict=True):
        if type(value) is not str:
            setattr(reply, name, as_word(value))
    for name, value in zip(_COUNTS, _counts(reply), strict=True):
        is_valid_count = value is None or (type(value) is int and 0 <= value < _MOST)
        if not is_valid_count:
            setattr(reply, name, as_count(value))
    for name, value in zip(_NUMBERS, _numbers(reply), strict=True):
        is_valid_number = value is None or (type(value) is float and 0.0 <= value < _MOST)
        if not is_valid_number:
            setattr(reply, name, as_number(value) or 0.0)


def checked_verdict(verdict: Any) -> VerifyResult:
    """Return a scorer's verdict with a finite reward and a text as the extracted answer.

    Args:
        verdict: What the scorer returned.

    Raises:
        ScorerError: If it is not a VerifyResult, its reward is not a finite number, or its details are not dicts.
    """
    if not isinstance(verdict, VerifyResult):
        raise ScorerError(
            f"the scorer returned {type(verdict).__name__}", hint="return a VerifyResult"
        )
    verdict.reward = checked_reward(verdict.reward)
    if type(verdict.scoring_details) is not dict or type(verdict.metadata) is not dict:
        raise ScorerError(
            "the scorer's details are not a mapping", hint="scoring_details and metadata are dicts"
        )
    if verdict.extracted_answer is not None and type(verdict.extracted_answer) is not str:
        verdict.extracted_answer = text_of(verdict.extracted_answer)
    return verdict


def checked_reward(reward: Any) -> float:
    """Convert a reward to a finite float.

    Raises:
        ScorerError: If it is text, NaN, infinite or not convertible.
    """
    if isinstance(reward, str):
        # float() would accept the text of a number, but a text is a mistake of the scorer.
        number = math.nan
    else:
        try:
            number = float(reward)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise ScorerError(f"the reward is not a finite number: {text_of(reward)[:_LONGEST]}")
    return number
