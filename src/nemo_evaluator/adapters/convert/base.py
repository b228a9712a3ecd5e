"""The contract of a protocol, with chat completions in the middle; and text completions, the simplest protocol."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from nemo_evaluator.adapters._streams import DONE, encode_event
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.completions import prompt_of

Convert: TypeAlias = Callable[[JsonDict], JsonDict]


class Translator:
    """Turns chat-completion chunks into the bytes of another protocol's stream; this base class leaves them as chat."""

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        """Yield the events for one chunk."""
        yield encode_event(chunk)

    def end(self) -> Iterator[bytes]:
        """Yield the events that close the stream."""
        yield DONE


def _same(body: JsonDict) -> JsonDict:
    return body


@dataclass(frozen=True, slots=True)
class Speech:
    """The conversions of one protocol; chat itself stays as it is.

    Attributes:
        to_chat: A client's request in this protocol to a chat request.
        from_chat: A chat answer to an answer for that client.
        translator: Chat chunks to the stream for that client.
        request: A chat request to a request for a service of this protocol.
        answer: The service's answer to a chat answer.
    """

    to_chat: Convert = _same
    from_chat: Convert = _same
    translator: type[Translator] = Translator
    request: Convert = _same
    answer: Convert = _same


class FirstChoice(NamedTuple):
    """The first choice of a chat answer or chunk, and its message or delta; empty where there is none."""

    choice: JsonDict
    message: JsonDict


class _TextTranslator(Translator):
    """Converts chat chunks to text-completion chunks."""

    def feed(self, chunk: JsonDict) -> Iterator[bytes]:
        """Convert one chunk."""
        if chunk.get("error"):
            yield encode_event(chunk)
            return
        choices: list[JsonDict] = []
        if chunk.get("choices"):
            choice, delta = first_choice(chunk)
            text = delta.get("content") or ""
            choices = [{"index": 0, "text": text, "finish_reason": choice.get("finish_reason")}]
        yield encode_event({**chunk, "object": "text_completion", "choices": choices})


def _text_to_chat(body: JsonDict) -> JsonDict:
    """A text-completion request as a chat request: the prompt becomes the user's message."""
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        text = prompt
    else:
        text = "\n".join(map(str, prompt or ()))
    return {**without(body, "prompt"), "messages": [{"role": "user", "content": text}]}


def _text_from_chat(body: JsonDict) -> JsonDict:
    """A chat answer as a text completion."""
    choices: list[JsonDict] = []
    for choice in body.get("choices") or ():
        message = choice.get("message") or {}
        text = message.get("content") or ""
        choices.append({**_choice_head(choice), "text": text, "logprobs": None})
    return {**body, "object": "text_completion", "choices": choices}


def _text_request(chat: JsonDict) -> JsonDict:
    """A chat request for a service that only completes texts."""
    prompt = prompt_of(chat.get("messages") or [])
    return {**without(chat, "messages", "tools", "tool_choice"), "prompt": prompt}


def _text_answer(body: JsonDict) -> JsonDict:
    """A text completion as a chat answer."""
    choices: list[JsonDict] = []
    for choice in body.get("choices") or ():
        message = {"role": "assistant", "content": choice.get("text") or ""}
        choices.append({**_choice_head(choice), "message": message})
    return {**body, "object": "chat.completion", "choices": choices}


TEXT: Final = Speech(
    to_chat=_text_to_chat,
    from_chat=_text_from_chat,
    translator=_TextTranslator,
    request=_text_request,
    answer=_text_answer,
)


def _choice_head(choice: JsonDict) -> JsonDict:
    return {"index": choice.get("index", 0), "finish_reason": choice.get("finish_reason")}


def without(body: JsonDict, *names: str) -> JsonDict:
    """A copy of a body without some of its fields."""
    return {key: value for key, value in body.items() if key not in names}


def first_choice(body: JsonDict) -> FirstChoice:
    """The first choice of a chat answer or chunk."""
    choices: Sequence[JsonDict] = body.get("choices") or ()
    choice: JsonDict = choices[0] if choices else {}
    message: Any = choice.get("message") or choice.get("delta") or {}
    return FirstChoice(choice, message)


def thought_of(message: JsonDict) -> str:
    """The reasoning of a message or delta, under either of its names."""
    return message.get("reasoning_content") or message.get("reasoning") or ""


def error_in(chunk: JsonDict) -> JsonDict:
    """The error of a chunk as an object with a message."""
    return as_dict(chunk["error"]) or {"message": str(chunk["error"])}
