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
    always = {"prompt", "expected_answer", "metadata", "messages", "system", "sandbox_spec"}
    body = {field.name: getattr(seed, field.name) for field in fields(SeedResult)}
    body = {name: value for name, value in body.items() if name in always or value}
    body |= {name: asdict(body[name]) for name in _SPECS if body.get(name) is not None}
    if seed.requests is not None:
        body["requests"] = [asdict(request) for request in seed.requests]
    if seed.shown:
        return body | {"shown": sorted(seed.shown)}
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
    if not isinstance(reply.get("prompt"), str) or not isinstance(
        reply.get("metadata"), dict | None
    ):
        raise TransportError(
            f"/seed_session gave no problem for idx {idx}: no 'prompt' in {str(reply)[:200]}"
        )
    field_names = {field.name for field in fields(SeedResult)}
    field_values = {
        name: value for name, value in reply.items() if name in field_names and value is not None
    }
    field_values["expected_answer"] = str(field_values.get("expected_answer", ""))
    try:
        field_values |= {
            name: SandboxSpec(**field_values[name]) for name in _SPECS if name in field_values
        }
        if "requests" in field_values:
            field_values |= {
                "requests": [PromptRequest(**request) for request in field_values["requests"]]
            }
    except TypeError as error:
        raise TransportError(
            f"/seed_session gave a problem that cannot be read: {error}"
        ) from error
    return GymSeed(
        **field_values | {"shown": frozenset(field_values.get("shown", ()))},
        idx=idx,
        cookies=cookies,
    )


def native_seed(row: JsonDict, idx: int, cookies: aiohttp.CookieJar) -> GymSeed:
    """Convert a row of a NeMo Gym data file to a problem."""
    params = row["responses_create_params"]
    input_value = params["input"]
    if isinstance(input_value, str):
        input_messages: list[dict[str, str] | Any] | Any = [
            {"role": "user", "content": input_value}
        ]
    else:
        input_messages = input_value
    messages: list[dict[str, str | Any]] = []
    for message in input_messages:
        if "role" in message:
            messages.append({"role": message["role"], "content": content_text(message["content"])})
    if params.get("instructions"):
        messages = [{"role": "system", "content": params["instructions"]}, *messages]
    prompt = next(
        (message["content"] for message in reversed(messages) if message["role"] == "user"), ""
    )
    metadata: dict[str, Any] = {}
    for key, value in row.items():
        if key not in _ROW_OWN and not key.startswith("_ng_"):
            metadata[key] = value
    metadata |= row.get("verifier_metadata") or {}
    metadata |= {key: params[key] for key in ("tools", "reasoning") if params.get(key)}
    if row.get("expected_answer") is None:
        expected = ""
    else:
        expected = str(row["expected_answer"])
    return GymSeed(prompt, expected, metadata, messages=messages, idx=idx, row=row, cookies=cookies)


def native_row(seed: SeedResult) -> JsonDict:
    """Return the row that a problem was made from; for problems of other benchmarks, an equivalent row."""
    if isinstance(seed, GymSeed) and seed.row is not None:
        return seed.row
    params: JsonDict = {"input": seed.messages or seed.plain_messages}
    params |= {key: seed.metadata[key] for key in ("tools", "reasoning") if seed.metadata.get(key)}
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
