"""The records of the journal: one answer and one outcome per sample."""

import hashlib
import time
from operator import attrgetter
from typing import Any, Final

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.types import (
    JsonDict,
    Message,
    Outcome,
    Scored,
    SeedResult,
    SolveResult,
    Step,
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
) -> JsonDict:
    """Build the record of a question and its answer.

    Args:
        step: The sample.
        fingerprint: The answer's fingerprint.
        problem: The hash of the problem.
        seed: The problem as the benchmark gave it.
        answer: The solver's answer.
        label: Why the answer is incomplete, if it is.
    """
    record: JsonDict = {
        "kind": ANSWER,
        "problem_idx": step.problem_idx,
        "repeat": step.repeat,
        "fp": fingerprint,
        "at": int(time.time() * 1000) / 1000,
    }
    _add_asked(record, seed, answer, problem=problem)
    record["response"] = answer.response
    reply = answer.model_response
    if reply is not None:
        if reply.content != answer.response:
            record["content"] = reply.content
        prompt = reply.prompt_tokens
        completion = reply.completion_tokens
        record["model"] = reply.model
        record["finish_reason"] = reply.finish_reason
        record["prompt_tokens"] = prompt
        record["completion_tokens"] = completion
        record["latency_ms"] = round(reply.latency_ms, 2)
        # Values that follow from others are left out, because a run has many rows.
        if reply.total_tokens != (prompt or 0) + (completion or 0):
            record["total_tokens"] = reply.total_tokens
        if reply.attempts != 1:
            record["attempts"] = reply.attempts
        optional = _optional(reply)
        if any(optional):
            for key, value in zip(_OPTIONAL_REPLY, optional, strict=True):
                if value:
                    record[key] = value
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


_OPTIONAL_REPLY: Final = (
    "reasoning_tokens",
    "cached_tokens",
    "reasoning_content",
    "time_to_first_token_ms",
    "queue_ms",
    "cost_usd",
    "from_cache",
)
_optional: Final = attrgetter(*_OPTIONAL_REPLY)


def outcome_record(
    step: Step, fingerprint: str, outcome: Outcome, timing: JsonDict, of: str | None
) -> JsonDict:
    """Build the record of a sample's outcome.

    Args:
        step: The sample.
        fingerprint: The verdict's fingerprint.
        outcome: The verdict or the failure.
        timing: How long each part took.
        of: The checksum of the answer record that the outcome belongs to.
    """
    record: JsonDict = {
        "kind": OUTCOME,
        "problem_idx": step.problem_idx,
        "repeat": step.repeat,
        "fp": fingerprint,
    }
    if isinstance(outcome, Scored):
        verdict = outcome.verdict
        record["status"] = "scored"
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
        record |= {
            "status": "failed",
            "failure": {"cause": failure.cause, "message": failure.message},
            "attempts": failure.attempts,
        }
    record["timing"] = timing
    if of:
        record["of"] = of
    return record


def extracted_of(outcome: JsonDict) -> object:
    """Return the extracted answer of an outcome record, which may be stored only in the scoring details."""
    details = outcome.get("scoring_details") or {}
    if "extracted_answer" in outcome:
        return outcome["extracted_answer"]
    return details.get("extracted")


def unanswered(record: JsonDict, seed: SeedResult, problem: str) -> JsonDict:
    """Add the question to the record of an outcome without an answer, so that its row is complete."""
    record["at"] = round(time.time(), 3)
    _add_asked(record, seed, None, problem=problem)
    return record


def turn_record(step: Step, turn: JsonDict) -> JsonDict:
    """Build the record of one turn of an agent, written while the agent runs."""
    return {"kind": TURN, "problem_idx": step.problem_idx, "repeat": step.repeat, "turn": turn}


def total_tokens(answer: JsonDict) -> int:
    """Return the tokens of an answer record: the recorded total, or prompt and completion tokens together."""
    if "total_tokens" in answer:
        return answer["total_tokens"] or 0
    return (answer.get("prompt_tokens") or 0) + (answer.get("completion_tokens") or 0)


def _add_asked(asked: JsonDict, seed: SeedResult, answer: SolveResult | None, problem: str) -> None:
    """Add the question to a record: the messages or prompt that were sent, the expected answer and the metadata."""
    if answer and answer.model_response:
        body = answer.model_response.request_body
    else:
        body = None
    asked["problem_hash"] = problem
    if body:
        messages: Any = body.get("messages")
    else:
        messages = seed.messages
    if messages is not None:
        if seed.images:
            asked["messages"] = _without_image_data(messages)
        else:
            asked["messages"] = messages
        if last_user_text(messages) != seed.prompt:
            asked["prompt"] = seed.prompt
    else:
        if body:
            sent_prompt: Any | str = body.get("prompt", seed.prompt)
        else:
            sent_prompt = seed.prompt
        if isinstance(sent_prompt, str):
            asked["prompt"] = sent_prompt
        else:
            asked["prompt"] = seed.prompt
    asked["expected_answer"] = seed.expected_answer
    asked["metadata"] = seed.stored_metadata()


def last_user_text(messages: list[Message]) -> str:
    """Return the text of the last user message."""
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            if isinstance(content, list):
                return "\n".join(
                    part.get("text", "") for part in content if part.get("type") == "text"
                )
    return ""


def _without_image_data(messages: list[Message]) -> list[Message]:
    """Replace long inline image data in messages by its digest, so that records stay small."""

    def slim(part: JsonDict) -> JsonDict:
        """Return a part of a message, with long image data replaced by its digest."""
        image = part.get("image_url")
        if isinstance(image, dict) and len(str(image.get("url", ""))) > _INLINE_DATA:
            url = str(image["url"])
            kind = url.partition(",")[0]
            return part | {
                "image_url": image
                | {"url": f"{kind},sha256:{hashlib.sha256(url.encode()).hexdigest()}"}
            }
        return part

    slim_messages: list[dict[str, Any]] = []
    for message in messages:
        slim_messages.append(
            message | {"content": [slim(part) for part in content]}
            if isinstance(content := message.get("content"), list)
            else message
        )
    return slim_messages
