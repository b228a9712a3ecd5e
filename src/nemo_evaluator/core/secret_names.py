"""Which names say that they name a secret: ``api_key``, ``DB_PASS``, ``GITHUB_PAT``, ``X-Bearer``, ``Cookie``."""

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(^|_)(key|token|auth|pass|pat|cookies?|jwt|dsn|sig|hmac|t?otp|psw|pswd)$|_(pwd|pw)$|api_?keys?"
    r"|(access|api|auth)_?tokens?$|(account|deploy|encryption|host|license|master|service|signing|ssh|storage)key$"
    r"|secret|passw|passphrase|passcode|passkey|credential|authorization|bearer|private_?key|cookie$|signature$",
    re.IGNORECASE,
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# `api.key`, `API Key` and names with a typographic hyphen mean the same as `api_key`.
_SEPARATOR: Final = re.compile(r"[^0-9A-Za-z]+")
# They name a column, a mark in a text, or where a secret is found, and not the secret.
_HARMLESS: Final = re.compile(
    r"(^|_)(answer|cache|column|data|dict|foreign|group|id|image|index|input|join|json|label|metric|output|partition"
    r"|primary|prompt|public|question|reference|row|sort|target|text|unique)_key$"
    r"|(^|_)(bos|cls|end|eos|image|mask|pad|sep|start|stop|think|unk)_token$"
    r"|(call|function|method|model|type)_signature$"
    r"|(key|token|secret|password|credentials?)_(arn|env|file|header|name|path|type|variable)$"
    r"|^(old)?pwd$",
    re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """Return whether a variable, parameter or header of this name usually holds a secret."""
    plain_name = _SEPARATOR.sub("_", name)
    parted_name = _HUMP.sub("_", plain_name)
    if _SECRET.search(parted_name) is None and _SECRET.search(plain_name) is None:
        return False
    return _HARMLESS.search(parted_name) is None
