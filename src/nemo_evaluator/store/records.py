"""The records of the journal: one answer and one outcome per sample."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import (
    JsonDict,
    Message,
    ModelResponse,
    Outcome,
    Scored,
    SeedResult,
    SolveResult,
    Step,
)

if TYPE_CHECKING:
    from nemo_evaluator.store.journal_record import (
        AnswerRecord,
        OutcomeRecord,
        Timing,
        TurnRecord,
    )

ANSWER: Final = "answer"
OUTCOME: Final = "outcome"
TURN: Final = "turn"
RUN: Final = "run"
_INLINE_DATA: Final = 256


def answer_record(
    step: Step,
    fingerprint: str,
    problem: str,
    seed: SeedResult,
    answer: SolveResult,
    label: Cause | None,
) -> AnswerRecord:
    """Build the record of a question and its answer.

    Args:
        step: The sample.
        fingerprint: The answer's fingerprint.
        problem: The hash of the problem.
        seed: The problem as the benchmark gave it.
        answer: The solver's answer.
        label: Why the answer is incomplete, if it is.
    """
    record: AnswerRecord = {
        "kind": ANSWER,
        "problem_idx": step.problem_idx,
        "repeat": step.repeat,
        "fp": fingerprint,
        "at": int(time.time() * 1000) / 1000,
    }
    _add_question(record, seed, answer, problem=problem)
    record["response"] = answer.response
    if answer.model_response is not None:
        _add_reply(record, answer.model_response, response=answer.response)
    if answer.trajectory:
        record["trajectory"] = answer.trajectory
    if answer.reward is not None:
        record["solver_reward"] = answer.reward
    if answer.scoring_details:
        record["solve_details"] = answer.scoring_details
    if answer.error:
        record["error"] = answer.error
    if label is not None:
        record["label"] = label
    return record


def _add_reply(record: AnswerRecord, reply: ModelResponse, *, response: str) -> None:
    """Add the model's reply to a record.

    Values that follow from others are left out, because a run has many rows.

    Args:
        record: The record of an answer.
        reply: The reply.
        response: The solver's answer, which is mostly the text of the reply.
    """
    if reply.content != response:
        record["content"] = reply.content
    prompt_tokens = reply.prompt_tokens
    completion_tokens = reply.completion_tokens
    record["model"] = reply.model
    record["finish_reason"] = reply.finish_reason
    record["prompt_tokens"] = prompt_tokens
    record["completion_tokens"] = completion_tokens
    record["latency_ms"] = round(reply.latency_ms, 2)
    if reply.total_tokens != (prompt_tokens or 0) + (completion_tokens or 0):
        record["total_tokens"] = reply.total_tokens
    if reply.attempts != 1:
        record["attempts"] = reply.attempts
    if reply.reasoning_tokens:
        record["reasoning_tokens"] = reply.reasoning_tokens
    if reply.cached_tokens:
        record["cached_tokens"] = reply.cached_tokens
    if reply.reasoning_content:
        record["reasoning_content"] = reply.reasoning_content
    if reply.time_to_first_token_ms:
        record["time_to_first_token_ms"] = reply.time_to_first_token_ms
    if reply.queue_ms:
        record["queue_ms"] = reply.queue_ms
    if reply.cost_usd:
        record["cost_usd"] = reply.cost_usd
    if reply.from_cache:
        record["from_cache"] = reply.from_cache


def outcome_record(
    step: Step, fingerprint: str, outcome: Outcome, timing: Timing, of: str | None
) -> OutcomeRecord:
    """Build the record of a sample's outcome.

    Args:
        step: The sample.
        fingerprint: The verdict's fingerprint.
        outcome: The verdict or the failure.
        timing: How long each part took.
        of: The checksum of the answer record that the outcome belongs to.
    """
    record: OutcomeRecord = {
        "kind": OUTCOME,
        "problem_idx": step.problem_idx,
        "repeat": step.repeat,
        "fp": fingerprint,
        "status": "scored" if isinstance(outcome, Scored) else "failed",
    }
    if isinstance(outcome, Scored):
        verdict = outcome.verdict
        record["reward"] = float(verdict.reward)
        record["scoring_details"] = verdict.scoring_details
        if verdict.extracted_answer != verdict.scoring_details.get("extracted"):
            record["extracted_answer"] = verdict.extracted_answer
        if verdict.metadata:
            record["scoring_metadata"] = verdict.metadata
        if outcome.label is not None:
            record["label"] = outcome.label
    else:
        failure = outcome.failure
        record["failure"] = {"cause": failure.cause, "message": failure.message}
        record["attempts"] = failure.attempts
    record["timing"] = timing
    if of:
        record["of"] = of
    return record


def extracted_of(outcome: OutcomeRecord) -> object:
    """Return the extracted answer of an outcome record, which may be stored only in the scoring details."""
    details = outcome.get("scoring_details") or {}
    if "extracted_answer" in outcome:
        return outcome["extracted_answer"]
    return details.get("extracted")


def unanswered(record: OutcomeRecord, seed: SeedResult, problem: str) -> OutcomeRecord:
    """Add the question to the record of an outcome without an answer, so that its row is complete."""
    record["at"] = round(time.time(), 3)
    _add_question(record, seed, None, problem=problem)
    return record


def turn_record(step: Step, turn: JsonDict) -> TurnRecord:
    """Build the record of one turn of an agent, written while the agent runs."""
    return {"kind": TURN, "problem_idx": step.problem_idx, "repeat": step.repeat, "turn": turn}


def total_tokens(answer: Mapping[str, Any]) -> int:
    """Return the tokens of an answer record: the recorded total, or prompt and completion tokens together."""
    if "total_tokens" in answer:
        return answer["total_tokens"] or 0
    return (answer.get("prompt_tokens") or 0) + (answer.get("completion_tokens") or 0)


def _add_question(
    record: AnswerRecord | OutcomeRecord, seed: SeedResult, answer: SolveResult | None, problem: str
) -> None:
    """Add the question to a record: the messages or prompt that were sent, the expected answer and the metadata."""
    record["problem_hash"] = problem
    messages = seed.messages
    prompt: Any = seed.prompt
    if answer and answer.model_response and answer.model_response.request_body:
        # What was sent can differ from what the benchmark gave.
        body = answer.model_response.request_body
        messages = body.get("messages")
        prompt = body.get("prompt", seed.prompt)
    if messages is not None:
        record["messages"] = _without_image_data(messages) if seed.images else messages
        if last_user_text(messages) != seed.prompt:
            record["prompt"] = seed.prompt
    else:
        record["prompt"] = prompt if isinstance(prompt, str) else seed.prompt
    record["expected_answer"] = seed.expected_answer
    record["metadata"] = seed.stored_metadata()


def last_user_text(messages: list[Message]) -> str:
    """Return the text of the last user message."""
    for message in reversed(messages):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        if isinstance(content, str):
            return content
        if isinstance(content, list):
            texts = [part.get("text", "") for part in content if part.get("type") == "text"]
            return "\n".join(texts)
    return ""


def _without_image_data(messages: list[Message]) -> list[Message]:
    """Replace long inline image data in messages by its digest, so that records stay small."""
    short_messages: list[Message] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            short_parts = [_with_short_image(part) for part in content]
            short_messages.append(message | {"content": short_parts})
        else:
            short_messages.append(message)
    return short_messages


def _with_short_image(part: JsonDict) -> JsonDict:
    """Return a part of a message, with long image data replaced by its digest."""
    image = part.get("image_url")
    if not isinstance(image, dict):
        return part
    url = str(image.get("url", ""))
    if len(url) <= _INLINE_DATA:
        return part
    media_type = url.partition(",")[0]
    digest = hashlib.sha256(url.encode()).hexdigest()
    return part | {"image_url": image | {"url": f"{media_type},sha256:{digest}"}}
