"""Secrets on a command line: every user of a machine can read the arguments of a process, but not its environment."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

from nemo_evaluator.core.lazy import Lazy
from nemo_evaluator.core.secrets import MASK, Secret, remember_urls, scrub

_KEY_FLAG: Final = "--api-key"
# Options whose value is the name of a variable; a value that cannot be a name is taken for the key itself.
_NAME_FLAGS: Final = ("--api-key-env", "--judge-api-key-env")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
# `nel run` calls them -o; for other commands that is a folder, which holds no `=`.
_SETTING_FLAGS: Final = ("-O", "-o", "--override")
# The same options joined with their value: `--override=a=b`, `-Oa=b`.
_JOINED_FLAGS: Final = ("--override=", "-O", "-o")
_TELLING: Final = re.compile(r"key|token|auth|secret|passw|credential", re.IGNORECASE)
_CARRIED: Final = "NEL_ARGUMENT_{}"
_places = Lazy("nemo_evaluator.core.secret_places")
_masks = Lazy("nemo_evaluator.core.secret_masks")


def hide_arguments() -> None:
    """Restart this command with the secrets among its arguments in its environment.

    The process keeps its number. The restarted command takes its arguments from the environment. A command without
    secrets is not restarted.
    """
    arguments = sys.argv[1:]
    carried: dict[int, str] = {}
    for number in range(len(arguments)):
        value = os.environ.pop(_CARRIED.format(number), None)
        if value is not None:
            carried[number] = value
    masked_words = masked_arguments(arguments)
    if carried:
        sys.argv[1:] = [carried.get(number, argument) for number, argument in enumerate(arguments)]
        # Only to remember the secrets.
        masked_arguments(sys.argv[1:])
    elif masked_words != arguments:
        interpreter = sys.orig_argv[: len(sys.orig_argv) - len(arguments)]
        environment = os.environ | carried_arguments(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [*interpreter, *masked_words], environment)  # noqa: S606 - nel itself again


def masked_arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments with ``***`` instead of their secrets, which nel remembers from now on."""
    masked_words: list[str] = []
    previous_argument = ""
    for argument in words:
        masked_words.append(_masked(argument, previous_argument))
        previous_argument = argument
    return masked_words


def carried_arguments(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that carry secret arguments to a process started with ``masked_arguments``."""
    variables: dict[str, str] = {}
    for number, (argument, masked_argument) in enumerate(
        zip(words, masked_arguments(words), strict=True)
    ):
        if argument != masked_argument:
            variables[_CARRIED.format(number)] = argument
    return variables


def _masked(word: str, before: str) -> str:
    """One argument without its secrets; ``before`` is the argument before it."""
    return _masked_key(word, before) or _masked_setting(word, before) or _masked_url(word)


def _masked_key(word: str, before: str) -> str | None:
    """The value of an option for a key; None for other arguments, and for the name of a variable."""
    name, equals, value = word.partition("=")
    if equals and name in (_KEY_FLAG, *_NAME_FLAGS):
        option = name
        prefix = f"{name}="
    else:
        option = before
        prefix = ""
        value = word
    if option in _NAME_FLAGS:
        is_key = _VARIABLE.fullmatch(value) is None and value not in os.environ
    else:
        is_key = option == _KEY_FLAG
    if not is_key:
        return None
    Secret(value)
    return prefix + MASK


def _masked_setting(word: str, before: str) -> str | None:
    """The secret value of a setting, such as ``-O a.b=value``; None for other arguments."""
    prefix = ""
    for joined in _JOINED_FLAGS:
        if word.startswith(joined) and word != joined:
            prefix = joined
            break
    if not prefix and before not in _SETTING_FLAGS:
        return None
    name, equals, value = word.removeprefix(prefix).partition("=")
    if value and _is_secret_setting(name, value):
        return f"{prefix}{name}{equals}{MASK}"
    return None


def _masked_url(word: str) -> str:
    """Any other argument: without the secrets of URLs, and without those that are known."""
    value = word.partition("=")[2] if word.startswith("--") else word
    remember_urls(value)
    return scrub(word)


def _is_secret_setting(name: str, value: str) -> bool:
    """Whether the value of ``-O a.b=value`` is or may hold a secret; its secrets are remembered."""
    keys = [key for key in re.split(r"[.\[\]]+", name.lstrip("+~")) if key]
    path = tuple(int(key) if key.isdecimal() else key for key in keys)
    unquoted = value.strip().strip("'\"")
    masked_value = _masks.masked_text(unquoted, path)
    for part in _places.secret_parts(unquoted, path):
        if "${" not in part:
            _places.remember_part(part)
    if masked_value != unquoted:
        return True
    # Inline mappings and lists are not parsed here: one that mentions a key is masked as a whole.
    is_inline = value.lstrip()[:1] in ("{", "[")
    return is_inline and (_TELLING.search(value) is not None or _places.holds_secrets(path))
