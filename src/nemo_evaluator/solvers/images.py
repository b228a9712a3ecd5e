"""A problem as chat messages, with its images (paths, bytes, URLs and data URIs) as parts of their content."""

from typing import Any

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.models.images import image_url


def messages_for(task: SeedResult, system_prompt: str | None, detail: str = "auto") -> list[Message]:
    """The messages of a problem; a system prompt of the solver takes the place of the problem's own."""
    messages = list(task.messages) if task.messages is not None else [{"role": "user", "content": task.prompt}]
    system = system_prompt or (task.system if task.messages is None else None)
    if system:
        rest = [message for message in messages if message.get("role") != "system"] if system_prompt else messages
        messages = [{"role": "system", "content": system}, *rest]
    return with_images(messages, task.images, detail) if task.images else messages


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
