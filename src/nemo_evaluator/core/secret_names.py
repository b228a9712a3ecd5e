"""Which names say that they name a secret: ``api_key``, ``DB_PASS``, ``GITHUB_PAT``, ``X-Bearer``, ``Cookie``."""

import re
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern

_SECRET: Final = lazy_pattern(
    r"(^|_)(key|token|auth|pass|pat|cookies?|jwt|dsn|sig|hmac|t?otp|psw|pswd|pw)$|_pwd$|api_?keys?"
    r"|(2fa|access|auth|authorization|backup|mfa|one_?time|otp|pairing|pin|recovery|security|verification)_?codes?$"
    r"|(^|_)sess(ion)?_?ids?$|(^|_)(php|j)sess(ion)?_?id$|(^|_)sessid$|connect_sid$"
    r"|(encryption|license|licence|product|registration|serial|signing|ssh)_?keys$|mnemonic$|seed_?phrase$"
    r"|(access|api|auth)_?tokens?$|(account|deploy|encryption|host|license|master|service|signing|ssh|storage)key$"
    r"|(auth|secret|token)_?value$|auth_?(data|string)$|key_data$|basic_?auth$"
    r"|(access|auth|priv|wandb|ngc|openai|nvidia)key$|(auth|bot|hf|id|refresh|session|user)token$"
    r"|(db|root|user)pwd?$|(key|store|trust)pass$|pass_?word|pass_?phrase|p4ssw|mot_de_passe|kennwort"
    r"|secret|passw|passphrase|passcode|passkey|credential|authorization|bearer|private_?key|cookie$|signature$",
    re.IGNORECASE,
)
_HUMP: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
# `api.key`, `API Key` and names with a typographic hyphen mean the same as `api_key`.
_SEPARATOR: Final = lazy_pattern(r"[^0-9A-Za-z]+")
# They name a column, a mark in a text, or where a secret is found, and not the secret.
_HARMLESS: Final = lazy_pattern(
    r"(^|_)(answer|cache|column|data|dict|foreign|group|id|image|index|input|join|json|label|metric|output|partition"
    r"|primary|prompt|public|question|reference|row|sort|target|text|unique)_key$"
    r"|(^|_)(bos|cls|end|eos|image|mask|pad|sep|start|stop|think|unk)(_reasoning|_thinking)?_token$"
    # Of desktops and terminals.
    r"|^(xdg|term|iterm|wt|gnome)_?session_?id$"
    r"|(call|function|method|model|type)_signature$"
    r"|(key|token|secret|password|credentials?)_(arn|env|file|header|name|path|type|variable)$"
    r"|^(old)?pwd$",
    re.IGNORECASE,
)
# They name a secret or something harmless: what stands there decides.
_AMBIGUOUS: Final = lazy_pattern(
    r"(^|_)(keys|tokens|licen[cs]es?|pins?|sid|sessions?|codes|login|pwd|webhook|salt|pepper)$",
    re.IGNORECASE,
)
# The same, but so ordinary that they say nothing about what stands below them: `access`, `api`, `usertoken`, `fwkey`.
_OFTEN_HARMLESS: Final = lazy_pattern(
    r"(^|_)(access|api|ak|auth_?header|clave|contrasena|creds?|csrf|fernet|master|nvapi|o?auth_?verifier|oauth|private"
    r"|sas|senha|sk|tok|unlock(_code)?|xsrf)$|[a-z](key|token|pwd|pw)$",
    re.IGNORECASE,
)
# `HF_TOKEN2`, `openai_key_1`: one of several keys; `pass@1` is a score.
_NUMBERED: Final = lazy_pattern(
    r"(?<!pass)(?<!pass_)(?<!pat)(?<!pat_)(?<!sig)_?\d{1,2}$", re.IGNORECASE
)
# `пароль`, `密码`
_FOREIGN: Final = lazy_pattern(
    r"парол|密码|密碼|密钥|密鑰|口令|パスワード|비밀번호|contraseña|συνθηματικό|كلمة", re.IGNORECASE
)
# `JUDGE_API_KEY`, `host:HF_TOKEN`: where a value is the name of the variable that holds the secret.
_VARIABLE: Final = lazy_pattern(r"(?:host:)?([A-Z]+(?:_[A-Z0-9]{1,10})+)")
_BARE: Final = frozenset({"auth", "key", "pass", "pat", "pw", "sig", "token", "tokens", "keys"})


def looks_secret(name: str) -> bool:
    """Return whether a variable, parameter or header of this name usually holds a secret."""
    if _FOREIGN.search(name) is not None:
        return True
    plain_name = _SEPARATOR.sub("_", name)
    parted_name = _HUMP.sub("_", plain_name)
    if _SECRET.search(parted_name) is None and _SECRET.search(plain_name) is None:
        return False
    return _HARMLESS.search(parted_name) is None


def may_be_secret(name: str) -> bool:
    """Return whether a name such as ``keys``, ``tokens`` or ``LICENSE`` leaves open whether it names a secret."""
    plain_name = _SEPARATOR.sub("_", name)
    return _AMBIGUOUS.search(_HUMP.sub("_", plain_name)) is not None


def own_value_decides(name: str) -> bool:
    """Return whether a setting of this name may be a secret itself, which says nothing about settings below it.

    Examples: ``KEY1``, ``HF_TOKEN2``, ``usertoken``, ``creds``.
    """
    plain_name = _SEPARATOR.sub("_", name)
    single_name = _NUMBERED.sub("", plain_name)
    if single_name != plain_name and looks_secret(single_name):
        return True
    return _OFTEN_HARMLESS.search(_HUMP.sub("_", plain_name)) is not None


def is_bare_name(name: str) -> bool:
    """Return whether a name is an ordinary word as well, such as ``Key``, with which a sentence may begin."""
    return name.strip().lower() in _BARE


def is_variable_of_secret(text: str) -> bool:
    """Return whether a text is the name of a variable that holds a secret, such as ``JUDGE_API_KEY``."""
    match = _VARIABLE.fullmatch(text)
    return match is not None and looks_secret(match[1])
