"""Rows of the views, each made from the journal's records of one step."""

from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.records import extracted_of, last_user_text, total_tokens

# Reasons of a model to stop that mean a cut-off answer.
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


def prompt_of(record: JsonDict) -> str:
    """The prompt of a step, after its template."""
    if "prompt" in record:
        return str(record["prompt"])
    return last_user_text(record.get("messages") or [])


def result_row(answer: JsonDict | None, outcome: JsonDict) -> JsonDict:
    """A line of results.jsonl."""
    asked = answer or outcome
    details = outcome.get("scoring_details", {})
    row: JsonDict = {
        "problem_idx": outcome["problem_idx"],
        "repeat": outcome["repeat"],
        "status": outcome["status"],
        "reward": outcome.get("reward"),
        "scorer_rewards": scorer_rewards(details),
        "prompt": prompt_of(asked),
        "model_response": answer.get("response", "") if answer else "",
        "extracted_answer": extracted_of(outcome),
        "expected_answer": asked.get("expected_answer", ""),
        "scoring_details": details,
        "metadata": asked.get("metadata", {}) | outcome.get("scoring_metadata", {}),
        "tokens": total_tokens(answer) if answer else 0,
        "prompt_tokens": answer.get("prompt_tokens") if answer else None,
        "completion_tokens": answer.get("completion_tokens") if answer else None,
        "finish_reason": answer.get("finish_reason", "") if answer else "",
        "latency_ms": answer.get("latency_ms", 0.0) if answer else 0.0,
        "queue_ms": answer.get("queue_ms", 0.0) if answer else 0.0,
        "failure": outcome.get("failure"),
        "attempts": _attempts(answer, outcome),
        "problem_hash": asked.get("problem_hash", ""),
    }
    if is_unparsed(outcome):
        row["unparsed"] = True
    if outcome.get("label"):
        row["label"] = outcome["label"]
    if answer and answer.get("cost_usd"):
        row["cost_usd"] = answer["cost_usd"]
    if answer and answer.get("trajectory"):
        row["trajectory"] = answer["trajectory"]
    return row


def trajectory_row(
    answer: JsonDict | None, outcome: JsonDict, trajectory: list[JsonDict], category: str | None
) -> JsonDict:
    """A line of trajectories.jsonl."""
    asked = answer or outcome
    details = outcome.get("scoring_details", {})
    row: JsonDict = {
        "step_id": str(asked.get("fp") or outcome["fp"])[:12],
        "problem_idx": outcome["problem_idx"],
        "repeat": outcome["repeat"],
        "timestamp": asked.get("at"),
        "prompt": prompt_of(asked),
        "expected_answer": asked.get("expected_answer", ""),
        "status": outcome["status"],
        "reward": outcome.get("reward"),
        "extracted_answer": extracted_of(outcome),
        "scoring_method": details.get("method", ""),
        "scoring_details": details,
        "seed_metadata": asked.get("metadata", {}),
        "timing": outcome.get("timing", {}),
        "failure_category": category,
        "retries": _attempts(answer, outcome) - 1,
    }
    if outcome.get("failure"):
        row["failure"] = outcome["failure"]
    if answer and "finish_reason" in answer:
        row["model"] = {
            "content": content_of(answer),
            "model": answer.get("model", ""),
            "finish_reason": answer["finish_reason"],
            "tokens": {
                "prompt": answer.get("prompt_tokens"),
                "completion": answer.get("completion_tokens"),
                "total": total_tokens(answer),
                "reasoning": answer.get("reasoning_tokens"),
            },
            "latency_ms": answer.get("latency_ms"),
        }
    if answer and answer.get("error"):
        row["model_error"] = answer["error"]
    if trajectory:
        row["trajectory"] = trajectory
    return row


def content_of(answer: JsonDict) -> str:
    """What the model said, where that is not the answer itself."""
    return str(answer["content"] if "content" in answer else answer.get("response", ""))


def scorer_rewards(details: JsonDict) -> dict[str, Any]:
    """The rewards of the extra scorers, by ``scorer:<name>``."""
    return {
        key: as_number(value.get("reward"))
        for key, value in details.items()
        if key.startswith("scorer:") and isinstance(value, dict)
    }


def is_unparsed(outcome: JsonDict) -> bool:
    """True when a scored row had no answer that could be read."""
    return bool(outcome.get("scoring_details", {}).get("unparsed"))


def is_tripped(row: JsonDict) -> bool:
    """True when an agent was seen to reach for its own grading."""
    details = row.get("scoring_details")
    return bool(type(details) is dict and details.get("tripwires"))


def is_refusal(text: str, finish_reason: str | None) -> bool:
    """True for an answer that begins like a refusal, or was filtered."""
    if finish_reason == "content_filter":
        return True
    head = text[:_HEAD].lower().replace("’", "'")
    # A plain loop: this is done for every row.
    for phrase in _REFUSALS:  # noqa: SIM110
        if phrase in head:
            return True
    return False


def failure_category(answer: JsonDict | None, outcome: JsonDict) -> str | None:
    """Why a step is in the failure analysis, if it is."""
    if outcome["status"] == "failed":
        return str(outcome["failure"]["cause"])
    if outcome.get("label"):
        return str(outcome["label"])
    text = answer.get("response", "") if answer else ""
    if is_refusal(text, answer.get("finish_reason") if answer else None):
        return "refusal"
    if is_unparsed(outcome) and text:
        return "format_error"
    return None


def _attempts(answer: JsonDict | None, outcome: JsonDict) -> int:
    return int(outcome.get("attempts") or (answer or {}).get("attempts") or 1)
