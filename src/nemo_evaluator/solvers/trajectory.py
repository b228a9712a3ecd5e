"""Trajectories: what happened between question and answer, as one ATIF-v1.6 document.

A row's ``trajectory`` is a list with exactly one document, or empty. ``single_turn`` is the fast form for one model
call; ``TrajectoryBuilder`` builds a document turn by turn; ``nemo_evaluator.testing.validate_trajectory`` checks one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator._version import __version__
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse, ToolCallInfo

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import (
        AgentPart,
        FinalMetrics,
        StepContent,
        StepMetrics,
        ToolCallPart,
        TrajectoryDocument,
        TrajectoryStep,
    )
    from nemo_evaluator.store.journal_record import AnswerRecord

__all__ = ["ATIF_VERSION", "TrajectoryBuilder", "single_turn"]

ATIF_VERSION: Final = "ATIF-v1.6"
AGENT_NAME: Final = "nemo-evaluator"
_TAIL: Final = 256
_SOURCES: Final = {
    "system": "system",
    "developer": "system",
    "assistant": "agent",
    "user": "user",
    "tool": "system",
}
_SUFFIXES: Final = frozenset({"jpg", "jpeg", "png", "gif", "webp"})


def single_turn(prompt: str, content: str, answer: AnswerRecord) -> list[TrajectoryDocument]:
    """Build the trajectory of one model call; it runs for every row, so it is kept fast.

    Args:
        prompt: The prompt, used when the journal has no messages.
        content: The model's answer.
        answer: The journal's record of the call.

    Returns:
        A list of one document: the messages that were sent, then the answer. The same record yields the same session
        id.
    """
    steps: list[TrajectoryStep] = []
    messages = answer.get("messages") or ({"role": "user", "content": prompt},)
    for number, message in enumerate(messages, 1):
        source = _SOURCES.get(str(message.get("role")), "user")
        text = content_of(message.get("content"))
        steps.append({"step_id": number, "source": source, "message": text})
    answer_step: TrajectoryStep = {"step_id": len(steps) + 1, "source": "agent", "message": content}
    steps.append(answer_step)
    model = answer.get("model", "")
    if model:
        answer_step["model_name"] = model
    reasoning = answer.get("reasoning_content")
    if reasoning:
        answer_step["reasoning_content"] = reasoning
    totals: FinalMetrics = {"total_steps": len(steps)}
    metrics: StepMetrics = {}
    prompt_tokens = answer.get("prompt_tokens")
    completion_tokens = answer.get("completion_tokens")
    if prompt_tokens is not None and completion_tokens is not None:
        metrics["prompt_tokens"] = prompt_tokens
        metrics["completion_tokens"] = completion_tokens
        totals["total_prompt_tokens"] = prompt_tokens
        totals["total_completion_tokens"] = completion_tokens
    latency = answer.get("latency_ms")
    if latency:
        metrics["extra"] = {"latency_ms": latency}
    if metrics:
        answer_step["metrics"] = metrics
    agent_facts: AgentPart = {"name": AGENT_NAME, "version": __version__, "model_name": model}
    # The seed depends only on the stored answer, so that its session id never changes.
    seed = f"{answer.get('fp')}|{content[-_TAIL:]}"
    return [_document(seed, agent_facts, steps, final=totals)]


class TrajectoryBuilder:
    """Builds a document turn by turn; ``finish()`` may be called at any time, so a broken run has a document too.

    Args:
        agent: The agent's name.
        model: The model's name, if it is known from the start.
        tools: The definitions of the tools that the model may call.
        asked: The messages that the conversation starts with.
    """

    def __init__(
        self,
        *,
        agent: str = AGENT_NAME,
        model: str = "",
        tools: Sequence[JsonDict] = (),
        asked: Sequence[Message] = (),
    ) -> None:
        """Start a document with the messages of the question."""
        self._agent: AgentPart = {"name": agent, "version": __version__}
        if model:
            self._agent["model_name"] = model
        if tools:
            self._agent["tool_definitions"] = list(tools)
        self._steps: list[TrajectoryStep] = []
        self._seed = ""
        for message in asked:
            self.message(str(message.get("role") or "user"), message.get("content"))

    def _add(self, source: str, message: StepContent) -> TrajectoryStep:
        step: TrajectoryStep = {
            "step_id": len(self._steps) + 1,
            "source": source,
            "message": message,
        }
        self._steps.append(step)
        return step

    def _last(self) -> TrajectoryStep | None:
        """Return the last agent step, or None."""
        latest_first: Iterator[TrajectoryStep] = reversed(self._steps)
        for step in latest_first:
            if step["source"] == "agent":
                return step
        return None

    def message(self, role: str, content: Any) -> None:
        """Add a step that is only a message: a system prompt, a user's question, or an assistant's line in a given
        dialogue.

        Args:
            role: The role of the message in the chat protocol.
            content: The content of the message.
        """
        self._add(_SOURCES.get(role, "user"), content_of(content))

    def agent(self, response: ModelResponse, calls: Sequence[ToolCallInfo] = ()) -> None:
        """Add a step for one reply of the model.

        Args:
            response: The reply.
            calls: The tool calls that it requests.
        """
        self._seed += f"{response.raw_response.get('id')}|{response.content[-_TAIL:]}|"
        step = self._add("agent", response.content)
        if response.model:
            step["model_name"] = response.model
            self._agent.setdefault("model_name", response.model)
        if response.reasoning_content:
            step["reasoning_content"] = response.reasoning_content
        if calls:
            step["tool_calls"] = [_called(call) for call in calls]
        reply_facts = {
            "latency_ms": round(response.latency_ms, 2),
            "finish_reason": response.finish_reason,
        }
        step["metrics"] = {**_token_metrics(response), "extra": reply_facts}

    def call(self, call: ToolCallInfo) -> None:
        """Add a tool call to the last agent step, for agents that report a call only after it was made.

        Args:
            call: The tool call.
        """
        step = self._last() or self._add("agent", "")
        step.setdefault("tool_calls", []).append(_called(call))

    def observe(
        self,
        call_id: str,
        content: str,
        *,
        source: str,
        latency_ms: float = 0.0,
        is_error: bool = False,
    ) -> None:
        """Add the result of a tool call to the last agent step.

        Args:
            call_id: The id of the call.
            content: The result, as the model sees it.
            source: The tool source that ran the call.
            latency_ms: How long the call took.
            is_error: Whether the tool failed.

        Raises:
            ValueError: There is no agent step yet.
        """
        step = self._last()
        if step is None:
            raise ValueError("an observation needs an agent step before it")
        results = step.setdefault("observation", {"results": []})["results"]
        results.append({"source_call_id": call_id, "content": content})
        outcome = {
            "tool_call_id": call_id,
            "source": source,
            "latency_ms": round(latency_ms, 2),
            "is_error": is_error,
        }
        step.setdefault("extra", {}).setdefault("tool_outcomes", []).append(outcome)

    def finish(self, *, status: str | None = None, **extra: Any) -> list[TrajectoryDocument]:
        """Return the document as it stands.

        Args:
            status: How the run ended, for example ``completed`` or ``error``.
            **extra: Further facts for the document's ``extra``; None values are left out.

        Returns:
            A list of one document, or an empty list when there is no step.
        """
        if not self._steps:
            return []
        seed = f"{self._seed}{self._steps[0]['message']}"
        document = _document(seed, self._agent, self._steps, final=_total_metrics(self._steps))
        extra_fields: JsonDict = {}
        for key, value in {"status": status, **extra}.items():
            if value is not None:
                extra_fields[key] = value
        if extra_fields:
            document["extra"] = extra_fields
        return [document]


def _total_metrics(steps: list[TrajectoryStep]) -> FinalMetrics:
    """Sum each metric over the steps that have it."""
    totals: FinalMetrics = {"total_steps": len(steps)}
    metrics = [step["metrics"] for step in steps if "metrics" in step]
    prompt_tokens = [part["prompt_tokens"] for part in metrics if "prompt_tokens" in part]
    completion_tokens = [
        part["completion_tokens"] for part in metrics if "completion_tokens" in part
    ]
    cached_tokens = [part["cached_tokens"] for part in metrics if "cached_tokens" in part]
    costs = [part["cost_usd"] for part in metrics if "cost_usd" in part]
    if prompt_tokens:
        totals["total_prompt_tokens"] = sum(prompt_tokens)
    if completion_tokens:
        totals["total_completion_tokens"] = sum(completion_tokens)
    if cached_tokens:
        totals["total_cached_tokens"] = sum(cached_tokens)
    if costs:
        totals["total_cost_usd"] = sum(costs)
    return totals


def _document(
    seed: str, agent: AgentPart, steps: list[TrajectoryStep], final: FinalMetrics
) -> TrajectoryDocument:
    return {
        "schema_version": ATIF_VERSION,
        "session_id": hashlib.blake2b(seed.encode(errors="replace"), digest_size=8).hexdigest(),
        "agent": agent,
        "steps": steps,
        "final_metrics": final,
    }


def _called(call: ToolCallInfo) -> ToolCallPart:
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}


def content_of(content: Any) -> StepContent:
    """Convert the content of an OpenAI message to that of an ATIF message.

    Args:
        content: A text, a list of parts, or None.

    Returns:
        Text stays text; parts become text and image parts; None becomes an empty text.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return [_part(part) for part in content]
    if content is None:
        return ""
    return str(content)


def _part(part: Any) -> JsonDict:
    """Convert one part of a message; an inline image is replaced by its digest."""
    if not isinstance(part, dict):
        return {"type": "text", "text": str(part)}
    if part.get("type") == "text":
        return {"type": "text", "text": str(part.get("text", ""))}
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url", "")
    if not url:
        return {"type": "text", "text": f"[{part.get('type', 'part')}]"}
    if url.startswith("data:"):
        return _inline_image(url)
    return {"type": "image", "source": {"media_type": _media_type(url), "path": url}}


def _inline_image(url: str) -> JsonDict:
    """Name an image in a data URL by its digest.

    The dataset has the image itself; a digest is enough to find it and keeps the document small.
    """
    media_type = url.removeprefix("data:").partition(";")[0] or "image/png"
    digest = hashlib.blake2b(url.encode(), digest_size=8).hexdigest()
    return {"type": "image", "source": {"media_type": media_type, "path": f"inline:{digest}"}}


def _media_type(url: str) -> str:
    """Return the media type by the suffix of the URL; PNG for an unknown suffix."""
    suffix = url.rsplit(".", 1)[-1].lower()
    if suffix == "jpg":
        return "image/jpeg"
    if suffix in _SUFFIXES:
        return f"image/{suffix}"
    return "image/png"


def _token_metrics(response: ModelResponse) -> StepMetrics:
    """Return the token counts and the cost that the model reported."""
    metrics: StepMetrics = {}
    if response.prompt_tokens is not None:
        metrics["prompt_tokens"] = response.prompt_tokens
    if response.completion_tokens is not None:
        metrics["completion_tokens"] = response.completion_tokens
    if response.cached_tokens is not None and response.prompt_tokens is not None:
        metrics["cached_tokens"] = min(response.cached_tokens, response.prompt_tokens)
    if response.cost_usd is not None:
        metrics["cost_usd"] = response.cost_usd
    return metrics
