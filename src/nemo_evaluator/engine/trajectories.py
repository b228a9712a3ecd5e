"""The conversation of a stored answer: an agent's own trajectory, or the one call that was made."""

from nemo_evaluator.core.types import JsonDict, ModelResponse
from nemo_evaluator.solvers.trajectory import single_turn
from nemo_evaluator.store.records import total_tokens
from nemo_evaluator.store.view_rows import content_of, prompt_of


def trajectory_of(answer: JsonDict) -> list[JsonDict]:
    """One ATIF document, in a list; empty when the answer came from no model."""
    stored: list[JsonDict] = answer.get("trajectory") or []
    if stored or "finish_reason" not in answer:
        return stored
    reply = ModelResponse(
        content=content_of(answer),
        model=answer.get("model", ""),
        finish_reason=answer["finish_reason"],
        prompt_tokens=answer.get("prompt_tokens"),
        completion_tokens=answer.get("completion_tokens"),
        total_tokens=total_tokens(answer),
        reasoning_tokens=answer.get("reasoning_tokens"),
        latency_ms=answer.get("latency_ms") or 0.0,
        reasoning_content=answer.get("reasoning_content"),
    )
    return single_turn(prompt_of(answer), reply, messages=answer.get("messages"))
