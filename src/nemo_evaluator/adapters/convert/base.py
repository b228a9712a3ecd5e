"""The contract of a protocol, with chat completions in the middle; and text completions, the simplest of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from nemo_evaluator.adapters._streams import DONE, encode_event
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.completions import prompt_of

Convert: TypeAlias = Callable[[JsonDict], JsonDict]


class Translator:
    """Turns chat-completion chunks, one at a time, into the bytes of another protocol's stream; chat stays as it is."""

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        """The events for one chunk."""
        yield encode_event(chunk)

    def end(self) -> Iterator[bytes]:
        """The events that close the stream."""
        yield DONE


def _same(body: JsonDict) -> JsonDict:
    return body


@dataclass(frozen=True, slots=True)
class Speech:
    """A protocol. An asker speaks it: its requests become those of chat, and chat's answers and chunks its own. Or a
    service does: chat's requests become its own, and its answers those of chat. Chat itself stays as it is."""

    to_chat: Convert = _same
    from_chat: Convert = _same
    translator: type[Translator] = Translator
    request: Convert = _same
    answer: Convert = _same


class _TextTranslator(Translator):
    """Chat chunks to text-completion chunks."""

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        if not chunk.get("error"):
            choice, delta = first_choice(chunk)
            text = {
                "index": 0,
                "text": delta.get("content") or "",
                "finish_reason": choice.get("finish_reason"),
            }
            chunk = {
                **chunk,
                "object": "text_completion",
                "choices": [text] if chunk.get("choices") else [],
            }
        yield encode_event(chunk)


def _text_to_chat(body: JsonDict) -> JsonDict:
    """A text-completion request as a chat request: the prompt is what the user says."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        text = prompt
    else:
        text = "\n".join(map(str, prompt or ()))
    return {**without(body, "prompt"), "messages": [{"role": "user", "content": text}]}


def _text_from_chat(body: JsonDict) -> JsonDict:
    """A chat answer as a text completion."""
    texts: list[tuple[Any | str, Any]] = []
    for choice in body.get("choices") or ():
        texts.append(((choice.get("message") or {}).get("content") or "", choice))
    choices = [{**_head(choice), "text": text, "logprobs": None} for text, choice in texts]
    return {**body, "object": "text_completion", "choices": choices}


def _text_request(chat: JsonDict) -> JsonDict:
    """A chat request for a service that only completes texts."""
    return {
        **without(chat, "messages", "tools", "tool_choice"),
        "prompt": prompt_of(chat.get("messages") or []),
    }


def _text_answer(body: JsonDict) -> JsonDict:
    """A text completion as a chat answer."""
    given = body.get("choices") or ()
    choices: list[dict[str, Any]] = []
    for one in given:
        choices.append(
            {**_head(one), "message": {"role": "assistant", "content": one.get("text") or ""}}
        )
    return {**body, "object": "chat.completion", "choices": choices}


TEXT: Final = Speech(
    _text_to_chat, _text_from_chat, _TextTranslator, request=_text_request, answer=_text_answer
)


def _head(choice: JsonDict) -> JsonDict:
    return {"index": choice.get("index", 0), "finish_reason": choice.get("finish_reason")}


def without(body: JsonDict, *names: str) -> JsonDict:
    return {key: value for key, value in body.items() if key not in names}


def first_choice(body: JsonDict) -> tuple[JsonDict, JsonDict]:
    """The first choice of a chat answer or chunk, and its message or delta; empty where there is none."""
    choices: Sequence[JsonDict] = body.get("choices") or ()
    choice = choices[0] if choices else {}
    return choice, choice.get("message") or choice.get("delta") or {}


def thought_of(message: JsonDict) -> str:
    """The reasoning of a message or delta, under either of its names."""
    return message.get("reasoning_content") or message.get("reasoning") or ""


def error_in(chunk: JsonDict) -> JsonDict:
    return as_dict(chunk["error"]) or {"message": str(chunk["error"])}
