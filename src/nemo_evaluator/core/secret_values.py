"""What a secret looks like: shapes of well-known tokens, passwords inside URLs, and random text.

Names are judged in ``core.secret_names``, commands in ``core.secret_commands``, texts of other formats in
``core.secret_documents``, and the places of a config in ``core.secret_places``.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.secret_names import looks_secret

# Shapes of tokens that mean something wherever they stand. Each needs enough random text behind its prefix.
_TOKENS: Final = lazy_pattern(
    r"""(?<![A-Za-z0-9_-])(?:
        (?:sk|pk|rk)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}
      | (?:nvapi|glpat|xox[abeoprs]|pypi|npm|gsk|tvly|dckr_pat)[-_][A-Za-z0-9_-]{16,}
      | (?:hf|gh[opsur]|r8)_[A-Za-z0-9]{16,}
      | github_pat_[A-Za-z0-9_]{16,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}
      | AIza[A-Za-z0-9_-]{30,}
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?
      | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]{8,}){3}
      | v[1-4]\.(?:local|public)\.[A-Za-z0-9_-]{32,}
      | (?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{16,}
      | (?<=/api/webhooks/)\d{8,}/[A-Za-z0-9_-]{16,}
      # Mail services, clouds, registries, trackers and providers of models.
      | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
      | (?:ya29|hv[bs])\.[A-Za-z0-9_-]{20,}
      | (?:GOCSPX|xapp|sq0[a-z]{3}|pat-[a-z]{2,3}\d|pul|tskey|NRAK|CFPAT|key)-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}
      | (?:pplx|xai|csk|cpk)-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}
      | (?:d[oa][opr]_v1|tgp_v1|wandb_v1|fw|lin_api|ntn|rpa|gls[ap]|figd|jina|e2b|whsec|zpka|sntry[su]|ph[cx]|sbp)
        _(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}
      | shp(?:at|ca|pa|ss)_[0-9a-f]{32}
      | (?:dapi|SK)[0-9a-f]{32}
      | ops_eyJ[A-Za-z0-9_-]{20,}
      | ATATT3[A-Za-z0-9_=-]{24,}
      | ABSK[A-Za-z0-9+/=]{40,}
      | AGE-SECRET-KEY-1[0-9A-Za-z]{40,}
      | (?:bot)?\d{8,10}:AA[A-Za-z0-9_-]{30,}
      # A private key in Base64: `-----BEGIN ` and no certificate or public key.
      | LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM)[A-Za-z0-9+/=]{40,}
    )""",
    re.VERBOSE,
)
# `AKIA...:secret`: the second half of a pair has no shape of its own.
_PAIR_OF_KEYS: Final = lazy_pattern(
    r"(?:AKIA|ASIA)[A-Z0-9]{12,16}[\"']?[\s:;,|/]{1,3}[\"']?([A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])"
)
_PRIVATE_KEY: Final = lazy_pattern(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|PuTTY-User-Key-File-\d.*",
    re.DOTALL,
)
# The longest scheme is bounded: without that, a word of megabytes takes time with its square.
_URL: Final = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://([^\s'\"<>`]+)")
# A proxy without its scheme: `user:password@host:3128`. An image, `name:tag@sha256:...`, has no port there.
_USER_AND_HOST: Final = lazy_pattern(r"[^\s:/@]+:([^\s/@]+)@[A-Za-z0-9.-]+(?::\d{1,5})?/?")
_PARAMETER: Final = lazy_pattern(r"[?&#;]([^=&#;?]+)=([^&#;]+)")
# `//user:password@share/folder`, which has no scheme, and `jdbc:oracle:thin:user/password@host`.
_SHARE: Final = lazy_pattern(r"(?<![:\w/])//[^\s/:@]{1,64}:([^\s/@]{1,200})@[A-Za-z0-9]")
_ORACLE: Final = lazy_pattern(r"\bjdbc:oracle:\w{1,20}:[^\s/:@]{1,64}/([^\s/:@]{1,128})@")
_COMMIT_OR_DIGEST: Final = lazy_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_UUID: Final = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SECRET_PARAMETERS: Final = frozenset({"code", "pwd"})
# Schemes of benchmarks in which an @ comes before a version, a task or a digest.
_VERSIONED: Final = frozenset({"harbor", "inspect", "container"})

_SHORTEST_USER: Final = 8
_USUAL_USERS: Final = frozenset(
    {"", "anonymous", "postgres", "username", "oauth2", "x-access-token", "x-oauth-basic"}
)

_SCHEME_WORD: Final = lazy_pattern(r"(?:Bearer|Basic|Token|ApiKey|Digest)\s+", re.IGNORECASE)

_SHORTEST_RANDOM: Final = 12
_SHORTEST_ODD: Final = 9
_HEX: Final = lazy_pattern(r"[0-9a-fA-F]{16,}")
_PATH: Final = lazy_pattern(r"(?:~|\.{1,2})?/(?:[a-z][a-z_.-]+\d{0,3}|[A-Z][a-z]{2,})(?:/|$)")
_DIGEST_PREFIX: Final = lazy_pattern(r"(?:sha256|sha512|md5):[0-9a-f]+")
_PIECES: Final = lazy_pattern(r"[A-Za-z0-9]+")
_WORD_LIKE: Final = lazy_pattern(
    r"[a-z]{1,24}|[A-Z]{1,24}|\d{1,8}|v?\d+[a-z]{0,2}|\d{1,4}(?:[A-Z]{1,2}|[a-z]{1,3})|(?:[A-Z]?[a-z]+|[A-Z]{2,5})\d{1,4}[a-z]?"
    # `10choices`
    r"|\d{1,2}[a-z]{4,12}"
)
_CAMEL_CASE: Final = lazy_pattern(
    r"[A-Z]?[a-z]{2,}(?:[A-Z][a-z]{2,})*|[A-Z]{1,3}(?:[A-Z][a-z]{2,})+"
)
_CONSONANTS: Final = lazy_pattern(r"[bcdfghjklmnpqrstvwxz]{6}", re.IGNORECASE)
# `s3cr3t!pw`: signs that people put into passwords and into little else.
_SIGN: Final = lazy_pattern(r"[!@#$%^&*+]")
# `20241022` and `2024-10`, but not inside a longer number.
_DATE: Final = lazy_pattern(r"(?<!\d)20\d\d-?(?:0[1-9]|1[0-2])(?:-?[0-3]\d)?(?!\d)")
_LETTER: Final = lazy_pattern(r"[A-Za-z]")
_SHORTEST_MADE_UP: Final = 10
_SHORTEST_WITH_SIGN: Final = 8
_FEWEST_DIGITS: Final = 4


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


def looks_made_up(text: str) -> bool:
    """Return whether a text may be a key or a password, where its name leaves open whether it is one.

    Examples: ``key-20871-value``, ``ABCD-1234-EFGH-5678`` and ``s3cr3t!pw`` may be; ``choice_10``, ``apache-2.0``,
    ``Qwen2.5-72B-Instruct``, ``/models/llama``, ``8000:8000`` and ``claude-3-5-sonnet-20241022`` are not.
    """
    text = text.strip()
    if looks_random(text) or token_parts(text):
        return True
    digits = sum(character.isdigit() for character in text)
    if not digits or not _LETTER.search(text) or re.search(r"\s", text):
        return False
    if "/" in text or _DATE.search(text) or _DIGEST_PREFIX.search(text):
        return False
    if _SIGN.search(text) and len(text) >= _SHORTEST_WITH_SIGN:
        return True
    return len(text) >= _SHORTEST_MADE_UP and digits >= _FEWEST_DIGITS


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
    tokens += _PAIR_OF_KEYS.findall(text)
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
            if _is_secret_parameter(unquote(name), value):
                parts.append(value)
    for password in (*_SHARE.findall(text), *_ORACLE.findall(text)):
        parts.append(password)
    return parts


def _is_secret_parameter(name: str, value: str) -> bool:
    """Whether a parameter of a URL is secret, for its name or because its value is random."""
    if looks_secret(name) or name.lower() in _SECRET_PARAMETERS:
        return True
    is_digest = _COMMIT_OR_DIGEST.fullmatch(value) is not None or _UUID.fullmatch(value) is not None
    return looks_random(unquote(value)) and not is_digest and not is_reference_name(name)


def hook_parts(text: str) -> list[str]:
    """Return what nobody can guess in the URL of a webhook: parts of its path, and parameters."""
    parts: list[str] = []
    for match in _URL.finditer(text):
        path = re.split(r"[?#]", match[2], maxsplit=1)[0].partition("/")[2]
        parts += [part for part in path.split("/") if looks_made_up(part)]
        parts += [value for _, value in _PARAMETER.findall(match[2]) if looks_made_up(value)]
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


def without_scheme(value: str) -> str:
    """Return the value of a header without its scheme, such as ``Bearer``."""
    return _SCHEME_WORD.sub("", value, count=1).strip()


_REFERENCE_NAME: Final = lazy_pattern(
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
