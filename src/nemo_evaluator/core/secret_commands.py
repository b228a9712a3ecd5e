"""Secrets in commands: values of flags, variables and headers, and passwords as programs take them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.core.secret_names import looks_secret
from nemo_evaluator.core.secret_values import (
    cookie_values,
    is_reference_name,
    looks_made_up,
    looks_random,
    without_scheme,
)

# `--api-key X`, `--api-key=X`, `-H "X-Api-Key: X"`, `NAME=X`, `user:password` behind -u.
_FLAG: Final = lazy_pattern(
    r"(?<![\w-])--?([A-Za-z][\w.-]*)(?:=|\s+)(\"[^\"]+\"|'[^']+'|[^\s'\"]+)"
)
_ASSIGNMENT: Final = lazy_pattern(r"(?<![\w-])([A-Za-z_]\w*)[\"']?=(\"[^\"]+\"|'[^']+'|[^\s;'\"]+)")
# csh, and the command prompt of Windows.
_SET: Final = lazy_pattern(
    r"(?<![\w-])(?:set|setenv|setx)\s+([A-Za-z_]\w*)\s+(\"[^\"]+\"|'[^']+'|[^\s;'\"]+)"
)
_HEADER: Final = lazy_pattern(r"(?<![\w-])([A-Za-z][\w-]*):\s*([^'\"\n]+)")
_USER_FLAGS: Final = frozenset({"u", "user", "proxy-user"})
_JOINED_USER: Final = lazy_pattern(r"(?<![\w-])-u([^\s:'\"/]+):([^\s'\"]+)")
_IDS: Final = lazy_pattern(r"\d+:\d+")
# Passwords that programs take in ways of their own: `curl -b session=X`, `echo X | docker login`.
_CURL_COOKIE: Final = lazy_pattern(
    r"\bcurl\b[^|;&\n]{0,500}?\s(?:-b|--cookie)[\s=]*[\"']?([^\s'\"]+=[^'\"\n]+)"
)
_PIPED: Final = lazy_pattern(
    r"\b(?:echo|printf)\s+(?:-\w+\s+)*(\"[^\"]+\"|'[^']+'|[^\s|'\"]+)\s*\|[^\n]{0,200}?(?:stdin|login|passwd|token)"
)
_OPENSSL: Final = lazy_pattern(r"\bpass:([^\s'\"]+)")
_COMMIT_OR_DIGEST: Final = lazy_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SECRET_FLAG: Final = lazy_pattern(r"-[^\s=]+")

# The letters of the flags with which a program takes a password.
_PASSWORD_FLAGS: Final = {
    "7z": "p",
    "az": "p",
    "cqlsh": "p",
    "docker": "p",
    "helm": "p",
    "ldapmodify": "w",
    "ldapsearch": "w",
    "mariadb": "p",
    "mongo": "p",
    "mongodump": "p",
    "mongosh": "p",
    "mosquitto_pub": "P",
    "mosquitto_sub": "P",
    "mysql": "p",
    "mysqladmin": "p",
    "mysqldump": "p",
    "mysqlimport": "p",
    "mysqlsh": "p",
    "oc": "p",
    "openssl": "kK",
    "podman": "p",
    "rar": "p",
    "redis-benchmark": "a",
    "redis-cli": "a",
    "skopeo": "p",
    "sqlcmd": "P",
    "sshpass": "p",
    "unrar": "p",
    "unzip": "P",
    "zip": "P",
}
# Of these, only this subcommand takes a password; elsewhere the letter means a port or a project.
_LOGIN_ONLY: Final = frozenset({"az", "docker", "helm", "oc", "podman", "skopeo"})
# They take `user%password` behind -U, and `user,password` behind -u.
_JOINED_PASSWORDS: Final = {"smbclient": ("U", "%"), "rpcclient": ("U", "%"), "lftp": ("u", ",")}
# In other programs these flags often take a key or a password, when the value looks like one.
_LIKELY_FLAGS: Final = frozenset({"k", "K", "p", "P", "pw"})
# What these take behind such a flag is a folder, a test, a port or a pattern.
_HARMLESS_PROGRAMS: Final = frozenset(
    {
        *("apptainer", "cp", "curl", "du", "install", "kill", "make", "mkdir", "mv", "nc", "ps"),
        *("py.test", "pytest", "python", "python3", "rsync", "scp", "singularity", "sort", "srun"),
        *("ssh", "sbatch", "tar", "tmux", "unittest", "wget", "xargs"),
    }
)
_WRAPPERS: Final = frozenset(
    {"command", "env", "exec", "nice", "nohup", "sudo", "time", "timeout", "torchrun"}
)
_SEPARATORS: Final = lazy_pattern(r"[;&|()\n]+")
_ONE_LETTER_FLAG: Final = lazy_pattern(r"-([A-Za-z])(.*)", re.DOTALL)
_FOLDER_OR_MODULE: Final = lazy_pattern(r"[./~]|[A-Za-z_]\w*[./]")


def command_parts(text: str) -> list[str]:
    """Return the secrets in a command.

    They are the values of flags, variables and headers whose names say so, passwords, and random words.
    """
    parts = [*_flag_values(text), *_variable_values(text), *_program_values(text)]
    for name, value in _HEADER.findall(text):
        if looks_secret(name):
            parts.append(without_scheme(value))
    for value in _PIPED.findall(text):
        parts.append(value.strip("'\""))
    parts += _OPENSSL.findall(text)
    for user, password in _JOINED_USER.findall(text):
        if not _IDS.fullmatch(f"{user}:{password}"):
            parts.append(password)
    for cookies in _CURL_COOKIE.findall(text):
        parts += cookie_values(cookies)
    for argument in re.split(r"[\s'\"=]+", text):
        if looks_random(argument) and not _COMMIT_OR_DIGEST.search(argument):
            parts.append(argument)
    return [part for part in parts if part and not part.startswith("$")]


def is_flag_of_secret(word: str) -> bool:
    """Return whether a secret follows an argument, such as ``--api-key``, as an argument of its own."""
    return _SECRET_FLAG.fullmatch(word) is not None and looks_secret(word.lstrip("-"))


def listed_password(word: str, before: str) -> str | None:
    """Return the password in one argument of a list, such as ``-phunter2``, or behind ``-p``; None without one.

    The program is not known, so the value itself has to look like a password.
    """
    flag = _ONE_LETTER_FLAG.fullmatch(word)
    if flag is not None and flag[1] in _LIKELY_FLAGS and _looks_like_password(flag[2]):
        return flag[2]
    if before[:1] == "-" and before[1:] in _LIKELY_FLAGS and _looks_like_password(word):
        return word
    return None


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


def _program_values(text: str) -> Iterator[str]:
    """The passwords behind one-letter flags: ``mysql -pX``, ``redis-cli -a X``."""
    for command in _SEPARATORS.split(text):
        yield from _passwords(_words(command))


def _words(command: str) -> list[str]:
    """Split a command into words; a command with an unpaired quote is split at its spaces."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _passwords(words: Sequence[str]) -> Iterator[str]:
    """Yield the passwords in the arguments of one command, which may start another: ``docker run image mysql -pX``."""
    program = ""
    for number, word in enumerate(words):
        flag = _ONE_LETTER_FLAG.match(word)
        if flag is None:
            program = _program(word, program)
            continue
        following = words[number + 1] if number + 1 < len(words) else ""
        value = word[2:] or following
        if program in _LOGIN_ONLY and "login" not in words:
            continue
        if program in _JOINED_PASSWORDS:
            letter, separator = _JOINED_PASSWORDS[program]
            if flag[1] == letter:
                yield value.partition(separator)[2]
        elif program in _PASSWORD_FLAGS:
            if flag[1] in _PASSWORD_FLAGS[program] and not value.startswith("-"):
                yield value
        elif program not in _HARMLESS_PROGRAMS:
            yield from filter(None, [listed_password(word, ""), listed_password(following, word)])


def _program(word: str, program: str) -> str:
    """The program that a word of a command starts; the one before it when the word is an argument."""
    name = word.rpartition("/")[2]
    is_known = name in _PASSWORD_FLAGS or name in _JOINED_PASSWORDS or name in _HARMLESS_PROGRAMS
    if is_known or (not program and name not in _WRAPPERS and "=" not in word):
        return name
    return program


def _looks_like_password(value: str) -> bool:
    """Whether a value is neither a flag, a number, a folder, a module nor a plain word."""
    if value.startswith(("-", "$")) or _FOLDER_OR_MODULE.match(value):
        return False
    return looks_made_up(value)
