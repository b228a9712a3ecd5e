"""Trajectories: what happened between question and answer, as one ATIF-v1.6 document.

A row's ``trajectory`` is a list with exactly one document, or empty. ``single_turn`` is the cheap form for one model
call; ``TrajectoryBuilder`` grows a document turn by turn; ``nemo_evaluator.testing.validate_trajectory`` checks one.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator._version import __version__
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse, ToolCallInfo

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
_METRICS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


def single_turn(prompt: str, content: str, answer: JsonDict) -> list[JsonDict]:
    """The trajectory of one model call, of which the journal keeps ``answer``: the messages as sent (or the prompt),
    then what the model said. This is done for every row of a run."""
    get = answer.get
    steps: list[JsonDict] = []
    for number, sent in enumerate(get("messages") or ({"role": "user", "content": prompt},), 1):
        source = _SOURCES.get(sent.get("role"), "user")
        steps.append(
            {"step_id": number, "source": source, "message": content_of(sent.get("content"))}
        )
    agent: JsonDict = {"step_id": len(steps) + 1, "source": "agent", "message": content}
    model = get("model", "")
    thought = get("reasoning_content")
    if model:
        agent["model_name"] = model
    if thought:
        agent["reasoning_content"] = thought
    steps.append(agent)
    final: JsonDict = {"total_steps": len(steps)}
    metrics: JsonDict = {}
    asked = get("prompt_tokens")
    said = get("completion_tokens")
    latency = get("latency_ms")
    if asked is not None and said is not None:
        metrics = {"prompt_tokens": asked, "completion_tokens": said}
        final["total_prompt_tokens"] = asked
        final["total_completion_tokens"] = said
    if latency:
        metrics["extra"] = {"latency_ms": latency}
    if metrics:
        agent["metrics"] = metrics
    about = {"name": AGENT_NAME, "version": __version__, "model_name": model}
    # The same whenever the same stored answer is looked at again.
    return [_document(f"{get('fp')}|{content[-_TAIL:]}", about, steps, final=final)]


class TrajectoryBuilder:
    """Grows a document turn by turn from what was ``asked``; ``finish()`` may be called at any moment, so a broken run
    still has one."""

    def __init__(
        self,
        *,
        agent: str = AGENT_NAME,
        model: str = "",
        tools: Sequence[JsonDict] = (),
        asked: Sequence[Message] = (),
    ) -> None:
        self._agent: JsonDict = {"name": agent, "version": __version__}
        if model:
            self._agent["model_name"] = model
        if tools:
            self._agent["tool_definitions"] = list(tools)
        self._steps: list[JsonDict] = []
        self._seed = ""
        for message in asked:
            self.message(str(message.get("role") or "user"), message.get("content"))

    def _add(self, source: str, message: str | list[JsonDict]) -> JsonDict:
        step: JsonDict = {"step_id": len(self._steps) + 1, "source": source, "message": message}
        self._steps.append(step)
        return step

    def _last(self) -> JsonDict | None:
        return next((step for step in reversed(self._steps) if step["source"] == "agent"), None)

    def message(self, role: str, content: Any) -> None:
        """A step that only speaks: a system note, a user's question, or an assistant's line of a given dialogue."""
        self._add(_SOURCES.get(role, "user"), content_of(content))

    def agent(self, response: ModelResponse, calls: Sequence[ToolCallInfo] = ()) -> None:
        """One answer of the model, with the calls it asks for."""
        self._seed += f"{response.raw_response.get('id')}|{response.content[-_TAIL:]}|"
        step = self._add("agent", response.content)
        if response.model:
            step["model_name"] = response.model
            self._agent.setdefault("model_name", response.model)
        if response.reasoning_content:
            step["reasoning_content"] = response.reasoning_content
        if calls:
            step["tool_calls"] = [_called(call) for call in calls]
        ended = {
            "latency_ms": round(response.latency_ms, 2),
            "finish_reason": response.finish_reason,
        }
        step["metrics"] = {**_token_metrics(response), "extra": ended}

    def call(self, call: ToolCallInfo) -> None:
        """A call that is told of only once it was made, on the agent step before it."""
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
        """The result of one call, on the agent step that asked for it."""
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

    def finish(self, *, status: str | None = None, **extra: Any) -> list[JsonDict]:
        """The document as it stands, in a list of one."""
        if not self._steps:
            return []
        seed = f"{self._seed}{self._steps[0]['message']}"
        measured = [step["metrics"] for step in self._steps if "metrics" in step]
        totals: dict[str, list[Any]] = {}
        for name in _METRICS:
            totals[name] = [metrics[name] for metrics in measured if name in metrics]
        sums = {f"total_{name}": sum(known) for name, known in totals.items() if known}
        document = _document(
            seed, self._agent, self._steps, final={"total_steps": len(self._steps), **sums}
        )
        said: dict[str, Any] = {}
        for key, value in {"status": status, **extra}.items():
            if value is not None:
                said[key] = value
        if said:
            document["extra"] = said
        return [document]


def _document(seed: str, agent: JsonDict, steps: list[JsonDict], final: JsonDict) -> JsonDict:
    return {
        "schema_version": ATIF_VERSION,
        "session_id": hashlib.blake2b(seed.encode(errors="replace"), digest_size=8).hexdigest(),
        "agent": agent,
        "steps": steps,
        "final_metrics": final,
    }


def _called(call: ToolCallInfo) -> JsonDict:
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}


def content_of(content: Any) -> str | list[JsonDict]:
    """An OpenAI message content as an ATIF message: text stays text, parts become text and image parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return [_part(part) for part in content]
    if content is None:
        return ""
    return str(content)


def _part(part: Any) -> JsonDict:
    if not isinstance(part, dict):
        return {"type": "text", "text": str(part)}
    if part.get("type") == "text":
        return {"type": "text", "text": str(part.get("text", ""))}
    image = part.get("image_url")
    if isinstance(image, dict):
        url: Any | str = image.get("url", "")
    else:
        url = image or ""
    if not url:
        return {"type": "text", "text": f"[{part.get('type', 'part')}]"}
    if not url.startswith("data:"):
        suffix = url.rsplit(".", 1)[-1].lower()
        if suffix in _SUFFIXES:
            media = f"image/{'jpeg' if suffix == 'jpg' else suffix}"
        else:
            media = "image/png"
        return {"type": "image", "source": {"media_type": media, "path": url}}
    # The picture itself is in the dataset; its digest is enough to find it and keeps the document small.
    media = url[5:].partition(";")[0] or "image/png"
    digest = hashlib.blake2b(url.encode(), digest_size=8).hexdigest()
    return {"type": "image", "source": {"media_type": media, "path": f"inline:{digest}"}}


def _token_metrics(response: ModelResponse) -> JsonDict:
    metrics: JsonDict = {}
    if response.prompt_tokens is not None:
        metrics["prompt_tokens"] = response.prompt_tokens
    if response.completion_tokens is not None:
        metrics["completion_tokens"] = response.completion_tokens
    if response.cached_tokens is not None and response.prompt_tokens is not None:
        metrics["cached_tokens"] = min(response.cached_tokens, response.prompt_tokens)
    if response.cost_usd is not None:
        metrics["cost_usd"] = response.cost_usd
    return metrics
