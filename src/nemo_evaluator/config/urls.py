"""URLs of endpoints in a config."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import Protocol

PROTOCOL_OF_PATH: dict[str, Protocol] = {
    "/chat/completions": "chat_completions",
    "/completions": "completions",
    "/responses": "responses",
}


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        named = parts.username is not None or parts.password is not None
        ok = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        ok = named = False
    if named:
        text = "a URL must not hold a user name or password: give the key as api_key, or as a header under "
        text += "proxy.extra_headers, from an environment variable"
        raise PydanticCustomError("url_with_password", text)
    if not ok:
        raise PydanticCustomError("bad_url", "a URL that starts with http:// or https:// is expected")
    return value


Url = Annotated[str, AfterValidator(_url)]


def protocol_of_url(url: str) -> Protocol | None:
    """The protocol that the path of a URL speaks of, if it speaks of one."""
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        return None
    return next((protocol for ending, protocol in PROTOCOL_OF_PATH.items() if path.endswith(ending)), None)
