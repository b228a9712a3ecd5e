"""Convert one row to an Inspect sample: messages, output and scores; a failed row has an error and no scores."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row

log, model, scorer, tool = (
    Lazy(f"inspect_ai.{name}") for name in ("log", "model", "scorer", "tool")
)
NO_MODEL: Final = "none/none"
NATIVE: Final = "reward"
_STOP: Final = {
    "stop": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
# The fields of a metric's details that hold a judge's explanation.
_SAID: Final = ("reasoning", "explanation")
_CONTEXT_EXCEEDED: Final = "context_exceeded"


def to_sample(row: Row, model_name: str) -> Any:
    """Convert a row to an Inspect sample.

    Args:
        row: The row.
        model_name: The model that answered; empty if there is none.

    Returns:
        An ``inspect_ai.log.EvalSample``.
    """
    first_user_message = next(
        (_text(step.get("message")) for step in row.steps if step.get("source") == "user"), ""
    )
    prompt = (
        _text(row.get("prompt"))
        or first_user_message
        or _text(row.get("expected_answer"))
        or "(no prompt)"
    )
    failure = row.get("failure")
    usage = _usage(row)
    row_facts: dict[str, Any] = {}
    for key in ("label", "attempts", "problem_hash", "cost_usd"):
        if row.get(key) is not None:
            row_facts[key] = row[key]
    latency = row.get("latency_ms")
    if isinstance(latency, int | float):
        seconds: float | None = latency / 1000
    else:
        seconds = None
    return log.EvalSample(
        id=row.get("problem_idx", 0),
        epoch=(row.get("repeat") or 0) + 1,
        input=prompt,
        target=_text(row.get("expected_answer")),
        messages=list(_messages(row, prompt)),
        output=_output(row, model_name, usage, seconds=seconds),
        scores=None if failure or row.get("reward") is None else _scores(row),
        metadata={
            **(row.get("metadata") or {}),
            "scoring_details": row.get("scoring_details") or {},
            **row_facts,
        },
        model_usage=({model_name or NO_MODEL: usage} if usage else {}) | _judges(row, model_name),
        total_time=seconds,
        error=to_error(f"{failure.get('cause')}: {failure.get('message')}") if failure else None,
        # A dataset may contain a problem twice, so the hash alone does not identify a sample.
        uuid=f"{row.get('problem_hash') or ''}-{row.get('problem_idx')}-{row.get('repeat') or 0}",
    )


def to_error(message: str) -> Any:
    """Return an Inspect error with a message and no traceback."""
    return log.EvalError(message=message, traceback="", traceback_ansi="")


def score_name(name: str) -> str:
    """Return the name of an extra scorer in the Inspect log.

    Args:
        name: The scorer's name in the bundle, with the prefix ``scorer:``.

    Returns:
        The name without the prefix, unless it would equal that of the reward.
    """
    short = name.removeprefix("scorer:")
    return name if short == NATIVE else short


def _scores(row: Row) -> JsonDict:
    """Return the scores of a row: the reward, and one per extra scorer that has a value."""
    extracted = row.get("extracted_answer")
    if extracted is None:
        answer: str | None = None
    else:
        answer = _text(extracted)
    scores = {
        NATIVE: scorer.Score(
            value=row["reward"], answer=answer, metadata=row.get("scoring_details") or None
        )
    }
    details = row.get("scoring_details") or {}
    for name, value in (row.get("scorer_rewards") or {}).items():
        if value is not None:
            # A judge or another metric, with its explanation.
            metric_details = as_dict(details.get(name))
            explanation = next(
                (metric_details[key] for key in _SAID if isinstance(metric_details.get(key), str)),
                None,
            )
            score = scorer.Score(
                value=value, answer=answer, explanation=explanation, metadata=metric_details or None
            )
            scores[score_name(name)] = score
    return scores


def _usage(row: Row) -> Any:
    """Return the tokens and the cost of a row's answer; None when no tokens were counted."""
    counts = [row.get(key) for key in ("prompt_tokens", "completion_tokens", "tokens")]
    if all(count is None for count in counts):
        return None
    input_tokens, output_tokens, total_tokens = (count or 0 for count in counts)
    return model.ModelUsage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=total_tokens or input_tokens + output_tokens,
        total_cost=row.get("cost_usd"),
    )


def _judges(row: Row, model_name: str) -> JsonDict:
    """Return the tokens that judges used, by their model.

    A judge with the same model as the answer is left out; its tokens stay in the metadata of its score.
    """
    tokens_by_model: Counter[str] = Counter()
    for key, scorer_details in (row.get("scoring_details") or {}).items():
        if (
            key.startswith("scorer:")
            and isinstance(scorer_details, dict)
            and scorer_details.get("judge_model")
        ):
            tokens_by_model[str(scorer_details["judge_model"])] += (
                scorer_details.get("judge_tokens") or 0
            )
    usage_by_model: dict[str, Any] = {}
    for name, tokens in tokens_by_model.items():
        if tokens and name != model_name:
            usage_by_model[name] = model.ModelUsage(total_tokens=tokens)
    return usage_by_model


def _output(row: Row, model_name: str, usage: Any, seconds: float | None) -> Any:
    """Return the answer of a row as the output of an Inspect sample."""
    reason = _STOP.get(_text(row.get("finish_reason")), "unknown")
    if row.get("label") == _CONTEXT_EXCEEDED:
        reason = "model_length"
    message = model.ChatMessageAssistant(
        content=_text(row.get("model_response")), source="generate"
    )
    choice = model.ChatCompletionChoice(message=message, stop_reason=reason)
    return model.ModelOutput(model=model_name, choices=[choice], usage=usage, time=seconds)


def _messages(row: Row, prompt: str) -> Iterator[Any]:
    """Convert the steps of a row's trajectory to Inspect messages; without steps, the prompt and the response."""
    steps = row.steps
    if not steps:
        yield model.ChatMessageUser(content=prompt)
        yield model.ChatMessageAssistant(content=_text(row.get("model_response")))
        return
    functions: dict[str, str] = {}
    for step in steps:
        content = _content(step.get("message"))
        if step.get("source") == "agent":
            calls = [_call(call) for call in step.get("tool_calls") or []]
            functions |= {call.id: call.function for call in calls}
            reasoning = step.get("reasoning_content")
            if reasoning:
                if isinstance(content, list):
                    content_parts = content
                else:
                    content_parts = [model.ContentText(text=content)]
                content = [model.ContentReasoning(reasoning=reasoning), *content_parts]
            yield model.ChatMessageAssistant(
                content=content, tool_calls=calls or None, model=step.get("model_name")
            )
        elif step.get("source") == "user":
            yield model.ChatMessageUser(content=content)
        elif content:
            yield model.ChatMessageSystem(content=content)
        for result in (step.get("observation") or {}).get("results") or []:
            call_id = result.get("source_call_id")
            yield model.ChatMessageTool(
                content=_content(result.get("content")),
                tool_call_id=call_id,
                function=functions.get(call_id),
            )


def _content(value: Any) -> Any:
    """Convert the content of a step to text, or to a list of parts.

    An image with a web address becomes an image part; an inline image becomes a text with its digest.
    """
    if not isinstance(value, list):
        return _text(value)
    parts: list[Any] = []
    for part in value:
        if isinstance(part, dict):
            source: JsonDict = part.get("source") or {}
        else:
            source = {}
        path = str(source.get("path") or "")
        if path.startswith(("http://", "https://")):
            parts.append(model.ContentImage(image=path))
        elif path:
            parts.append(model.ContentText(text=f"[{source.get('media_type')} {path}]"))
        else:
            if isinstance(part, dict):
                text = part.get("text")
            else:
                text = part
            parts.append(model.ContentText(text=_text(part if text is None else text)))
    return parts


def _call(call: JsonDict) -> Any:
    """Convert a tool call; arguments that are not a JSON object are kept under ``arguments`` with a parse error."""
    raw_arguments = call.get("arguments") or {}
    if isinstance(raw_arguments, dict):
        parse_error: str | None = None
    else:
        parse_error = "the arguments are no JSON object"
    return tool.ToolCall(
        id=str(call.get("tool_call_id") or ""),
        function=str(call.get("function_name") or ""),
        arguments={"arguments": raw_arguments} if parse_error else raw_arguments,
        parse_error=parse_error,
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)
