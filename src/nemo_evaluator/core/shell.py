"""Values on their way into scripts and commands: what each may hold, and how it is quoted.

A quoted value is safe for a shell. It is not safe for what reads a script line by line: ``sbatch`` ends a directive at
the end of its line, and so do env files and the configuration of HAProxy. So a value is checked before it is quoted.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.lazy import lazy_pattern

# Control characters of ASCII and of Latin-1, the line and paragraph separators, and halves of surrogate pairs.
_CONTROL: Final = lazy_pattern("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# The same without tab and line breaks: what a value of several lines must not hold.
_CONTROL_IN_LINES: Final = lazy_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_ENV_NAME: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAG: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9_-]*")
# Also a name of ~/.ssh/config, or an address of IPv6.
_HOST: Final = lazy_pattern(r"[A-Za-z0-9_\[:][A-Za-z0-9_.:%\[\]-]*")
# Also DOMAIN\\user and user@domain.
_USER: Final = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]*\$?")
_MOUNT_PARTS: Final = (1, 2, 3)


def control_character(text: str, *, lines: bool = False) -> str | None:
    """The first character of a text that a script must not contain, as Python writes it; None when all are allowed.

    Args:
        text: The value.
        lines: Whether the value may have several lines.
    """
    pattern = _CONTROL_IN_LINES if lines else _CONTROL
    match = pattern.search(text)
    if match is not None:
        return ascii(match.group())
    return None


def is_env_name(name: str) -> bool:
    """Return whether a shell accepts a text as the name of a variable."""
    return _ENV_NAME.fullmatch(name) is not None


def is_flag_name(name: str) -> bool:
    """Return whether a text can be the name of a long option."""
    return _FLAG.fullmatch(name) is not None


def is_host_name(name: str) -> bool:
    """Return whether ``ssh`` and configuration files read a text as a host, and as nothing else."""
    return _HOST.fullmatch(name) is not None


def is_user_name(name: str) -> bool:
    """Return whether ``ssh`` reads a text as a user, and as nothing else."""
    return _USER.fullmatch(name) is not None


def mount_problem(mount: str, *, commas: bool = True) -> str | None:
    """Describe what is wrong with a mount ``host:container[:options]``; None when it is valid.

    Args:
        mount: The mount as the config writes it.
        commas: Whether a comma may separate options; False where commas separate whole mounts.
    """
    character = control_character(mount)
    if character is not None:
        return f"holds the character {character}"
    parts = mount.split(":")
    if len(parts) not in _MOUNT_PARTS or not all(parts):
        return "is not host:container[:options]"
    if mount.startswith("-"):
        return "begins with a dash"
    if any("," in part for part in parts[:2]):
        return "holds a comma in a path"
    if "," in mount and not commas:
        return "holds a comma, which separates mounts here"
    return None


def one_line(value: object, what: str = "a value of the job script") -> str:
    """Return a value for one line of a script.

    Raises:
        UsageError: It holds a control character.
    """
    text = str(value)
    character = control_character(text)
    if character is not None:
        raise UsageError(
            f"{what} holds the character {character}", hint="write it in one line, without it"
        )
    return text


def quoted(value: object) -> str:
    """Quote a value as one word of a shell.

    Raises:
        UsageError: It holds a control character other than tab and line break.
    """
    text = str(value)
    character = control_character(text, lines=True)
    if character is not None:
        raise UsageError(
            f"a value of a script holds the character {character}", hint="remove it from the config"
        )
    return shlex.quote(text)


def joined(words: Iterable[object]) -> str:
    """Quote words and join them to one command of a shell."""
    return " ".join([quoted(argument) for argument in words])


def env_name(name: str) -> str:
    """Return the name of an environment variable.

    Raises:
        UsageError: A shell would not accept it as a name.
    """
    if not is_env_name(name):
        hint = "use letters, digits and underscores, and begin with a letter or an underscore"
        raise UsageError(f"{name!r} cannot be the name of an environment variable", hint=hint)
    return name


def flag_name(name: str) -> str:
    """Return the name of a long option.

    Raises:
        UsageError: It cannot be the name of an option.
    """
    if not is_flag_name(name):
        raise UsageError(f"{name!r} cannot be the name of an option")
    return name


def mount(text: str, *, commas: bool = True) -> str:
    """Return a mount that is safe to write into a command.

    Raises:
        UsageError: It is not safe (see ``mount_problem``).
    """
    problem = mount_problem(text, commas=commas)
    if problem is not None:
        raise UsageError(
            f"the mount {text!r} {problem}", hint="write host:container or host:container:ro"
        )
    return text


def assignments(values: Mapping[str, str], *, export: bool = False) -> str:
    """Return lines that set variables when a shell reads them.

    Raises:
        UsageError: A name or a value cannot be set.
    """
    head = "export " if export else ""
    return "".join([f"{head}{env_name(name)}={quoted(value)}\n" for name, value in values.items()])
