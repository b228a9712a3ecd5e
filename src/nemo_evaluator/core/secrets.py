"""Secrets are a type: they print as ``***`` and leave only through ``reveal()``.

A server may repeat a secret in its reply. So every value that was ever a ``Secret`` is masked where records are
written and where proxies answer: ``scrub`` for text, ``files.scrub_json`` for encoded JSON. Values under 8 characters
and single words under 16 letters are not masked: they are placeholders (``EMPTY``, ``placeholder``), and masking them
would change ordinary answers.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.secret_names import looks_secret as looks_secret

MASK: Final = "***"
_SHORTEST: Final = 8
# For letters and digits together: `hunter2` is not an ordinary word.
_SHORTEST_MIXED: Final = 6
_SHORTEST_WORD: Final = 16
# What people write where a server asks for a key and does not look at it.
_PLACEHOLDERS: Final = frozenset(
    {
        "anonymous",
        "change-me",
        "changeme",
        "dummy-key",
        "dummy-token",
        "dummy_key",
        "fake-key",
        "fake-token",
        "local-key",
        "mock-key",
        "no-key",
        "no-key-required",
        "no-token",
        "none-needed",
        "not-a-key",
        "not-needed",
        "not-required",
        "not-set",
        "not-used",
        "not_needed",
        "placeholder",
        "sk-dummy",
        "sk-fake",
        "sk-no-key-required",
        "sk-none",
        "sk-not-needed",
        "sk-placeholder",
        "test-key",
        "test-token",
        "test_key",
        "token-abc123",
        "your-api-key",
        "your_api_key",
    }
)
# Read from the environment by us or by libraries that exporters and datasets use, without being named in a config.
_VARIABLES: Final = (
    *(
        "NEMO_API_KEY",
        "NEMO_JUDGE_API_KEY",
        "NVIDIA_API_KEY",
        "NGC_API_KEY",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
    ),
    *(
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "WANDB_API_KEY",
        "MLFLOW_TRACKING_PASSWORD",
        "MLFLOW_TRACKING_TOKEN",
    ),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)
# `nel --help` has no secrets.
_json = Lazy("json")
_base64 = Lazy("base64")
_values = Lazy("nemo_evaluator.core.secret_values")
_ORDINARY_WORD: Final = re.compile(r"[A-Z]?[a-z]*|[A-Z]*")


class Secret:
    """A value that must not reach a file, a log, a process list or an error message."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        _remember(value)

    def reveal(self) -> str:
        """Return the value itself; call it only where it is sent."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __str__(self) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> Any:
        raise TypeError("a Secret is not pickled")


_known: dict[str, tuple[str, ...]] = {}
# All their forms, longest first; and the same as they stand in JSON.
plain_forms: Final[list[str]] = []
encoded_forms: Final[list[bytes]] = []


def remember_named(values: Mapping[Any, Any]) -> None:
    """Make secrets of the texts in ``values`` whose names look secret, at any depth."""
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Mapping):
                remember_named(item)
            elif isinstance(item, str) and looks_secret(str(name)):
                scheme, _, credentials = item.strip().partition(" ")
                Secret(item)
                # `Bearer sk-...`: a server that repeats it may leave the first word out.
                Secret(credentials or scheme)


def remember_environment(variables: Mapping[str, str]) -> None:
    """Make secrets of the well-known keys of an environment, whatever reads them."""
    for name in _VARIABLES:
        if variables.get(name):
            Secret(variables[name])


def remember_urls(value: Any) -> None:
    """Make secrets of passwords and of parameters such as ``key=`` in the URLs of a config's data."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            remember_urls(item)
    elif isinstance(value, str) and "://" in value and ("@" in value or "=" in value):
        for part in _values.url_parts(value):
            Secret(part)
            Secret(unquote(part))


def forget(secret: Secret) -> None:
    """Stop masking a secret that is no longer valid, such as the key of a closed session."""
    if _known.pop(secret.reveal(), None) is not None:
        _arrange()


def scrub(text: str) -> str:
    """Replace every secret value that this process has seen by ``***``."""
    for form in plain_forms:
        if form in text:
            text = text.replace(form, MASK)
    return text


def scrub_bytes(data: bytes) -> bytes:
    """Do the same for bytes, which may hold any text."""
    for form in plain_forms:
        raw = form.encode("utf-8", "replace")
        if raw in data:
            data = data.replace(raw, MASK.encode())
    return data


def scrub_value(value: Any) -> Any:
    """Return a JSON value without the secrets in its texts."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(name): scrub_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [scrub_value(item) for item in value]
    return value


def _remember(value: str) -> None:
    if value not in _known and _is_looked_for(value):
        _known[value] = tuple(dict.fromkeys(_forms(value)))
        _arrange()


def _is_looked_for(value: str) -> bool:
    """Return whether a value can be masked without changing ordinary answers.

    Short values, single words and placeholders occur in ordinary answers.
    """
    if value.lower() in _PLACEHOLDERS:
        return False
    if value.isalpha():
        # Letters in mixed case are not an ordinary word.
        is_word = _ORDINARY_WORD.fullmatch(value) is not None
        return len(value) >= (_SHORTEST_WORD if is_word else _SHORTEST)
    has_letters = any(character.isalpha() for character in value)
    has_digits = any(character.isdigit() for character in value)
    is_mixed = has_letters and has_digits
    return len(value) >= (_SHORTEST_MIXED if is_mixed else _SHORTEST)


def _arrange() -> None:
    """Sort the forms of all known secrets, longest first, and encode them for JSON."""
    forms: set[str] = set()
    for forms_of_value in _known.values():
        forms.update(forms_of_value)
    plain_forms[:] = sorted(forms, key=len, reverse=True)
    encoded_forms[:] = [_quoted(form).encode("utf-8", "replace") for form in plain_forms]


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which a server may write a value back.

    They are the value as it is, inside JSON that is itself text, in a URL, and in Base64.
    """
    data = value.encode("utf-8", "replace")
    ascii_only = _json.dumps(value)[1:-1]
    yield value
    yield ascii_only
    yield _quoted(value)
    yield ascii_only.replace("/", "\\/")
    yield quote(data)
    for escaped in (quote(data, safe=""), quote_plus(data)):
        yield escaped
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), escaped)
    yield _base64.b64encode(data).decode().rstrip("=")
    for before in range(3):
        yield from _inside_base64(data, before)


def _inside_base64(data: bytes, before: int) -> Iterator[str]:
    """How Base64 writes bytes after ``before`` others, as in ``user:password``.

    Letters that also depend on the bytes around them are left out.
    """
    encoded = _base64.b64encode(bytes(before) + data).decode().rstrip("=")
    first_letter = -(-before * 8 // 6)
    last_letter = (before + len(data)) * 8 // 6
    own_part = encoded[first_letter:last_letter]
    if len(own_part) >= _SHORTEST:
        yield own_part
        yield own_part.replace("+", "-").replace("/", "_")


def _quoted(text: str) -> str:
    """A text as JSON writes it, without the quotes."""
    return str(_json.dumps(text, ensure_ascii=False))[1:-1]
