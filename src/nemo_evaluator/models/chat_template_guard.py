"""Text completions have no chat template: settings for one are refused or removed, never sent silently."""

import os
from collections.abc import Iterator
from typing import Any, Final

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict

ALLOW: Final = "NEMO_EVALUATOR_ALLOW_COMPLETIONS_CHAT_TEMPLATE"
_KEYS: Final = frozenset({"chat_template_kwargs", "chat_template"})


def guard_completions(body: JsonDict) -> JsonDict:
    """A text-completions request without chat-template settings.

    Raises:
        RequestRejectedError: There is a true/false switch among them, which would change the answer.
    """
    settings = [(key, value) for key, value in _fields(body) if key in _KEYS]
    if not settings or os.environ.get(ALLOW, "").lower() in ("1", "true", "yes", "on"):
        return body
    if any(key == "chat_template_kwargs" and _has_bool(value) for key, value in settings):
        raise RequestRejectedError(
            "chat_template_kwargs with a true/false switch was sent to a text-completions endpoint, which has no chat "
            "template",
            hint=f"use protocol: chat_completions, or set {ALLOW}=1 if the server honours it",
            status=400,
        )
    stripped = _strip(body)
    assert isinstance(stripped, dict)
    return stripped


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field of every object inside a value."""
    if isinstance(value, dict):
        yield from value.items()
        items = list(value.values())
    elif isinstance(value, list):
        items = value
    else:
        return
    for item in items:
        # A prompt of token ids is a long list of numbers.
        if isinstance(item, (dict, list)):
            yield from _fields(item)


def _has_bool(value: Any) -> bool:
    """Whether a value is a switch, or an object inside it has one."""
    if isinstance(value, bool):
        return True
    return any(isinstance(item, bool) for _, item in _fields(value))


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip(item) for key, item in value.items() if key not in _KEYS}
    if isinstance(value, list):
        return [_strip(item) for item in value]
    return value
