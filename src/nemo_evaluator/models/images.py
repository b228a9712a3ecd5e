"""Images as URLs that a model server understands."""

import base64
import mimetypes
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def image_url(image: Any) -> str:
    """Return a URL that a model server understands: URLs stay, files and bytes become data URIs."""
    if isinstance(image, (bytes, bytearray)):
        return _data_uri(bytes(image), None)
    if isinstance(image, dict) and image.get("bytes"):
        return _data_uri(image["bytes"], image.get("path"))
    text = str(image["path"] if isinstance(image, dict) and "path" in image else image)
    if text.startswith(("http://", "https://", "data:")):
        return text
    path = Path(text)
    if not path.is_file():
        raise FileNotFoundError(f"no image at {path}")
    return _data_uri(path.read_bytes(), text)


def _data_uri(data: bytes, name: str | None) -> str:
    kind = next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
    kind = kind or mimetypes.guess_type(name or "")[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
