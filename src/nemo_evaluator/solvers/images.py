"""Images of a problem as content parts of a message: paths, bytes, URLs and data URIs."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import JsonDict, Message
from nemo_evaluator.models.images import image_url


def with_images(messages: list[Message], images: list[Any], detail: str) -> list[Message]:
    """The messages with the images put before the text of the last user message."""
    try:
        urls = [image_url(image) for image in images]
    except FileNotFoundError as error:
        raise SeedError(str(error)) from error
    parts: list[JsonDict] = [{"type": "image_url", "image_url": {"url": url, "detail": detail}} for url in urls]
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, list):
                if any(part.get("type") == "image_url" for part in content):
                    return messages
                return [*messages[:at], message | {"content": parts + content}, *messages[at + 1 :]]
            text = {"type": "text", "text": content or ""}
            return [*messages[:at], message | {"content": [*parts, text]}, *messages[at + 1 :]]
    return [*messages, {"role": "user", "content": parts}]
