"""Secrets on a command line: every user of a machine can read the arguments of a process, but not its environment."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.secrets import MASK, Secret, remember_urls, scrub

_KEY_FLAG: Final = "--api-key"
# They take the name of a variable; what is no such name is taken for the key itself.
_NAME_FLAGS: Final = ("--api-key-env", "--judge-api-key-env")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
# `nel run` calls them -o; for other commands that is a folder, which holds no `=`.
_SETTING_FLAGS: Final = ("-O", "-o", "--override")
_TELLING: Final = re.compile(r"key|token|auth|secret|passw|credential", re.IGNORECASE)
_CARRIED: Final = "NEL_ARGUMENT_{}"
_places = Lazy("nemo_evaluator.core.secret_places")


def hide_arguments() -> None:
    """Start this command again with its secrets in the environment, if there are any among its arguments. The process
    keeps its number. The one that was started this way takes its arguments back from the environment."""
    words = sys.argv[1:]
    carried = [os.environ.pop(_CARRIED.format(number), None) for number in range(len(words))]
    masked = masked_arguments(words)
    if any(word is not None for word in carried):
        sys.argv[1:] = [
            old if new is None else new for old, new in zip(words, carried, strict=True)
        ]
        masked_arguments(sys.argv[1:])
    elif masked != words:
        before = sys.orig_argv[: len(sys.orig_argv) - len(words)]
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [*before, *masked], os.environ | carried_arguments(words))  # noqa: S606 - nel itself again


def masked_arguments(words: Sequence[str]) -> list[str]:
    """The arguments as others may read them; what is masked is a secret from now on."""
    return [_masked(word, words[number - 1] if number else "") for number, word in enumerate(words)]


def carried_arguments(words: Sequence[str]) -> dict[str, str]:
    """The variables that carry the masked arguments to a process that is started with ``masked_arguments``."""
    shown = masked_arguments(words)
    pairs = enumerate(zip(words, shown, strict=True))
    return {_CARRIED.format(number): word for number, (word, masked) in pairs if word != masked}


def _masked(word: str, before: str) -> str:
    name, mark, value = word.partition("=")
    if mark and name in (_KEY_FLAG, *_NAME_FLAGS):
        flag = f"{name}="
    else:
        flag = ""
        value = word
    given = name if flag else before
    if given == _KEY_FLAG or (
        given in _NAME_FLAGS and not (_VARIABLE.fullmatch(value) or value in os.environ)
    ):
        Secret(value)
        return flag + MASK
    flag = next(
        (form for form in ("--override=", "-O", "-o") if word.startswith(form) and word != form), ""
    )
    if flag or before in _SETTING_FLAGS:
        name, mark, value = word.removeprefix(flag).partition("=")
        if value and _is_secret_setting(name, value):
            return f"{flag}{name}{mark}{MASK}"
    remember_urls(word.partition("=")[2] if word.startswith("--") else word)
    return scrub(word)


def _is_secret_setting(name: str, value: str) -> bool:
    """Whether the value of ``-O a.b=value`` is, or may hold, a secret; if so its secrets are remembered."""
    parts = [part for part in re.split(r"[.\[\]]+", name.lstrip("+~")) if part]
    path = tuple(int(part) if part.isdecimal() else part for part in parts)
    bare = value.strip().strip("'\"")
    masked = _places.masked_text(bare, path)
    for part in _places.secret_parts(bare, path):
        if "${" not in part:
            _places.remember_part(part)
    if masked != bare:
        return True
    # Mappings are not taken apart here.
    inline = value.lstrip()[:1] in ("{", "[")
    return inline and (_TELLING.search(value) is not None or _places.holds_secrets(path))
