"""Builds the rows of the result files from the journal's records of one sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.json_coerce import as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.records import extracted_of, last_user_text, total_tokens

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument
    from nemo_evaluator.store.journal_record import (
        AnswerRecord,
        OutcomeRecord,
        QuestionFields,
        ReplyFields,
    )
    from nemo_evaluator.store.result_row import ReplyPart, ReplyTokens, ResultRow, TrajectoryRow

# Finish reasons that mean a truncated answer.
TRUNCATED: Final = frozenset({"length", "max_tokens"})
_REFUSALS: Final = (
    "i cannot",
    "i can't",
    "i'm unable",
    "i am unable",
    "i don't have the ability",
    "as an ai",
    "i'm sorry, but",
    "i apologize",
)
_HEAD: Final = 160
_NO_REPLY: Final[ReplyFields] = {}


def prompt_of(record: QuestionFields) -> str:
    """Return the prompt of a sample, after its template was applied."""
    if "prompt" in record:
        return str(record["prompt"])
    return last_user_text(record.get("messages") or [])


def result_row(answer: AnswerRecord | None, outcome: OutcomeRecord) -> ResultRow:
    """Build a row of results.jsonl.

    Args:
        answer: The record of the sample's answer, if it has one.
        outcome: The record of its outcome.
    """
    # An outcome without an answer contains the question itself.
    question: QuestionFields = answer or outcome
    reply: ReplyFields = answer or _NO_REPLY
    details = outcome.get("scoring_details", {})
    metadata = question.get("metadata", {})
    scoring_metadata = outcome.get("scoring_metadata")
    if scoring_metadata:
        metadata = metadata | scoring_metadata
    row: ResultRow = {
        "problem_idx": outcome["problem_idx"],
        "repeat": outcome["repeat"],
        "status": outcome["status"],
        "reward": outcome.get("reward"),
        "scorer_rewards": scorer_rewards(details),
        "prompt": prompt_of(question),
        "model_response": reply.get("response", ""),
        "extracted_answer": extracted_of(outcome),
        "expected_answer": question.get("expected_answer", ""),
        "scoring_details": details,
        "metadata": metadata,
        "tokens": total_tokens(answer) if answer else 0,
        "prompt_tokens": reply.get("prompt_tokens"),
        "completion_tokens": reply.get("completion_tokens"),
        "finish_reason": reply.get("finish_reason", ""),
        "latency_ms": reply.get("latency_ms", 0.0),
        "queue_ms": reply.get("queue_ms", 0.0),
        "failure": outcome.get("failure"),
        "attempts": int(outcome.get("attempts") or reply.get("attempts") or 1),
        "problem_hash": question.get("problem_hash", ""),
    }
    cluster = outcome.get("cluster")
    if cluster:
        row["cluster"] = cluster
    if details.get("unparsed"):
        row["unparsed"] = True
    if outcome.get("label"):
        row["label"] = outcome["label"]
    cost_usd = reply.get("cost_usd")
    if cost_usd:
        row["cost_usd"] = cost_usd
    trajectory = answer.get("trajectory") if answer is not None else None
    if trajectory:
        row["trajectory"] = trajectory
    return row


def trajectory_row(
    answer: AnswerRecord | None,
    outcome: OutcomeRecord,
    result: ResultRow,
    trajectory: list[TrajectoryDocument],
    category: str | None,
) -> TrajectoryRow:
    """Build a row of trajectories.jsonl.

    Args:
        answer: The record of the sample's answer, if it has one.
        outcome: The record of its outcome.
        result: The sample's row of results.jsonl.
        trajectory: The conversation.
        category: The category of the failure, if the sample failed.
    """
    question: QuestionFields = answer or outcome
    fingerprint = (answer or outcome).get("fp") or outcome["fp"]
    details = result["scoring_details"]
    row: TrajectoryRow = {
        "step_id": str(fingerprint)[:12],
        "problem_idx": result["problem_idx"],
        "repeat": result["repeat"],
        "timestamp": question.get("at"),
        "prompt": result["prompt"],
        "expected_answer": result["expected_answer"],
        "status": result["status"],
        "reward": result["reward"],
        "extracted_answer": result["extracted_answer"],
        "scoring_method": details.get("method", ""),
        "scoring_details": details,
        "seed_metadata": question.get("metadata", {}),
        "timing": outcome.get("timing", {}),
        "failure_category": category,
        "retries": result["attempts"] - 1,
    }
    if result["failure"]:
        row["failure"] = result["failure"]
    if answer and "finish_reason" in answer:
        row["model"] = _reply(answer, result)
    if answer and answer.get("error"):
        row["model_error"] = answer["error"]
    if trajectory:
        row["trajectory"] = trajectory
    return row


def _reply(answer: AnswerRecord, result: ResultRow) -> ReplyPart:
    """Return the model's reply as rows of trajectories.jsonl have it."""
    tokens: ReplyTokens = {
        "prompt": result["prompt_tokens"],
        "completion": result["completion_tokens"],
        "total": result["tokens"],
        "reasoning": answer.get("reasoning_tokens"),
    }
    return {
        "content": content_of(answer),
        "model": answer.get("model", ""),
        "finish_reason": answer["finish_reason"],
        "tokens": tokens,
        "latency_ms": answer.get("latency_ms"),
    }


def content_of(answer: ReplyFields) -> str:
    """Return the model's text, which can differ from the answer."""
    if "content" in answer:
        return str(answer["content"])
    return str(answer.get("response", ""))


def scorer_rewards(details: JsonDict) -> dict[str, float | None]:
    """Return the rewards of the extra scorers by ``scorer:<name>``."""
    rewards: dict[str, float | None] = {}
    for key, value in details.items():
        if type(value) is dict and key.startswith("scorer:"):
            rewards[key] = as_number(value.get("reward"))
    return rewards


def is_tripped(row: Mapping[str, Any]) -> bool:
    """Return whether the agent tried to access its own grading."""
    details = row.get("scoring_details")
    return bool(type(details) is dict and details.get("tripwires"))


def is_refusal(text: str, finish_reason: str | None) -> bool:
    """Return whether an answer starts like a refusal or was filtered."""
    if finish_reason == "content_filter":
        return True
    beginning = text[:_HEAD].lower()
    if not beginning.isascii():
        beginning = beginning.replace("’", "'")
    # A plain loop, because this runs for every row.
    for phrase in _REFUSALS:  # noqa: SIM110
        if phrase in beginning:
            return True
    return False
