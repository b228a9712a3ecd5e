"""Images of a problem as content parts of a message: paths, bytes, URLs and data URIs."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import JsonDict, Message

_MAGIC: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def with_images(messages: list[Message], images: list[Any], detail: str) -> list[Message]:
    """The messages with the images put before the text of the last user message."""
    parts: list[JsonDict] = [
        {"type": "image_url", "image_url": {"url": image_url(image), "detail": detail}} for image in images
    ]
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


def image_url(image: Any) -> str:
    """A URL that a model server understands: given ones pass, files and bytes become data URIs."""
    if isinstance(image, (bytes, bytearray)):
        return _data_uri(bytes(image), None)
    if isinstance(image, dict) and image.get("bytes"):
        return _data_uri(image["bytes"], image.get("path"))
    text = str(image["path"] if isinstance(image, dict) and "path" in image else image)
    if text.startswith(("http://", "https://", "data:")):
        return text
    path = Path(text)
    if not path.is_file():
        raise SeedError(f"image {text!r} does not exist")
    return _data_uri(path.read_bytes(), text)


def _data_uri(data: bytes, name: str | None) -> str:
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
    kind = kind or mimetypes.guess_type(name or "")[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
