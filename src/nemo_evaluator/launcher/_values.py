"""Single values of the launcher's dialect in ours; rows of the table name these functions (``via``)."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict

_BARE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


def sbatch_flags(value: JsonDict) -> dict[str, str]:
    """Flags of sbatch: true is a flag alone, false and null are none."""
    return {name: "true" if flag is True else str(flag) for name, flag in value.items() if flag not in (None, False)}


def mounts(value: JsonDict) -> list[str]:
    """``{host: container}`` as ``host:container``."""
    return [f"{host}:{inside}" for host, inside in value.items()]


def words(value: str) -> list[str]:
    """Arguments written as one text."""
    return shlex.split(value)


def shell(value: str) -> str:
    """Shell text, whose variables are not ours to expand."""
    return value.replace("${", "$${")


def variable(name: str, text: Any) -> tuple[str | None, str]:
    """A value of ``env_vars`` (None: not ours to set), and what there is to say of it. Raises ValueError."""
    kind, colon, rest = str(text).partition(":")
    if colon and kind in ("host", "lit"):
        return (f"${{{rest}}}" if kind == "host" else shell(rest)), ""
    if colon and kind == "runtime" and rest == name:
        return None, "it is inherited where the run happens"
    if _BARE.fullmatch(str(text)):
        return f"${{{text}}}", f"a bare name is the old spelling of host:{text}"
    raise ValueError(f"write host:NAME for a variable of this machine, or lit:VALUE for the value of {name} itself")
