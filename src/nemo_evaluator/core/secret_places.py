"""Which texts of a config are secrets.

Secret by default are: values of keys whose names say so, every header that is not on a short list, random text in
environments and commands, and values of environment variables in such places.

The snapshot masks them (``masked_config``); records, logs and answers are searched for them (``remember_config``).
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from nemo_evaluator.core.secret_values import (
    command_parts,
    decoded_forms,
    header_parts,
    is_flag_of_secret,
    is_reference_name,
    looks_random,
    setting_parts,
    token_parts,
    url_parts,
)
from nemo_evaluator.core.secrets import MASK, Secret, looks_secret, scrub

ConfigPath: TypeAlias = tuple[str | int, ...]

_HEADER_KEY: Final = re.compile(r"(^|_)headers?(_to_add)?$", re.IGNORECASE)
_ENVIRONMENT_KEY: Final = re.compile(
    r"(^|_)(env|envs|environ|environment|env_vars|env_map|secrets)$", re.IGNORECASE
)
_COMMAND_KEY: Final = re.compile(
    r"(^|_)(args|argv|arguments|flags|cmd|cmds|command|commands|entrypoint|script|options)$",
    re.IGNORECASE,
)
# Headers that do not identify the client.
_HARMLESS_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "anthropic-beta",
        "anthropic-version",
        "cache-control",
        "connection",
        "content-encoding",
        "content-language",
        "content-length",
        "content-type",
        "date",
        "expect",
        "host",
        "http-referer",
        "idempotency-key",
        "keep-alive",
        "openai-beta",
        "origin",
        "pragma",
        "prefer",
        "priority",
        "range",
        "referer",
        "te",
        "traceparent",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-request-id",
        "x-title",
    }
)
# Keys whose values are public: a value that occurs there is not a secret, and masking it would empty the results.
_PLAIN_KEYS: Final = frozenset(
    {"model", "name", "served_model_name", "type", "protocol", "service", "id", "image"}
)
# Keys next to a secret in a block such as `auth`: they describe the secret.
_BESIDE_SECRETS: Final = frozenset(
    {
        "type",
        "kind",
        "scheme",
        "method",
        "name",
        "user",
        "username",
        "host",
        "url",
        "header",
        "realm",
        "scope",
        "path",
    }
)
_HEADER_LINE: Final = re.compile(r"\s*([A-Za-z][\w-]*)\s*[:=]\s*(.+)")
# Prompts may show a model how a request looks.
_PROSE_KEY: Final = re.compile(
    r"prompt|template|instruction|question|description|content|message|text", re.IGNORECASE
)
# A longer number at a place for secrets is a key.
_LARGEST_PLAIN_NUMBER: Final = 99_999
_NUMBER_OR_DATE: Final = re.compile(r"v?[\d.,:+_-]{1,10}|\d{4}-\d\d-\d\d([T ][\d:.+Z-]*)?")
_HOST: Final = re.compile(r"[a-z][a-z0-9.-]*:\d{1,5}|[a-z0-9-]+(\.[a-z0-9-]+)+")
_REFERENCE: Final = re.compile(
    r"(?<!\$)\$\{(\w+)(?::-((?:[^{}]|\{[^{}]*\})*))?\}|(?<!\$)\$\{\.[^}]*\}"
)
# Text around a reference that is not a secret: `Bearer `, `session=`.
_FRAME: Final = re.compile(
    r"[\s;,]*(?:(?:Bearer|Basic|Token|ApiKey|Digest)\s*|[\w-]+[=:]\s*)?[\s;,]*", re.IGNORECASE
)


class SettingKind(Enum):
    """What kind of setting a value is."""

    HEADER = "header"
    NAMED = "named"
    ENVIRONMENT = "environment"
    COMMAND = "command"
    OTHER = "other"


# Where the value of an environment variable is a secret.
_SECRET_PLACES: Final = (SettingKind.HEADER, SettingKind.NAMED, SettingKind.ENVIRONMENT)


def place_of(path: ConfigPath) -> SettingKind:
    """Return the kind of the setting at a path; its own name takes precedence over those above it."""
    name = name_of(path)
    keys_above = [key for key in path[:-1] if isinstance(key, str)]
    if any(_HEADER_KEY.search(key) for key in keys_above):
        if name.lower() in _HARMLESS_HEADERS:
            return SettingKind.OTHER
        return SettingKind.HEADER
    if looks_secret(name):
        return SettingKind.NAMED
    if name.lower() not in _BESIDE_SECRETS and any(looks_secret(key) for key in keys_above):
        return SettingKind.NAMED
    if any(_ENVIRONMENT_KEY.search(key) for key in (*keys_above, name)):
        return SettingKind.ENVIRONMENT
    if any(_COMMAND_KEY.search(key) for key in (*keys_above, name)):
        return SettingKind.COMMAND
    return SettingKind.OTHER


def member_path(path: ConfigPath, mapping: Mapping[Any, Any], key: Any) -> ConfigPath:
    """Return the path of a member of a mapping.

    In ``{name: DB_PASSWORD, value: ...}`` the path of the value ends in ``DB_PASSWORD``.
    """
    if key == "value":
        name = mapping.get("name", mapping.get("key"))
        if isinstance(name, str):
            return (*path, name)
    return (*path, key)


def holds_secrets(path: ConfigPath) -> bool:
    """Return whether the values at and below a path may be headers or an environment."""
    return any(_HEADER_KEY.search(str(key)) or _ENVIRONMENT_KEY.search(str(key)) for key in path)


def secret_parts(text: str, path: ConfigPath, before: str = "") -> list[str]:
    """Return the parts of a value that are secret; the text itself when all of it is.

    Args:
        text: The value, environment references expanded.
        path: Where it is in the config.
        before: In a list, the text before it: `--api-key` makes a secret of what follows.
    """
    place = place_of(path)
    if place is SettingKind.NAMED or is_flag_of_secret(before):
        return [text]
    if place is SettingKind.HEADER:
        if isinstance(path[-1], str):
            return [text]
        if path[-1] == 1 and isinstance(path[-2], int):
            # `[["X-Name", "value"]]`
            if before.lower() in _HARMLESS_HEADERS:
                return []
            return [text]
        return _listed_header(text)
    name = name_of(path)
    if place is SettingKind.ENVIRONMENT and looks_random(text) and not is_reference_name(name):
        return [text]
    parts = [*token_parts(text), *url_parts(text)]
    if not _PROSE_KEY.search(name):
        parts += setting_parts(text)
    if _HEADER_KEY.search(name):
        parts += _header_lines(text)
    if place in (SettingKind.ENVIRONMENT, SettingKind.COMMAND):
        parts += command_parts(text)
    return [part for part in dict.fromkeys(parts) if part]


def remember_config(data: Any, raw: Any, environment: Mapping[str, str]) -> None:
    """Make secrets of all texts of a config that are secret because of their place.

    Args:
        data: The config, environment references expanded.
        raw: The same with its references.
        environment: The variables they were taken from.
    """
    public_values = frozenset(_plain_values(data))
    for path, text, before in _texts(data):
        for part in secret_parts(text, path, before):
            remember_part(part, public_values)
    for path, text, _ in _texts(raw):
        place = place_of(path)
        if "${" not in text or place not in _SECRET_PLACES:
            continue
        for reference in _REFERENCE.finditer(text):
            value = environment.get(reference[1] or "", "")
            is_location = place is SettingKind.ENVIRONMENT and _is_location(value)
            if value and not is_location:
                remember_part(value, public_values)


def remember_part(part: str, plain: frozenset[str] = frozenset()) -> None:
    """Make secrets of the forms of a value; not of numbers, dates and the public values in ``plain``."""
    for form in header_parts(part):
        for value in decoded_forms(form):
            if value not in plain and not _NUMBER_OR_DATE.fullmatch(value):
                Secret(value)
                _remember_lines(value)


def _remember_lines(value: str) -> None:
    """Make secrets of the lines of a private key: logs are masked line by line."""
    if "\n" not in value:
        return
    for line in value.split("\n"):
        if looks_random(line):
            Secret(line.strip())


def masked_config(
    value: Any, masked: list[ConfigPath], path: ConfigPath = (), before: str = ""
) -> Any:
    """Replace every secret in a value by ``***``; references such as ``${VARIABLE}`` stay.

    Args:
        value: A part of a config, environment references unexpanded.
        masked: Receives the paths of the masked values.
        path: Where the value is in the config.
        before: In a list, the text before it.
    """
    if isinstance(value, dict):
        members: dict[Any, Any] = {}
        for key, item in value.items():
            members[key] = masked_config(item, masked, member_path(path, value, key))
        return members
    if isinstance(value, list):
        items: list[Any] = []
        previous_text = ""
        for number, item in enumerate(value):
            items.append(masked_config(item, masked, (*path, number), before=previous_text))
            previous_text = item if isinstance(item, str) else ""
        return items
    if not isinstance(value, str):
        return _masked_number(value, masked, path)
    masked_value = masked_text(value, path, before)
    if masked_value != value:
        masked.append(path)
    return masked_value


def masked_text(text: str, path: ConfigPath, before: str = "") -> str:
    """Return one value of a config with ``***`` instead of its secrets."""
    pieces = secret_pieces(text, path, before)
    return scrub("".join(MASK if secret else piece for piece, secret in pieces))


def secret_pieces(text: str, path: ConfigPath, before: str = "") -> list[tuple[str, bool]]:
    """Split a value of a config into pieces, each with whether it is a secret.

    References such as ``${NAME}`` are not secrets; their defaults may be.
    """
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in _REFERENCE.finditer(text):
        pieces += _literal_pieces(text[end : match.start()], path, before, alone=False)
        if match[2]:
            pieces.append((f"${{{match[1]}:-", False))
            pieces += secret_pieces(match[2], path, before)
            pieces.append(("}", False))
        else:
            pieces.append((match.group(), False))
        end = match.end()
    return pieces + _literal_pieces(text[end:], path, before, alone=end == 0)


def holds_mask(data: Any) -> Iterator[ConfigPath]:
    """Yield the paths of secrets whose value is ``***``, because the config was written without them."""
    for path, text, before in _texts(data):
        is_named = place_of(path) in (SettingKind.HEADER, SettingKind.NAMED)
        if (is_named or is_flag_of_secret(before)) and MASK in text:
            yield path


def _masked_number(value: Any, masked: list[ConfigPath], path: ConfigPath) -> Any:
    """Mask a value that is not a text: YAML reads a key of digits as a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and place_of(path) is SettingKind.NAMED and abs(value) > _LARGEST_PLAIN_NUMBER:
        masked.append(path)
        return MASK
    return value


def _literal_pieces(
    text: str, path: ConfigPath, before: str, *, alone: bool
) -> list[tuple[str, bool]]:
    """Split a text without references; ``alone`` when there is no reference around it."""
    if not text:
        return []
    parts = secret_parts(text, path, before)
    if text in parts:
        is_frame = not alone and _FRAME.fullmatch(text) is not None and not looks_random(text)
        return [(text, not is_frame)]
    if not parts:
        return [(text, False)]
    longest_first = sorted(parts, key=len, reverse=True)
    pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")
    return [(piece, piece in parts) for piece in pattern.split(text) if piece]


def _texts(
    value: Any, path: ConfigPath = (), before: str = ""
) -> Iterator[tuple[ConfigPath, str, str]]:
    """Yield every text of a value: its path, the text, and in a list the text before it."""
    if isinstance(value, str):
        yield path, value, before
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, member_path(path, value, str(key)))
    elif isinstance(value, list):
        previous_text = ""
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number), previous_text)
            previous_text = item if isinstance(item, str) else ""


def _listed_header(text: str) -> list[str]:
    """The value of a header in a list, ``Name: value``, unless the header is harmless."""
    name, _, value = text.partition(":")
    if name.strip().lower() in _HARMLESS_HEADERS or not value.strip():
        return []
    return [value.strip()]


def _header_lines(text: str) -> list[str]:
    """The values of headers in one text: lines, or pairs with commas between them."""
    parts: list[str] = []
    for line in re.split(r"[\n,]", text):
        header = _HEADER_LINE.fullmatch(line)
        if header is not None and header[1].lower() not in _HARMLESS_HEADERS:
            parts.append(header[2].strip())
    return parts


def _plain_values(data: Any) -> Iterator[str]:
    """Yield the public values of a config, such as names of models."""
    for path, text, _ in _texts(data):
        if name_of(path) in _PLAIN_KEYS and place_of(path) is SettingKind.OTHER:
            yield text


def _is_location(value: str) -> bool:
    """Whether a value is a path, a URL, a host or a name on a hub: not a secret, and it occurs in ordinary text."""
    if looks_random(value):
        return False
    return value.startswith(("/", "./", "~")) or "/" in value or _HOST.fullmatch(value) is not None


def name_of(path: ConfigPath) -> str:
    """Return the last key of a path that is a name; for an item of a list, that of the list."""
    return next((key for key in reversed(path) if isinstance(key, str)), "")
