"""Texts that can be encoded and written anywhere, whatever their source."""

from contextlib import suppress


def valid_text(text: str) -> str:
    """Make a text that can be encoded.

    Surrogates that stand alone become U+FFFD, pairs of them the character that they encode.
    """
    if not text.isascii():
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def text_of(value: object) -> str:
    """Return ``str`` of an object, or the name of its class when its own code raises."""
    with suppress(Exception):
        return valid_text(str(value))
    return f"<{type(value).__name__}>"
