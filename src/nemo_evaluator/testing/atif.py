"""The rules of an ATIF document, as a function that lists every breach in words."""

from typing import Any, Final, TypeGuard

from nemo_evaluator.core.types import JsonDict

_AGENT_ONLY: Final = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens")
_MEDIA: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_NUMBER: Final = (int, float)


def validate_trajectory(doc: Any, *, strict: bool = False) -> list[str]:
    """Everything that is wrong with one ATIF document; an empty list means it is valid.

    ``strict`` also asks for a user or system step wherever an agent did something.
    """
    if not isinstance(doc, dict):
        return ["document: not an object"]
    wrong: list[str] = []
    version = doc.get("schema_version")
    if not isinstance(version, str) or not version.startswith("ATIF-"):
        wrong.append("schema_version: must be a string that starts with 'ATIF-'")
    if not _text(doc.get("session_id")):
        wrong.append("session_id: must be a non-empty string")
    agent = doc.get("agent")
    if not isinstance(agent, dict):
        wrong.append("agent: must be an object")
    else:
        wrong += [
            f"agent.{key}: must be a non-empty string" for key in ("name", "version") if not _text(agent.get(key))
        ]
    steps = doc.get("steps")
    if not isinstance(steps, list) or not steps:
        return [*wrong, "steps: must be a non-empty list"]
    known_calls: set[str] = set()
    for number, step in enumerate(steps, start=1):
        wrong += [f"steps[{number}].{problem}" for problem in _check_step(step, number, known_calls)]
    wrong += _check_final(doc.get("final_metrics"), len(steps))
    if strict:
        sources = {step.get("source") for step in steps if isinstance(step, dict)}
        if "agent" in sources and not sources & {"user", "system"}:
            wrong.append("steps: an agent acts but nobody asked it anything")
    return wrong


def _check_step(step: Any, number: int, known_calls: set[str]) -> list[str]:
    if not isinstance(step, dict):
        return ["step: not an object"]
    wrong: list[str] = []
    if step.get("step_id") != number or isinstance(step.get("step_id"), bool):
        wrong.append(f"step_id: is {step.get('step_id')!r}, must be {number}")
    source = step.get("source")
    if source not in {"system", "user", "agent"}:
        wrong.append(f"source: {source!r} is none of system, user, agent")
    if "message" not in step:
        wrong.append("message: missing")
    else:
        wrong += _check_content("message", step["message"])
    if source != "agent":
        wrong += [f"{key}: only on agent steps" for key in _AGENT_ONLY if key in step]
    wrong += _check_calls(step.get("tool_calls", []), known_calls)
    wrong += _check_metrics(step.get("metrics", {}))
    wrong += _check_observation(step.get("observation", {"results": []}), known_calls)
    return wrong


def _check_calls(calls: Any, known: set[str]) -> list[str]:
    if not isinstance(calls, list):
        return ["tool_calls: must be a list"]
    wrong: list[str] = []
    for position, call in enumerate(calls):
        where = f"tool_calls[{position}]"
        if not isinstance(call, dict):
            wrong.append(f"{where}: not an object")
            continue
        identity = call.get("tool_call_id")
        if not _text(identity):
            wrong.append(f"{where}.tool_call_id: must be a non-empty string")
        elif identity in known:
            wrong.append(f"{where}.tool_call_id: {identity!r} is used twice")
        else:
            known.add(str(identity))
        if not _text(call.get("function_name")):
            wrong.append(f"{where}.function_name: must be a non-empty string")
        if not isinstance(call.get("arguments"), dict):
            wrong.append(f"{where}.arguments: must be an object")
    return wrong


def _check_metrics(metrics: Any) -> list[str]:
    if not isinstance(metrics, dict):
        return ["metrics: must be an object"]
    wrong = [
        f"metrics.{key}: must be a whole number of at least 0"
        for key in _COUNTS
        if key in metrics and not _count(metrics[key])
    ]
    cached, prompt = metrics.get("cached_tokens"), metrics.get("prompt_tokens")
    if _count(cached) and _count(prompt) and cached > prompt:
        wrong.append("metrics.cached_tokens: more than prompt_tokens")
    if "cost_usd" in metrics and (
        not isinstance(metrics["cost_usd"], _NUMBER) or isinstance(metrics["cost_usd"], bool)
    ):
        wrong.append("metrics.cost_usd: must be a number")
    return wrong


def _check_observation(observation: Any, known_calls: set[str]) -> list[str]:
    if not isinstance(observation, dict) or not isinstance(observation.get("results"), list):
        return ["observation.results: must be a list"]
    wrong: list[str] = []
    for position, result in enumerate(observation["results"]):
        where = f"observation.results[{position}]"
        if not isinstance(result, dict):
            wrong.append(f"{where}: not an object")
            continue
        call = result.get("source_call_id")
        if call is not None and call not in known_calls:
            wrong.append(f"{where}.source_call_id: {call!r} names no earlier call")
        if result.get("content") is not None:
            wrong += _check_content(f"{where}.content", result["content"])
    return wrong


def _check_content(where: str, content: Any) -> list[str]:
    if isinstance(content, str):
        return []
    if not isinstance(content, list):
        return [f"{where}: must be a string or a list of parts"]
    return [f"{where}[{at}]: {problem}" for at, part in enumerate(content) for problem in _check_part(part)]


def _check_part(part: Any) -> list[str]:
    if not isinstance(part, dict) or part.get("type") not in {"text", "image"}:
        return ["a part is a text or an image"]
    if part["type"] == "text":
        return [] if isinstance(part.get("text"), str) else ["text: must be a string"]
    source: JsonDict = part["source"] if isinstance(part.get("source"), dict) else {}
    wrong = [] if source.get("media_type") in _MEDIA else [f"source.media_type: must be one of {sorted(_MEDIA)}"]
    return wrong if _text(source.get("path")) else [*wrong, "source.path: must be a non-empty string"]


def _check_final(final: Any, n_steps: int) -> list[str]:
    if final is None:
        return []
    if not isinstance(final, dict):
        return ["final_metrics: must be an object"]
    total = final.get("total_steps")
    return [] if total is None or total == n_steps else [f"final_metrics.total_steps: is {total!r}, must be {n_steps}"]


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
