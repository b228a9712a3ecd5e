"""What goes over the wire between ``gym://`` and a server of problems: problems, answers, verdicts as JSON.

Two dialects: *evaluator*, whose server hands out problems and judges plain texts, and *native* NeMo Gym, whose rows are
in a file and whose answers are objects of OpenAI's Responses API.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import aiohttp

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import JsonDict, PromptRequest, SandboxSpec, SeedResult, VerifyResult

_SPECS: Final = ("sandbox_spec", "verify_sandbox_spec")
# Fields of a row that say what is asked or how rollouts are booked, not how they are judged.
_ROW_OWN: Final = frozenset(
    {"responses_create_params", "expected_answer", "verifier_metadata", "agent_ref"}
)
_NOT_SENT: Final = frozenset({"source", "benchmark", "prompt", "tools", "reasoning"})


@dataclass(slots=True)
class GymSeed(SeedResult):
    """A problem of a Gym server: its number there, its row, and the cookies of the rollout it begins."""

    idx: int | None = None
    row: JsonDict | None = None
    cookies: aiohttp.CookieJar | None = None


def seed_json(seed: SeedResult) -> JsonDict:
    """A problem as ``/seed_session`` gives it; what is empty and unusual is left out."""
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
    """The problem in a reply of ``/seed_session``. Raises TransportError when there is none."""
    if not isinstance(reply.get("prompt"), str) or not isinstance(
        reply.get("metadata"), dict | None
    ):
        raise TransportError(
            f"/seed_session gave no problem for idx {idx}: no 'prompt' in {str(reply)[:200]}"
        )
    known = {field.name for field in fields(SeedResult)}
    given = {name: value for name, value in reply.items() if name in known and value is not None}
    given["expected_answer"] = str(given.get("expected_answer", ""))
    try:
        given |= {name: SandboxSpec(**given[name]) for name in _SPECS if name in given}
        if "requests" in given:
            given |= {"requests": [PromptRequest(**one) for one in given["requests"]]}
    except TypeError as error:
        raise TransportError(
            f"/seed_session gave a problem that cannot be read: {error}"
        ) from error
    return GymSeed(**given | {"shown": frozenset(given.get("shown", ()))}, idx=idx, cookies=cookies)


def native_seed(row: JsonDict, idx: int, cookies: aiohttp.CookieJar) -> GymSeed:
    """A row of a NeMo Gym data file as a problem."""
    params = row["responses_create_params"]
    given = params["input"]
    if isinstance(given, str):
        asked: list[dict[str, str] | Any] | Any = [{"role": "user", "content": given}]
    else:
        asked = given
    messages: list[dict[str, str | Any]] = []
    for one in asked:
        if "role" in one:
            messages.append({"role": one["role"], "content": content_text(one["content"])})
    if params.get("instructions"):
        messages = [{"role": "system", "content": params["instructions"]}, *messages]
    prompt = next((one["content"] for one in reversed(messages) if one["role"] == "user"), "")
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
    """The row that a problem was made from; of another's problem, one that says the same."""
    if isinstance(seed, GymSeed) and seed.row is not None:
        return seed.row
    params: JsonDict = {"input": seed.messages or seed.plain_messages}
    params |= {key: seed.metadata[key] for key in ("tools", "reasoning") if seed.metadata.get(key)}
    told = {key: value for key, value in seed.metadata.items() if key not in _NOT_SENT}
    row = {
        "responses_create_params": params,
        "expected_answer": seed.expected_answer,
        "verifier_metadata": told,
    }
    return {**told, **row}


def native_response(text: str) -> JsonDict:
    """A text as an object of the Responses API."""
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
    """What the assistant said in a text, a Responses or a chat object."""
    if not isinstance(response, dict):
        if isinstance(response, str):
            return response
        return str(response)
    said: list[str] = []
    for item in response.get("output") or []:
        if (
            isinstance(item, dict)
            and item.get("type", "message") == "message"
            and item.get("role") == "assistant"
        ):
            said.append(content_text(item.get("content")))
    if said or "output" in response:
        return "\n".join(said).strip()
    for choice in response.get("choices") or []:
        return content_text((choice.get("message") or {}).get("content"))
    return str(response)


def verdict_of(reply: JsonDict) -> VerifyResult:
    """The verdict in a reply of ``/verify``, of either protocol. A reply without a reward is not a verdict."""
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
    """The text of a content, plain or in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if content is None:
        return ""
    return str(content)
