"""``.env``: variables of a project, kept beside its config. They never replace those of the environment."""

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
    """Set the variables of ``named``, or of ``folder/.env`` if there is one; returns the names that were set.

    A variable that the environment has already is left alone. Values whose name looks secret, and random
    ones, are masked from here on.
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
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            # The line itself may hold a key: it is not shown.
            raise UsageError(
                f"{path}:{number}: not NAME=VALUE",
                hint="quote a value that has spaces or quotes in it",
            )
        double = found["double"]
        if double is None:
            quoted = found["single"]
        else:
            quoted = _ESCAPE.sub(lambda one: _unescaped(one[1]), double)
        values[found["name"]] = quoted if quoted is not None else found["plain"]
    return values


def _unescaped(letter: str) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(letter, letter)
