"""Which names say that they name a secret: ``api_key``, ``DB_PASS``, ``GITHUB_PAT``, ``X-Bearer``, ``Cookie``."""

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(^|[_-])(key|token|auth|pass|pat|cookies?|jwt|dsn)$|[_-](pwd|pw)$|api_?keys?|(access|api|auth)_?tokens?$"
    r"|secret|passw|passphrase|passcode|credential|authorization|bearer|private_?key|cookie$",
    re.IGNORECASE,
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# They name a column, a mark in a text, or where a secret is found, and not the secret.
_HARMLESS: Final = re.compile(
    r"(^|_)(answer|cache|column|data|dict|foreign|group|id|image|index|input|join|json|label|metric|output|partition"
    r"|primary|prompt|public|question|reference|row|sort|target|text|unique)_key$"
    r"|(^|_)(bos|cls|end|eos|image|mask|pad|sep|start|stop|think|unk)_token$"
    r"|(key|token|secret|password|credentials?)_(arn|env|file|header|name|path|type|variable)$"
    r"|^(old)?pwd$",
    re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """True when a variable, parameter or header of this name usually holds a secret."""
    parted = _HUMP.sub("_", name)
    if _SECRET.search(parted) is None and _SECRET.search(name) is None:
        return False
    return _HARMLESS.search(parted.replace("-", "_")) is None
