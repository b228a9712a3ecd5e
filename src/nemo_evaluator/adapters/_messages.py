"""The messages of a request, whichever protocol it speaks."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.core.types import Message
from nemo_evaluator.models.types import ModelRequest


def messages_of(request: ModelRequest) -> list[Message] | None:
    """The messages of a chat or Responses request; None for requests that have none."""
    body = request.body
    if request.path.endswith("/responses"):
        given = body.get("input")
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        return list(given) if isinstance(given, list) else None
    if request.path.endswith("/chat/completions") or "messages" in body:
        given = body.get("messages")
        return list(given) if isinstance(given, (list, tuple)) else []
    return None


def put_messages(request: ModelRequest, messages: list[Message]) -> None:
    """Replace the messages of a request."""
    key = "input" if request.path.endswith("/responses") else "messages"
    request.body = {**request.body, key: messages}


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list, joined by newlines."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [str(part.get("text", "")) for part in content if isinstance(part, dict) and part.get("text")]
        return "\n".join(texts)
    return ""
