"""``.env`` files: variables of a project, stored next to its config. They never replace existing ones."""

import os
import re
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secret_places import remember_config

_LINE: Final = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*
    (?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>(?:(?!\s\#).)*?))\s*(?:(?<=\s)\#.*)?""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\(.)")


def use_env_file(folder: Path, named: str | None = None) -> list[str]:
    """Set the environment variables of a ``.env`` file.

    Variables that already exist are not changed. Values that look like secrets, by their name or because they are
    random, are masked in all output from here on.

    Args:
        folder: The folder whose ``.env`` is read, if it exists.
        named: A file to read instead, which must exist.

    Returns:
        The names of the variables that were set.

    Raises:
        UsageError: If the file is unreadable or has an invalid line.
    """
    if named is not None:
        path = Path(named).expanduser()
    else:
        path = folder / ".env"
    if named is None and not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="give a text file of NAME=VALUE lines"
        ) from error
    values = {name: value for name, value in _parse(text, path).items() if name not in os.environ}
    remember_config({"env": values}, {}, {})
    os.environ.update(values)
    return list(values)


def _parse(text: str, path: Path) -> dict[str, str]:
    """Parse the lines of a ``.env`` file.

    Raises:
        UsageError: For a line that is not NAME=VALUE.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            # The message does not contain the line, which may hold a key.
            raise UsageError(
                f"{path}:{number}: not NAME=VALUE",
                hint="quote a value that has spaces or quotes in it",
            )
        double_quoted = match["double"]
        if double_quoted is None:
            quoted_value = match["single"]
        else:
            quoted_value = _ESCAPE.sub(lambda one: _unescaped(one[1]), double_quoted)
        values[match["name"]] = quoted_value if quoted_value is not None else match["plain"]
    return values


def _unescaped(letter: str) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(letter, letter)
