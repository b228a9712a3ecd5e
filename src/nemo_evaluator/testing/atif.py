"""The rules of an ATIF document, as a function that lists every violation."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError

from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.types import JsonDict

_AGENT_ONLY: Final = (
    "model_name",
    "reasoning_effort",
    "reasoning_content",
    "tool_calls",
    "metrics",
)


def validate_trajectory(doc: Any, *, strict: bool = False) -> list[str]:
    """Validate one ATIF document.

    Args:
        doc: The parsed document.
        strict: Also require a user or system step if the agent acted.

    Returns:
        All problems; empty if the document is valid.
    """
    problems = [_told(error) for error in _schema().iter_errors(doc)]
    if problems:
        return problems
    steps: list[JsonDict] = doc["steps"]
    known_calls: set[str] = set()
    for number, step in enumerate(steps, start=1):
        for problem in _check_step(step, number, known_calls):
            problems.append(f"steps[{number}].{problem}")
    total = (doc.get("final_metrics") or {}).get("total_steps")
    if total is not None and total != len(steps):
        problems.append(f"final_metrics.total_steps: is {total!r}, must be {len(steps)}")
    sources = {step["source"] for step in steps}
    if strict and "agent" in sources and not sources & {"user", "system"}:
        problems.append("steps: an agent acts without a message from a user or the system")
    return problems


@cache
def _schema() -> Draft202012Validator:
    """Return a validator for the JSON Schema of ATIF."""
    return Draft202012Validator(read_json(Path(__file__).with_name("atif.schema.json")))


def _told(error: ValidationError) -> str:
    """Describe a schema error and its location; steps are counted from 1, like their IDs."""
    location = ""
    for part in error.absolute_path:
        if isinstance(part, int):
            location += f"[{part + (location == '.steps')}]"
        else:
            location += f".{part}"
    if error.validator == "required":
        location += "." + error.message.partition("'")[2].partition("'")[0]
    return f"{location.removeprefix('.') or 'document'}: {error.message}"


def _check_step(step: JsonDict, number: int, known_calls: set[str]) -> Iterator[str]:
    """Yield the violations of rules that depend on other steps, or on other fields of the step."""
    if step["step_id"] != number:
        yield f"step_id: is {step['step_id']!r}, must be {number}"
    if step["source"] != "agent":
        yield from (f"{key}: only on agent steps" for key in _AGENT_ONLY if key in step)
    for call in (call["tool_call_id"] for call in step.get("tool_calls", ())):
        if call in known_calls:
            yield f"tool_calls: the tool_call_id {call!r} is used twice"
        known_calls.add(call)
    metrics = step.get("metrics", {})
    if metrics.get("cached_tokens", 0) > metrics.get(
        "prompt_tokens", metrics.get("cached_tokens", 0)
    ):
        yield "metrics.cached_tokens: more than prompt_tokens"
    for result in step.get("observation", {}).get("results", ()):
        call = result.get("source_call_id")
        if call is not None and call not in known_calls:
            yield f"observation: the source_call_id {call!r} names no earlier call"
