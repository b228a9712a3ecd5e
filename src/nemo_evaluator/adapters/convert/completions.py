"""Text completions, spoken by an asker or by the service, with chat in the middle."""

from nemo_evaluator.adapters._streams import encode_event
from nemo_evaluator.adapters.convert.base import Speech, Translator, first_choice
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.completions import prompt_of


class TextTranslator(Translator):
    """Chat chunks to text-completion chunks."""

    def feed(self, chunk: JsonDict) -> bytes:
        """The chunk as a text chunk."""
        if chunk.get("error"):
            return encode_event(chunk)
        choice, delta = first_choice(chunk)
        text = {"index": 0, "text": delta.get("content") or "", "finish_reason": choice.get("finish_reason")}
        return encode_event({**chunk, "object": "text_completion", "choices": [text] if chunk.get("choices") else []})


class Text(Speech):
    """Requests, answers and events of text completions."""

    translator = TextTranslator

    def to_chat(self, body: JsonDict) -> JsonDict:
        """A text-completion request as a chat request: the prompt is what the user says."""
        prompt = body.get("prompt")
        text = prompt if isinstance(prompt, str) else "\n".join(map(str, prompt or ()))
        rest = {key: value for key, value in body.items() if key != "prompt"}
        return {**rest, "messages": [{"role": "user", "content": text}]}

    def from_chat(self, body: JsonDict) -> JsonDict:
        """A chat answer as a text completion."""
        choices = [
            {
                "index": choice.get("index", 0),
                "text": (choice.get("message") or {}).get("content") or "",
                "finish_reason": choice.get("finish_reason"),
                "logprobs": None,
            }
            for choice in body.get("choices") or ()
        ]
        return {**body, "object": "text_completion", "choices": choices}


def to_completions(chat: JsonDict) -> JsonDict:
    """A chat request for a service that only completes texts."""
    rest = {key: value for key, value in chat.items() if key not in ("messages", "tools", "tool_choice")}
    return {**rest, "prompt": prompt_of(chat.get("messages") or [])}


def chat_of_completion(body: JsonDict) -> JsonDict:
    """A text completion as a chat answer."""
    choices = [
        {
            "index": choice.get("index", 0),
            "message": {"role": "assistant", "content": choice.get("text") or ""},
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in body.get("choices") or ()
    ]
    return {**body, "object": "chat.completion", "choices": choices}
