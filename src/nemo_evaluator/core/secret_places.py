"""Which texts of a config are secrets.

Secret by default are: values of keys whose names say so, every header that is not on a short list, random text in
environments and commands, and values of environment variables in such places.

The snapshot masks them (``core.secret_masks``); records, logs and answers are searched for them (``remember_config``).
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.secret_commands import (
    command_parts,
    is_flag_of_secret,
    listed_password,
)
from nemo_evaluator.core.secret_documents import prose_parts, setting_parts
from nemo_evaluator.core.secret_names import (
    is_variable_of_secret,
    may_be_secret,
    own_value_decides,
)
from nemo_evaluator.core.secret_values import (
    decoded_forms,
    header_parts,
    hook_parts,
    is_reference_name,
    looks_made_up,
    looks_random,
    token_parts,
    url_parts,
)
from nemo_evaluator.core.secrets import Secret, looks_secret

ConfigPath: TypeAlias = tuple[str | int, ...]

_HEADER_KEY: Final = lazy_pattern(r"(^|_)headers?(_to_add)?$", re.IGNORECASE)
_ENVIRONMENT_KEY: Final = lazy_pattern(
    r"(^|_)(env|envs|environ|environment|env_vars|env_map|secrets)$", re.IGNORECASE
)
_COMMAND_KEY: Final = lazy_pattern(
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
_HEADER_LINE: Final = lazy_pattern(r"\s*([A-Za-z][\w-]*)\s*[:=]\s*(.+)")
# Prompts may show a model how a request looks.
_PROSE_KEY: Final = lazy_pattern(
    r"prompt|template|instruction|question|description|content|message|text", re.IGNORECASE
)
# Whoever knows the URL of a webhook can write there.
_HOOK_KEY: Final = lazy_pattern(r"hooks?($|_|-|url)", re.IGNORECASE)
_FEWEST_DIGITS_IN_NAME: Final = 2
_ENVIRONMENT_NAME: Final = lazy_pattern(r"[A-Z][A-Z0-9_]*")
_COMMIT_OR_DIGEST: Final = lazy_pattern(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")
# A key whatever its name: the other half of `AKIA...`, a token in letters of both cases.
_LONG_KEY: Final = lazy_pattern(
    r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=(?:\D*\d){3})[A-Za-z0-9/+_-]{32,200}={0,2}"
)
_NUMBER_OR_DATE: Final = lazy_pattern(r"v?[\d.,:+_-]{1,10}|\d{4}-\d\d-\d\d([T ][\d:.+Z-]*)?")
_HOST: Final = lazy_pattern(r"[a-z][a-z0-9.-]*:\d{1,5}|[a-z0-9-]+(\.[a-z0-9-]+)+")
REFERENCE: Final = lazy_pattern(
    r"(?<!\$)\$\{(\w+)(?::-((?:[^{}]|\{[^{}]*\})*))?\}|(?<!\$)\$\{\.[^}]*\}"
)


# Settings that name an environment variable.
_VARIABLE_KEY: Final = lazy_pattern(
    r"(^|_)(env|env_?var|env_?name|envs|env_?vars|environment_variables?|variables?|vars?)$",
    re.IGNORECASE,
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
        return [] if is_variable_of_secret(text) else [text]
    if place is SettingKind.HEADER:
        return _secret_header_parts(text, path, before)
    if _is_secret_by_its_look(text, path, place):
        return [text]
    name = name_of(path)
    parts = [*token_parts(text), *url_parts(text)]
    if "://" in text and any(_HOOK_KEY.search(str(key)) for key in path):
        parts += hook_parts(text)
    if _PROSE_KEY.search(name):
        parts += prose_parts(text)
    else:
        parts += setting_parts(text)
    if _HEADER_KEY.search(name):
        parts += _header_lines(text)
    if place in (SettingKind.ENVIRONMENT, SettingKind.COMMAND):
        parts += command_parts(text)
    password = listed_password(text, before) if place is SettingKind.COMMAND else None
    if password is not None:
        parts.append(password)
    return [part for part in dict.fromkeys(parts) if part]


def _secret_header_parts(text: str, path: ConfigPath, before: str) -> list[str]:
    """Return the secret parts of a text in the place of headers: all but harmless ones are secret."""
    if isinstance(path[-1], str):
        return [text]
    if path[-1] == 1 and isinstance(path[-2], int):
        # `[["X-Name", "value"]]`
        return [] if before.lower() in _HARMLESS_HEADERS else [text]
    return _listed_header(text)


def _is_secret_by_its_look(text: str, path: ConfigPath, place: SettingKind) -> bool:
    """Whether a whole text is a secret because it looks random, in a place where that is unusual."""
    if _is_ambiguous(path) and looks_made_up(text):
        return True
    if is_reference_name(name_of(path)) or not looks_random(text):
        return False
    return place is SettingKind.ENVIRONMENT or _LONG_KEY.fullmatch(text) is not None


def remember_config(data: Any, raw: Any, environment: Mapping[str, str]) -> None:
    """Make secrets of all texts of a config that are secret because of their place.

    Args:
        data: The config, environment references expanded.
        raw: The same with its references.
        environment: The variables they were taken from.
    """
    public_values = frozenset(_plain_values(data))
    for path, text, before in texts_of(data):
        for part in secret_parts(text, path, before):
            remember_part(part, public_values)
    for name in _secret_names(data):
        remember_part(name, public_values)
    for path, text, _ in texts_of(raw):
        for value in _values_of_variables(path, text, environment):
            remember_part(value, public_values)


def _values_of_variables(
    path: ConfigPath, text: str, environment: Mapping[str, str]
) -> Iterator[str]:
    """Yield the secret values of the variables that a setting refers to, or names: ``api_key_env: MY_VARIABLE``."""
    place = place_of(path)
    for reference in REFERENCE.finditer(text):
        value = environment.get(reference[1] or "", "")
        is_location = place is SettingKind.ENVIRONMENT and _is_location(value)
        is_ambiguous = _is_ambiguous(path) and looks_made_up(value)
        if value and not is_location and (place in _SECRET_PLACES or is_ambiguous):
            yield value
    value = environment.get(text, "")
    if value and _names_variable(path) and not _is_location(value):
        setting = _VARIABLE_KEY.sub("", name_of(path))
        if looks_secret(setting) or looks_secret(text) or looks_made_up(value):
            yield value


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


def _is_ambiguous(path: ConfigPath) -> bool:
    """Whether a name in a path, such as ``keys``, leaves open whether the value is a secret."""
    if own_value_decides(name_of(path)):
        return True
    return any(isinstance(key, str) and may_be_secret(key) for key in path)


def _names_variable(path: ConfigPath) -> bool:
    return _VARIABLE_KEY.search(name_of(path)) is not None


def is_secret_name(name: Any, path: ConfigPath) -> bool:
    """Whether the name of a setting is itself a secret: ``api_keys: {sk-...: alice}``."""
    if not isinstance(name, str):
        return False
    if token_parts(name):
        return True
    keys_above = [key for key in path if isinstance(key, str)]
    is_below_secret = any(looks_secret(key) or may_be_secret(key) for key in keys_above)
    if is_below_secret and looks_made_up(name):
        return not _ENVIRONMENT_NAME.fullmatch(name)
    # `useHookAtTopLevel` has no digit.
    has_digits = sum(character.isdigit() for character in name) >= _FEWEST_DIGITS_IN_NAME
    return has_digits and looks_random(name) and not _COMMIT_OR_DIGEST.fullmatch(name)


def names_of(value: Any, path: ConfigPath = ()) -> Iterator[tuple[ConfigPath, str]]:
    """Yield every name of a setting with the path of its mapping."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield path, key
            yield from names_of(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from names_of(item, (*path, number))


def _secret_names(data: Any) -> Iterator[str]:
    """Yield the names of settings that are secrets."""
    for path, name in names_of(data):
        if is_secret_name(name, path):
            yield name


def texts_of(
    value: Any, path: ConfigPath = (), before: str = ""
) -> Iterator[tuple[ConfigPath, str, str]]:
    """Yield every text of a value: its path, the text, and in a list the text before it."""
    if isinstance(value, str):
        yield path, value, before
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_of(item, member_path(path, value, str(key)))
    elif isinstance(value, list):
        previous_text = ""
        for number, item in enumerate(value):
            yield from texts_of(item, (*path, number), previous_text)
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
    for path, text, _ in texts_of(data):
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
