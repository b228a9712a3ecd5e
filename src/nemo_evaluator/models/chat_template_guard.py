"""Text completions know no chat template: settings for one are refused or left out, never silently sent."""

from __future__ import annotations

import os
from typing import Any, Final

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict

ALLOW: Final = "NEMO_EVALUATOR_ALLOW_COMPLETIONS_CHAT_TEMPLATE"
_KEYS: Final = frozenset({"chat_template_kwargs", "chat_template"})


def guard_completions(body: JsonDict) -> JsonDict:
    """The body of a text-completions request without chat-template settings; a switch among them is an error."""
    if not _mentions(body):
        return body
    if os.environ.get(ALLOW, "").lower() in ("1", "true", "yes", "on"):
        return body
    if _has_switch(body):
        raise RequestRejectedError(
            "chat_template_kwargs with a true/false switch was sent to a text-completions endpoint, which has no chat "
            "template",
            hint=f"use protocol: chat_completions, or set {ALLOW}=1 if the server honours it",
            status=400,
        )
    stripped = _strip(body)
    assert isinstance(stripped, dict)
    return stripped


def _mentions(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key in _KEYS or _mentions(item) for key, item in value.items())
    if isinstance(value, list):
        return any(_mentions(item) for item in value)
    return False


def _has_switch(value: Any) -> bool:
    if isinstance(value, dict):
        return any((key == "chat_template_kwargs" and _has_bool(v)) or _has_switch(v) for key, v in value.items())
    if isinstance(value, list):
        return any(_has_switch(item) for item in value)
    return False


def _has_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, dict):
        return any(_has_bool(item) for item in value.values())
    return isinstance(value, list) and any(_has_bool(item) for item in value)


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip(item) for key, item in value.items() if key not in _KEYS}
    return [_strip(item) for item in value] if isinstance(value, list) else value
