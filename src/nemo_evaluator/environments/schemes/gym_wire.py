"""The JSON that ``gym://`` and a Gym server exchange: problems, answers and verdicts.

There are two protocols. With *evaluator*, the server provides the problems and scores plain text. With *native* NeMo
Gym, a file holds the rows, and answers are objects of OpenAI's Responses API.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import aiohttp

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import JsonDict, PromptRequest, SandboxSpec, SeedResult, VerifyResult

_SPECS: Final = ("sandbox_spec", "verify_sandbox_spec")
# Fields of a problem that the server sends even if they are empty.
_ALWAYS_SENT: Final = frozenset(
    {"prompt", "expected_answer", "metadata", "messages", "system", "sandbox_spec"}
)
# Settings of a request that are part of a problem's metadata.
_REQUEST_SETTINGS: Final = ("tools", "reasoning")
# Fields of a row that define the prompt or identify the rollout, and do not matter for scoring.
_ROW_OWN: Final = frozenset(
    {"responses_create_params", "expected_answer", "verifier_metadata", "agent_ref"}
)
_NOT_SENT: Final = frozenset({"source", "benchmark", "prompt", "tools", "reasoning"})


@dataclass(slots=True)
class GymSeed(SeedResult):
    """A problem of a Gym server.

    Attributes:
        idx: The number of the problem on the server.
        row: The row of the data file, for the native protocol.
        cookies: The cookies of the rollout that starts with this problem.
    """

    idx: int | None = None
    row: JsonDict | None = None
    cookies: aiohttp.CookieJar | None = None


def seed_json(seed: SeedResult) -> JsonDict:
    """Return a problem as the body of a ``/seed_session`` reply, without empty optional fields."""
    body: JsonDict = {}
    for field in fields(SeedResult):
        value = getattr(seed, field.name)
        if value or field.name in _ALWAYS_SENT:
            body[field.name] = value
    for name in _SPECS:
        if body.get(name) is not None:
            body[name] = asdict(body[name])
    if seed.requests is not None:
        body["requests"] = [asdict(request) for request in seed.requests]
    if seed.shown:
        body["shown"] = sorted(seed.shown)
    return body


def seed_of(reply: JsonDict, idx: int, cookies: aiohttp.CookieJar) -> GymSeed:
    """Parse the reply of ``/seed_session``.

    Args:
        reply: The body of the reply.
        idx: The number of the problem.
        cookies: The cookies of the rollout.

    Raises:
        TransportError: The reply is not a valid problem.
    """
    has_prompt = isinstance(reply.get("prompt"), str)
    has_proper_metadata = isinstance(reply.get("metadata"), dict | None)
    if not has_prompt or not has_proper_metadata:
        raise TransportError(
            f"/seed_session gave no problem for idx {idx}: no 'prompt' in {str(reply)[:200]}"
        )
    known_fields = {field.name for field in fields(SeedResult)}
    values: JsonDict = {}
    for name, value in reply.items():
        if name in known_fields and value is not None:
            values[name] = value
    values["expected_answer"] = str(values.get("expected_answer", ""))
    try:
        _parse_objects(values)
    except TypeError as error:
        raise TransportError(
            f"/seed_session gave a problem that cannot be read: {error}"
        ) from error
    values["shown"] = frozenset(values.get("shown", ()))
    return GymSeed(**values, idx=idx, cookies=cookies)


def _parse_objects(values: JsonDict) -> None:
    """Replace the sandboxes and requests among a problem's fields, which JSON has as dicts, by objects.

    Raises:
        TypeError: A dict has unknown or missing keys.
    """
    for name in _SPECS:
        if name in values:
            values[name] = SandboxSpec(**values[name])
    if "requests" in values:
        values["requests"] = [PromptRequest(**request) for request in values["requests"]]


def native_seed(row: JsonDict, idx: int, cookies: aiohttp.CookieJar) -> GymSeed:
    """Convert a row of a NeMo Gym data file to a problem."""
    params = row["responses_create_params"]
    messages = _chat_messages(params)
    user_prompts = [message["content"] for message in messages if message["role"] == "user"]
    expected_answer = row.get("expected_answer")
    return GymSeed(
        prompt=user_prompts[-1] if user_prompts else "",
        expected_answer="" if expected_answer is None else str(expected_answer),
        metadata=_row_metadata(row, params),
        messages=messages,
        idx=idx,
        row=row,
        cookies=cookies,
    )


def _chat_messages(params: JsonDict) -> list[JsonDict]:
    """Return the input of a request of the Responses API as chat messages, its instructions as the system prompt.

    Args:
        params: The request. Its input is a text, or a list in which only messages count.
    """
    messages: list[JsonDict] = []
    if params.get("instructions"):
        messages.append({"role": "system", "content": params["instructions"]})
    input_value = params["input"]
    if isinstance(input_value, str):
        messages.append({"role": "user", "content": content_text(input_value)})
        return messages
    for item in input_value:
        if "role" in item:
            messages.append({"role": item["role"], "content": content_text(item["content"])})
    return messages


def _row_metadata(row: JsonDict, params: JsonDict) -> JsonDict:
    """Return the fields of a row that its scorer may read, with the tools and the reasoning of its request."""
    metadata: JsonDict = {}
    for key, value in row.items():
        is_internal = key.startswith("_ng_")
        if key not in _ROW_OWN and not is_internal:
            metadata[key] = value
    metadata |= row.get("verifier_metadata") or {}
    for key in _REQUEST_SETTINGS:
        if params.get(key):
            metadata[key] = params[key]
    return metadata


def native_row(seed: SeedResult) -> JsonDict:
    """Return the row that a problem was made from; for problems of other benchmarks, an equivalent row."""
    if isinstance(seed, GymSeed) and seed.row is not None:
        return seed.row
    params: JsonDict = {"input": seed.messages or seed.plain_messages}
    for key in _REQUEST_SETTINGS:
        if seed.metadata.get(key):
            params[key] = seed.metadata[key]
    other_metadata = {key: value for key, value in seed.metadata.items() if key not in _NOT_SENT}
    row = {
        "responses_create_params": params,
        "expected_answer": seed.expected_answer,
        "verifier_metadata": other_metadata,
    }
    return {**other_metadata, **row}


def native_response(text: str) -> JsonDict:
    """Wrap a text in an object of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "id": "msg-eval-synthetic",
        "type": "message",
        "role": "assistant",
        "status": "completed",
    }
    return {
        "id": "eval-synthetic",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "evaluator",
        "output": [message | {"content": [part]}],
        "output_text": text,
        # NeMo Gym refuses a response without these.
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def assistant_text(response: Any) -> str:
    """Return the assistant's text from a string, a Responses object or a chat completion."""
    if not isinstance(response, dict):
        if isinstance(response, str):
            return response
        return str(response)
    texts: list[str] = []
    for item in response.get("output") or []:
        if (
            isinstance(item, dict)
            and item.get("type", "message") == "message"
            and item.get("role") == "assistant"
        ):
            texts.append(content_text(item.get("content")))
    if texts or "output" in response:
        return "\n".join(texts).strip()
    for choice in response.get("choices") or []:
        return content_text((choice.get("message") or {}).get("content"))
    return str(response)


def verdict_of(reply: JsonDict) -> VerifyResult:
    """Parse the reply of ``/verify``, of either protocol.

    Raises:
        TransportError: The reply has no numeric reward.
    """
    reward = reply.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        raise TransportError(f"/verify gave no reward: {str(reply)[:200]}")
    if isinstance(reply.get("scoring_details"), dict):
        details = reply["scoring_details"]
        metadata = reply.get("metadata") or {}
    else:
        dropped = {
            "reward",
            "responses_create_params",
            "response",
            "extracted_answer",
            "extracted_sql",
            *_ROW_OWN,
        }
        details = {
            "method": "gym",
            **{key: value for key, value in reply.items() if key not in dropped},
        }
        metadata = {}
    extracted = reply.get("extracted_sql") or reply.get("extracted_answer")
    return VerifyResult(
        float(reward), None if extracted is None else str(extracted), details, metadata=metadata
    )


def content_text(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if content is None:
        return ""
    return str(content)
