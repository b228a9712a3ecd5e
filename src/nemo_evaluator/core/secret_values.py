"""What a secret looks like: shapes of well-known tokens, passwords inside URLs and commands, and random text.

Names are judged in ``core.secret_names``, the places of a config in ``core.secret_places``.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from nemo_evaluator.core.secret_names import looks_secret

# Shapes of tokens that mean something wherever they stand. Each needs enough random text behind its prefix.
_TOKENS: Final = re.compile(
    r"""(?<![A-Za-z0-9_-])(?:
        (?:sk|pk|rk)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}
      | (?:nvapi|glpat|xox[abeoprs]|pypi|npm|gsk|tvly|dckr_pat)[-_][A-Za-z0-9_-]{16,}
      | (?:hf|gh[opsur]|r8)_[A-Za-z0-9]{16,}
      | github_pat_[A-Za-z0-9_]{16,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}
      | AIza[A-Za-z0-9_-]{30,}
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?
      | (?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{16,}
      | (?<=/api/webhooks/)\d{8,}/[A-Za-z0-9_-]{16,}
    )""",
    re.VERBOSE,
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
# A header in a sentence or a template; what follows may also be a reference or a placeholder.
_AUTHORIZATION: Final = re.compile(
    r"authorization[\"']?\s*[:=]\s*[\"']?(?:Bearer|Basic|Token|ApiKey)\s+([A-Za-z0-9._~+/=-]{8,})",
    re.IGNORECASE,
)

# The longest scheme is bounded: without that, a word of megabytes takes time with its square.
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://([^\s'\"<>`]+)")
# A proxy without its scheme: `user:password@host:3128`. An image, `name:tag@sha256:...`, has no port there.
_USER_AND_HOST: Final = re.compile(r"[^\s:/@]+:([^\s/@]+)@[A-Za-z0-9.-]+(?::\d{1,5})?/?")
_PARAMETER: Final = re.compile(r"[?&#;]([^=&#;?]+)=([^&#;]+)")
_SECRET_PARAMETERS: Final = frozenset({"code", "pwd"})
# Schemes of benchmarks in which an @ comes before a version, a task or a digest.
_VERSIONED: Final = frozenset({"harbor", "inspect", "container"})

_SHORTEST_USER: Final = 8
_USUAL_USERS: Final = frozenset(
    {"", "anonymous", "postgres", "username", "oauth2", "x-access-token", "x-oauth-basic"}
)

# `--api-key X`, `--api-key=X`, `-H "X-Api-Key: X"`, `NAME=X`, `user:password` behind -u.
_FLAG: Final = re.compile(r"(?<![\w-])--?([A-Za-z][\w.-]*)(?:=|\s+)(\"[^\"]+\"|'[^']+'|[^\s'\"]+)")
_ASSIGNMENT: Final = re.compile(r"(?<![\w-])([A-Za-z_]\w*)[\"']?=(\"[^\"]+\"|'[^']+'|[^\s;'\"]+)")
# csh, and the command prompt of Windows.
_SET: Final = re.compile(
    r"(?<![\w-])(?:set|setenv|setx)\s+([A-Za-z_]\w*)\s+(\"[^\"]+\"|'[^']+'|[^\s;'\"]+)"
)
_HEADER: Final = re.compile(r"(?<![\w-])([A-Za-z][\w-]*):\s*([^'\"\n]+)")
_JSON_MEMBER: Final = re.compile(r"\"([^\"\\]{1,60})\\{0,3}\"\s*:\s*\\{0,3}\"([^\"\\]+)")
_USER_FLAGS: Final = frozenset({"u", "user", "proxy-user"})
_JOINED_USER: Final = re.compile(r"(?<![\w-])-u([^\s:'\"/]+):([^\s'\"]+)")
_IDS: Final = re.compile(r"\d+:\d+")
# Passwords that programs take in ways of their own: `sshpass -p X`, `curl -b session=X`, `echo X | docker login`.
_SSHPASS: Final = re.compile(r"\bsshpass\s+-p\s*(\"[^\"]+\"|'[^']+'|\S+)")
_CURL_COOKIE: Final = re.compile(
    r"\bcurl\b[^|;&\n]{0,500}?\s(?:-b|--cookie)[\s=]*[\"']?([^\s'\"]+=[^'\"\n]+)"
)
_PIPED: Final = re.compile(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)*(\"[^\"]+\"|'[^']+'|[^\s|'\"]+)\s*\|[^\n]{0,200}?(?:stdin|login|passwd|token)"
)
# `Server=h;User Id=me;Pwd=X`.
_CONNECTION: Final = re.compile(r"[\w .-]+=[^;=]*(?:;[\w .-]+=[^;]*)+;?\s*")
_CONNECTION_PART: Final = re.compile(r"(?:^|;)([\w .-]+)=([^;]+)")
_SECRET_FLAG: Final = re.compile(r"-[^\s=]+")
_SCHEME_WORD: Final = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Digest)\s+", re.IGNORECASE)

_SHORTEST_RANDOM: Final = 12
_SHORTEST_ODD: Final = 9
_HEX: Final = re.compile(r"[0-9a-fA-F]{16,}")
_COMMIT_OR_DIGEST: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/(?:[a-z][a-z_.-]+\d{0,3}|[A-Z][a-z]{2,})(?:/|$)")
_DIGEST_PREFIX: Final = re.compile(r"(?:sha256|sha512|md5):[0-9a-f]+")
_PIECES: Final = re.compile(r"[A-Za-z0-9]+")
_WORD_LIKE: Final = re.compile(
    r"[a-z]{1,24}|[A-Z]{1,24}|\d{1,8}|v?\d+[a-z]{0,2}|\d{1,4}(?:[A-Z]{1,2}|[a-z]{1,3})|(?:[A-Z]?[a-z]+|[A-Z]{2,5})\d{1,4}[a-z]?"
)
_CAMEL_CASE: Final = re.compile(r"[A-Z]?[a-z]{2,}(?:[A-Z][a-z]{2,})*|[A-Z]{1,3}(?:[A-Z][a-z]{2,})+")
_CONSONANTS: Final = re.compile(r"[bcdfghjklmnpqrstvwxz]{6}", re.IGNORECASE)


def looks_random(text: str) -> bool:
    """Return whether nobody would write a text by hand: 16 hex digits, base64, letters mixed with digits.

    Examples: ``9f86d081884c7d65`` and ``Zx81kQwe77Lp`` are random; ``Qwen2.5-72B-Instruct``, ``/models/llama``,
    ``2024-01-31T12:00`` and ``sha256:9f86d0...`` are not.
    """
    text = text.strip()
    if len(text) < _SHORTEST_RANDOM or " " in text:
        return False
    if _PATH.match(text) or "://" in text or _DIGEST_PREFIX.search(text):
        return False
    if _HEX.search(text):
        return True
    # One odd piece is a version or a size: `A22B`, `8x7B`, `01T12`.
    odd_pieces = [piece for piece in _PIECES.findall(text) if not _word_like(piece)]
    return sum(len(piece) for piece in odd_pieces) >= _SHORTEST_ODD


def _word_like(piece: str) -> bool:
    if _CONSONANTS.search(piece):
        return False
    return _WORD_LIKE.fullmatch(piece) is not None or _CAMEL_CASE.fullmatch(piece) is not None


def token_parts(text: str) -> list[str]:
    """Return the tokens of well-known shapes and the private keys in a text."""
    tokens: list[str] = []
    for pattern in (_TOKENS, _PRIVATE_KEY):
        for match in pattern.finditer(text):
            tokens.append(match.group())
    return tokens


def url_parts(text: str) -> list[str]:
    """Return the passwords and the secret parameters of the URLs in a text, as they are written there."""
    parts: list[str] = []
    user_and_host = _USER_AND_HOST.fullmatch(text)
    if user_and_host is not None and user_and_host[1] not in _USUAL_USERS:
        parts.append(user_and_host[1])
    for match in _URL.finditer(text):
        scheme = match[1].lower()
        after_scheme = match[2]
        parts.extend(_user_parts(scheme, after_scheme))
        for name, value in _PARAMETER.findall(after_scheme):
            if looks_secret(name) or name.lower() in _SECRET_PARAMETERS:
                parts.append(value)
    return parts


def public_url(url: str) -> str:
    """Return a URL with ``***`` instead of its secrets, as it is written to files."""
    for part in url_parts(url):
        url = url.replace(part, "***")
    return url


def _user_parts(scheme: str, rest: str) -> list[str]:
    """Return the user and password of a URL as far as they are secret; ``rest`` is the URL without its scheme."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    is_cut = "@" not in authority and "@" in rest
    if is_cut and re.match(r"[^/@\s]+:[^@\s]+@", rest):
        # The password holds a slash that should have been escaped.
        authority = rest.rpartition("@")[0] + "@"
    user_info, at_sign, _ = authority.rpartition("@")
    if not at_sign or scheme in _VERSIONED:
        return []
    user, colon, password = user_info.partition(":")
    if not colon:
        if len(user) >= _SHORTEST_USER and user not in _USUAL_USERS:
            return [user]
        return []
    # `https://TOKEN:x-oauth-basic@host`: the token may stand first.
    parts: list[str] = []
    if looks_random(user) or token_parts(user):
        parts.append(user)
    if password not in _USUAL_USERS:
        parts.append(password)
    return parts


def command_parts(text: str) -> list[str]:
    """Return the secrets in a command.

    They are the values of flags, variables and headers whose names say so, passwords, and random words.
    """
    parts = [*_flag_values(text), *_variable_values(text)]
    for name, value in _HEADER.findall(text):
        if looks_secret(name):
            parts.append(without_scheme(value))
    for pattern in (_SSHPASS, _PIPED):
        for value in pattern.findall(text):
            parts.append(value.strip("'\""))
    for user, password in _JOINED_USER.findall(text):
        if not _IDS.fullmatch(f"{user}:{password}"):
            parts.append(password)
    for cookies in _CURL_COOKIE.findall(text):
        parts += cookie_values(cookies)
    for argument in re.split(r"[\s'\"=]+", text):
        if looks_random(argument) and not _COMMIT_OR_DIGEST.search(argument):
            parts.append(argument)
    return [part for part in parts if part and not part.startswith("$")]


def _flag_values(text: str) -> Iterator[str]:
    """The secret values of flags: ``--api-key X``, and the password in ``-u user:password``."""
    for name, quoted_value in _FLAG.findall(text):
        value = quoted_value.strip("'\"")
        if looks_secret(name):
            yield value
        elif name in _USER_FLAGS and ":" in value and not _IDS.fullmatch(value):
            yield value.partition(":")[2]


def _variable_values(text: str) -> Iterator[str]:
    """The secret values of variables: ``NAME=X``, ``set NAME X``."""
    for name, quoted_value in (*_ASSIGNMENT.findall(text), *_SET.findall(text)):
        value = quoted_value.strip("'\"")
        if looks_secret(name) or (looks_random(value) and not is_reference_name(name)):
            yield value


def setting_parts(text: str) -> list[str]:
    """Return the secrets in settings that are one text.

    They may be JSON objects, connection strings such as ``Server=h;Pwd=X``, or authorization headers.
    """
    members: list[tuple[str, str]] = []
    if "{" in text:
        members += _JSON_MEMBER.findall(text)
    if ";" in text and _CONNECTION.fullmatch(text):
        members += _CONNECTION_PART.findall(text)
    parts: list[str] = []
    for name, value in members:
        if looks_secret(name) or name.strip().lower() == "pwd":
            parts.append(value)
    return parts + _AUTHORIZATION.findall(text)


def is_flag_of_secret(word: str) -> bool:
    """Return whether a secret follows an argument, such as ``--api-key``, as an argument of its own."""
    return _SECRET_FLAG.fullmatch(word) is not None and looks_secret(word.lstrip("-"))


def without_scheme(value: str) -> str:
    """Return the value of a header without its scheme, such as ``Bearer``."""
    return _SCHEME_WORD.sub("", value, count=1).strip()


_REFERENCE_NAME: Final = re.compile(
    r"revision|commit|sha\d*$|digest|checksum|hash|(^|[_-])(ref|rev|uuid|run_?id)$", re.IGNORECASE
)


def is_reference_name(name: str) -> bool:
    """Return whether values of this name are random and public: commits, digests, checksums."""
    return _REFERENCE_NAME.search(name) is not None


def header_parts(value: str) -> Iterator[str]:
    """Yield the forms of a header's value that a server may repeat: whole, without its scheme, and in parts."""
    yield value
    credentials = without_scheme(value)
    yield credentials
    if ";" in credentials or "=" in credentials:
        # A cookie: each value by itself.
        yield from cookie_values(credentials)
    if value[:6].lower() == "basic ":
        yield from _basic_parts(credentials)


def cookie_values(text: str) -> list[str]:
    """Return the values of ``name=value; name=value``."""
    pairs = [pair.strip().partition("=") for pair in text.split(";")]
    return [value for _, equals, value in pairs if equals]


def _basic_parts(encoded: str) -> Iterator[str]:
    """Yield the decoded ``user:password`` of a Basic authorization, and the password."""
    import base64  # noqa: PLC0415 - `nel --help` has no secrets
    import binascii  # noqa: PLC0415

    try:
        decoded = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return
    yield decoded
    yield decoded.partition(":")[2]


def decoded_forms(part: str) -> Iterator[str]:
    """Yield a secret of a URL as it is written, and without its escapes."""
    yield part
    yield unquote(part)
