"""The forms in which a server may write a secret back."""

import base64
import json
from urllib.parse import quote, unquote

__all__ = ["forms", "quoted", "unquote"]


def forms(value: str) -> tuple[str, ...]:
    """A value as it is, inside JSON that is itself text, in a URL, in Base64."""
    data = value.encode("utf-8", "replace")
    ascii_only = json.dumps(value)[1:-1]
    in_json = (ascii_only, quoted(value), ascii_only.replace("/", "\\/"))
    encoded = base64.b64encode(data).decode().rstrip("=")
    return tuple(dict.fromkeys((value, *in_json, quote(data, safe=""), quote(data), encoded)))


def quoted(text: str) -> str:
    """A text as it stands inside JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
