"""Convert one row to an Inspect sample: messages, output and scores; a failed row has an error and no scores."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.row import Row

log = Lazy("inspect_ai.log")
model = Lazy("inspect_ai.model")
scorer = Lazy("inspect_ai.scorer")
tool = Lazy("inspect_ai.tool")
NO_MODEL: Final = "none/none"
NATIVE: Final = "reward"
_STOP: Final = {
    "stop": "stop",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
# The fields of a scorer's details that have a judge's explanation.
_EXPLANATION_FIELDS: Final = ("reasoning", "explanation")
_METADATA_FIELDS: Final = ("label", "attempts", "problem_hash", "cost_usd")
_CONTEXT_EXCEEDED: Final = "context_exceeded"


def to_sample(row: Row, model_name: str) -> Any:
    """Convert a row to an Inspect sample.

    Args:
        row: The row.
        model_name: The model that answered; empty if there is none.

    Returns:
        An ``inspect_ai.log.EvalSample``.
    """
    prompt = _prompt(row)
    failure = row.get("failure")
    error = None
    if failure:
        error = to_error(f"{failure.get('cause')}: {failure.get('message')}")
    scores = None
    if not failure and row.get("reward") is not None:
        scores = _scores(row)
    usage = _usage(row)
    usage_by_model = _judge_usage(row, model_name)
    if usage:
        usage_by_model = {model_name or NO_MODEL: usage} | usage_by_model
    seconds = _seconds(row)
    repeat = row.get("repeat") or 0
    return log.EvalSample(
        id=row.get("problem_idx", 0),
        epoch=repeat + 1,
        input=prompt,
        target=_text(row.get("expected_answer")),
        messages=list(_messages(row, prompt)),
        output=_output(row, model_name, usage, seconds=seconds),
        scores=scores,
        metadata=_metadata(row),
        model_usage=usage_by_model,
        total_time=seconds,
        error=error,
        # A dataset may contain a problem twice, so the hash alone does not identify a sample.
        uuid=f"{row.get('problem_hash') or ''}-{row.get('problem_idx')}-{repeat}",
    )


def _prompt(row: Row) -> str:
    """Return the text of the question: the prompt, else the first message of a user, else the expected answer."""
    prompt = _text(row.get("prompt"))
    if prompt:
        return prompt
    for step in row.steps:
        if step.get("source") == "user":
            first_user_message = _text(step.get("message"))
            if first_user_message:
                return first_user_message
            break
    return _text(row.get("expected_answer")) or "(no prompt)"


def _seconds(row: Row) -> float | None:
    """Return how long the answer took, if that is known."""
    latency = row.get("latency_ms")
    if isinstance(latency, int | float):
        return latency / 1000
    return None


def _metadata(row: Row) -> JsonDict:
    """Return the metadata of the problem, the scorers' details, and facts that Inspect has no fields for."""
    metadata: JsonDict = dict(row.get("metadata") or {})
    metadata["scoring_details"] = row.get("scoring_details") or {}
    for name in _METADATA_FIELDS:
        if row.get(name) is not None:
            metadata[name] = row[name]
    return metadata


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
    answer = None if extracted is None else _text(extracted)
    details = row.get("scoring_details") or {}
    scores = {NATIVE: scorer.Score(value=row["reward"], answer=answer, metadata=details or None)}
    for name, value in (row.get("scorer_rewards") or {}).items():
        if value is None:
            continue
        # A judge or another metric, with its explanation.
        scorer_details = as_dict(details.get(name))
        scores[score_name(name)] = scorer.Score(
            value=value,
            answer=answer,
            explanation=_explanation(scorer_details),
            metadata=scorer_details or None,
        )
    return scores


def _explanation(scorer_details: JsonDict) -> str | None:
    """Return the explanation in a scorer's details, if there is one."""
    for name in _EXPLANATION_FIELDS:
        explanation = scorer_details.get(name)
        if isinstance(explanation, str):
            return explanation
    return None


def _usage(row: Row) -> Any:
    """Return the tokens and the cost of a row's answer; None when no tokens were counted."""
    input_tokens = row.get("prompt_tokens")
    output_tokens = row.get("completion_tokens")
    total_tokens = row.get("tokens")
    if input_tokens is None and output_tokens is None and total_tokens is None:
        return None
    input_tokens = input_tokens or 0
    output_tokens = output_tokens or 0
    return model.ModelUsage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=total_tokens or input_tokens + output_tokens,
        total_cost=row.get("cost_usd"),
    )


def _judge_usage(row: Row, model_name: str) -> JsonDict:
    """Return the tokens that judges used, by their model.

    A judge with the same model as the answer is left out; its tokens stay in the metadata of its score.
    """
    tokens_by_model: Counter[str] = Counter()
    for name, scorer_details in (row.get("scoring_details") or {}).items():
        if not name.startswith("scorer:") or not isinstance(scorer_details, dict):
            continue
        judge_model = scorer_details.get("judge_model")
        if judge_model:
            tokens_by_model[str(judge_model)] += scorer_details.get("judge_tokens") or 0
    usage_by_model: JsonDict = {}
    for judge_model, tokens in tokens_by_model.items():
        if tokens and judge_model != model_name:
            usage_by_model[judge_model] = model.ModelUsage(total_tokens=tokens)
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
        source = step.get("source")
        content = _content(step.get("message"))
        if source == "agent":
            calls = [_call(call) for call in step.get("tool_calls") or []]
            for call in calls:
                functions[call.id] = call.function
            yield model.ChatMessageAssistant(
                content=_with_reasoning(content, step.get("reasoning_content")),
                tool_calls=calls or None,
                model=step.get("model_name"),
            )
        elif source == "user":
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


def _with_reasoning(content: Any, reasoning: str | None) -> Any:
    """Return the content of an answer with the model's reasoning before it, if there is any."""
    if not reasoning:
        return content
    parts = content if isinstance(content, list) else [model.ContentText(text=content)]
    return [model.ContentReasoning(reasoning=reasoning), *parts]


def _content(value: Any) -> Any:
    """Convert the content of a step to text, or to a list of parts.

    An image with a web address becomes an image part; an inline image becomes a text with its digest.
    """
    if not isinstance(value, list):
        return _text(value)
    return [_content_part(part) for part in value]


def _content_part(part: Any) -> Any:
    """Convert one part of a content."""
    if not isinstance(part, dict):
        return model.ContentText(text=_text(part))
    source: JsonDict = part.get("source") or {}
    path = str(source.get("path") or "")
    if path.startswith(("http://", "https://")):
        return model.ContentImage(image=path)
    if path:
        return model.ContentText(text=f"[{source.get('media_type')} {path}]")
    text = part.get("text")
    if text is None:
        # A part of unknown form is shown as it is.
        text = part
    return model.ContentText(text=_text(text))


def _call(call: JsonDict) -> Any:
    """Convert a tool call; arguments that are not a JSON object are kept under ``arguments`` with a parse error."""
    arguments = call.get("arguments") or {}
    parse_error = None
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
        parse_error = "the arguments are no JSON object"
    return tool.ToolCall(
        id=str(call.get("tool_call_id") or ""),
        function=str(call.get("function_name") or ""),
        arguments=arguments,
        parse_error=parse_error,
    )


def _text(value: Any) -> str:
    """Return a value as text; empty for None."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)
