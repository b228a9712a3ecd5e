"""Secrets in settings that are texts of a format of their own: JSON, YAML, INI, XML, netrc, connection strings."""

import re
from collections.abc import Iterator
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.secret_names import (
    is_bare_name,
    is_variable_of_secret,
    looks_secret,
    may_be_secret,
)
from nemo_evaluator.core.secret_values import looks_made_up

# A header in a sentence or a template; what follows may also be a reference or a placeholder.
_AUTHORIZATION: Final = lazy_pattern(
    r"authorization[\"']?\s*[:=]\s*[\"']?(?:Bearer|Basic|Token|ApiKey)\s+([A-Za-z0-9._~+/=-]{8,})",
    re.IGNORECASE,
)
_JSON_MEMBER: Final = lazy_pattern(r"\"([^\"\\]{1,60})\\{0,3}\"\s*:\s*\\{0,3}\"([^\"\\]+)")
_QUOTED_MEMBER: Final = lazy_pattern(r"'([^'\\]{1,60})'\s*:\s*'([^'\\]+)'")
# `Server=h;User Id=me;Pwd=X`.
_CONNECTION: Final = lazy_pattern(r"[\w .-]+=[^;=]*(?:;[\w .-]+=[^;]*)+;?\s*")
_CONNECTION_PART: Final = lazy_pattern(r"(?:^|;)([\w .-]+)=([^;]+)")
# A line of YAML, TOML, INI or an env file; also of a list, and in braces.
_LINE: Final = lazy_pattern(
    r"^[ \t]*(?:-[ \t]+)?(?:export[ \t]+)?[\"']?([A-Za-z][\w .-]{0,60}?)[\"']?[ \t]*[:=][ \t]*(\S.*?)[ \t]*$",
    re.MULTILINE,
)
_BRACE_MEMBER: Final = lazy_pattern(
    r"[{,]\s*[\"']?([A-Za-z][\w.-]{0,60})[\"']?\s*[:=]\s*([^,{}\[\]]+)"
)
# `host=h user=me password=X`, and `api_key=X` in a sentence.
_PAIR: Final = lazy_pattern(
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,60})[\"']?\s?[=:]\s?[\"']?([^\s;,'\"(){}\[\]<>\\]{6,})"
)
# `os.environ["HF_TOKEN"] = "X"`, also inside JSON.
_ITEM: Final = lazy_pattern(
    r"\[\\*[\"']([A-Za-z_][\w.-]{0,60})\\*[\"']\]\s*=\s*\\*[\"']([^\"'\\]+)"
)
_SAID: Final = lazy_pattern(
    r"\b(?:password|passphrase|passcode|pass(?:word)? ?phrase|api[ -]?key|access key|token|secret)"
    r"(?: is| ist| =|:)? [\"'`]?([^\s\"'`]{8,})",
    re.IGNORECASE,
)
_BLOCK_SIGN: Final = lazy_pattern(r"[|>][+-]?\d?[ \t]*(?:#.*)?")
_COMMENT: Final = lazy_pattern(r"[ \t]+#.*$")
_ANCHOR: Final = lazy_pattern(r"(?:[&!][\w!:/.,-]*[ \t]+)+")
_ELEMENT: Final = lazy_pattern(r"<([A-Za-z][\w.-]{0,60})(?:\s[^<>]{0,300})?>([^<>]+)</\1>")
_ATTRIBUTE: Final = lazy_pattern(
    r"(?<![\w-])([A-Za-z][\w.-]{0,60})\s*=\s*(?:\"([^\"]+)\"|'([^']+)')"
)
_ENTRY: Final = lazy_pattern(r"\bkey=[\"']([\w.-]{1,60})[\"']\s+value=[\"']([^\"']+)")
# `machine h login me password X`, in lines or in one.
_NETRC: Final = lazy_pattern(r"\b(?:machine\s+\S+|default)(?:\s+(?:login|account|password)\s+\S+)+")
_NETRC_PASSWORD: Final = lazy_pattern(r"\b(?:password|account)\s+(\S+)")
# `host:5432:database:user:X`.
_PGPASS: Final = lazy_pattern(
    r"^[^\s:#]+:(?:\d{1,5}|\*):[^\s:]+:[^\s:]+:(\S+)[ \t]*$", re.MULTILINE
)
_NPMRC: Final = lazy_pattern(r"^//\S+:_\w+=(\S+)$", re.MULTILINE)
_HTPASSWD: Final = lazy_pattern(r"^[\w.@-]+:(\$(?:apr1|2[aby]|5|6)\$\S+|\{SHA\}\S+)$", re.MULTILINE)
# The value of an authorization header, in a setting with another name.
_SCHEME_AND_VALUE: Final = lazy_pattern(
    r"^\s*(?:Bearer|Basic|Token|ApiKey)\s+(?=\S*\d)([A-Za-z0-9._~+/=-]{16,})\s*$", re.IGNORECASE
)
# What stands where no secret does.
_NO_SECRET: Final = frozenset(
    {"", "~", "null", "none", "true", "false", "yes", "no", "on", "off", "{}", "[]", "{", "["}
)
# A passphrase of words; more are a sentence.
_MOST_WORDS: Final = 8


def setting_parts(text: str) -> list[str]:
    """Return the secrets in settings that are one text.

    They may be objects of JSON, lines of YAML, TOML or INI, elements of XML, entries of netrc and its like,
    connection strings such as ``Server=h;Pwd=X``, or authorization headers.
    """
    members = [*_members(text)]
    if ";" in text and _CONNECTION.fullmatch(text):
        members += _CONNECTION_PART.findall(text)
    parts: list[str] = []
    for name, value in members:
        if _is_secret_member(name, value):
            parts.append(value)
    parts += _AUTHORIZATION.findall(text)
    for name, value in (*_PAIR.findall(text), *_ITEM.findall(text)):
        if looks_secret(name) and looks_made_up(value):
            parts.append(value)
    for pattern in (_PGPASS, _NPMRC, _HTPASSWD, _SCHEME_AND_VALUE):
        parts += pattern.findall(text)
    for entry in _NETRC.findall(text):
        parts += _NETRC_PASSWORD.findall(entry)
    return parts


def prose_parts(text: str) -> list[str]:
    """Return the secrets in a prompt or a template, as far as their values look made up.

    Examples: ``Use api_key=k-4711-0815-x``, ``The password is hunter-2024!``, ``X-Api-Key: k-4711-0815-x``.
    """
    parts = _AUTHORIZATION.findall(text)
    for name, value in (*_PAIR.findall(text), *_ITEM.findall(text)):
        parts.append(value if looks_secret(name) else "")
    parts += _SAID.findall(text)
    stripped_parts = [part.rstrip(".,;:!?") for part in parts]
    return [part for part in stripped_parts if looks_made_up(part)]


def _is_secret_member(name: str, value: str) -> bool:
    """Whether a member of a text is a secret; a bare name may be code (``key="b"``) or a sentence (``Key: 4``)."""
    if is_variable_of_secret(value):
        return False
    if name.strip().lower() == "pwd":
        return True
    if is_bare_name(name) or may_be_secret(name):
        return looks_made_up(value)
    return looks_secret(name)


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values in a text, as JSON, YAML, INI and XML write them."""
    if "{" in text:
        yield from _JSON_MEMBER.findall(text)
        yield from _QUOTED_MEMBER.findall(text)
        for name, value in _BRACE_MEMBER.findall(text):
            yield from _plain_member(name, value)
    if "<" in text:
        yield from _ELEMENT.findall(text)
        yield from _ENTRY.findall(text)
        for name, double_quoted, single_quoted in _ATTRIBUTE.findall(text):
            yield name, double_quoted or single_quoted
    for match in _LINE.finditer(text):
        if _BLOCK_SIGN.fullmatch(match[2]):
            for line in _block(text, match):
                yield match[1], line
        else:
            yield from _plain_member(match[1], match[2])


def _plain_member(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield a member with its value as it is meant: without quotes, anchors, comments and the comma behind it."""
    value = _ANCHOR.sub("", value.strip(), count=1)
    if value[:1] in ("'", '"'):
        value = value[1:].partition(value[0])[0]
    elif value[:1] in ("{", "["):
        return
    else:
        value = _COMMENT.sub("", value).rstrip(",; \t")
    if value.lower() in _NO_SECRET or value.startswith(("$", "<", "{{")):
        return
    # `Key: the answer is 4` is a sentence.
    is_sentence = len(value.split()) > _MOST_WORDS or (" " in value and is_bare_name(name))
    if not is_sentence:
        yield name, value


def _block(text: str, head: re.Match[str]) -> Iterator[str]:
    """Yield the lines of a block of YAML (``key: |``), which are indented deeper than its head."""
    own_indent = _indent(head.group())
    for line in text[head.end() :].split("\n")[1:]:
        if line.strip() and _indent(line) <= own_indent:
            return
        if line.strip():
            yield line.strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
