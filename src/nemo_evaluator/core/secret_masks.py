"""A config as it is written to files: ``***`` instead of each secret, references such as ``${NAME}`` kept."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.secret_places import (
    REFERENCE,
    ConfigPath,
    SettingKind,
    is_secret_name,
    member_path,
    names_of,
    place_of,
    secret_parts,
    texts_of,
)
from nemo_evaluator.core.secret_values import looks_random
from nemo_evaluator.core.secrets import MASK, scrub

# A longer number at a place for secrets is a key.
_LARGEST_PLAIN_NUMBER: Final = 99_999
# Text around a reference that is not a secret: `Bearer `, `session=`.
_FRAME: Final = lazy_pattern(
    r"[\s;,]*(?:(?:Bearer|Basic|Token|ApiKey|Digest)\s*|[\w-]+[=:]\s*)?[\s;,]*", re.IGNORECASE
)


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
            shown_key = _masked_name(key, path, members)
            if shown_key != key:
                masked.append((*path, shown_key))
            members[shown_key] = masked_config(item, masked, member_path(path, value, key))
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
    for match in REFERENCE.finditer(text):
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
    for path, text, before in texts_of(data):
        if MASK in text:
            # In a command `***` may also be an ornament: `echo *** done ***`.
            parts = secret_parts(text, path, before)
            if any(MASK in part for part in parts):
                yield path
    for path, name in names_of(data):
        if name.startswith(MASK):
            yield (*path, name)


def _masked_name(name: Any, path: ConfigPath, others: Mapping[Any, Any]) -> Any:
    """Return the name of a setting, or ``***`` with a number when it is a secret and another one is masked, too."""
    if not is_secret_name(name, path):
        return name
    masked_name = MASK
    number = 1
    while masked_name in others:
        number += 1
        masked_name = f"{MASK}{number}"
    return masked_name


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
