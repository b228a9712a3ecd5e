"""Canonical hashing: equal meaning, equal digest, on every machine and in every run."""

import hashlib
from typing import Any

import orjson

from nemo_evaluator.core.plain import plain
from nemo_evaluator.core.text import text_of

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
# Copying a hasher takes a third of the time of creating one.
_EMPTY = hashlib.blake2b(digest_size=16)


def canonical(value: Any) -> bytes:
    """Return the canonical JSON bytes of a value: keys sorted, no spaces, and ``str`` of unknown objects."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        pass
    try:
        return orjson.dumps(value, default=_plain, option=_OPTIONS)
    except (TypeError, RecursionError):
        return orjson.dumps(plain(value, _plain), option=_OPTIONS)


def digest(value: Any) -> str:
    """Return a fingerprint of 32 hex digits of any JSON-like value."""
    hasher = _EMPTY.copy()
    hasher.update(canonical(value))
    return hasher.hexdigest()


def digest_parts(*parts: str | int) -> str:
    """Return a fingerprint of a few short strings and numbers."""
    return digest_text("\x1f".join(map(str, parts)))


def digest_text(text: str) -> str:
    """Return a fingerprint of a text: the cheap form for hot paths."""
    hasher = _EMPTY.copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, bytes):
        return hashlib.blake2b(value, digest_size=16).hexdigest()
    model_dump = getattr(value, "model_dump", None)
    if model_dump is not None:
        return model_dump(mode="json")
    return text_of(value)
