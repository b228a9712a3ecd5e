"""Single values of the launcher's dialect in ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.table import Outcome

_BARE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")


def sbatch_flags(value: JsonDict) -> dict[str, str]:
    """Flags of sbatch: true is a flag alone, false and null are none."""
    return {
        name: "true" if given is True else str(given)
        for name, given in value.items()
        if given is not None and given is not False
    }


@dataclass(frozen=True, slots=True)
class Variable:
    """A value of ``env_vars`` in our words (None: it is not set by us), and what there is to say of it."""

    value: str | None
    outcome: Outcome = "translated"
    note: str = ""


def variable(name: str, text: Any) -> Variable:
    """``host:``, ``lit:`` and ``runtime:`` values, and the bare names of older configs."""
    kind, colon, rest = str(text).partition(":")
    if colon and kind == "host":
        return Variable(f"${{{rest}}}")
    if colon and kind == "lit":
        return Variable(rest.replace("${", "$${"))
    if colon and kind == "runtime":
        if rest == name:
            return Variable(None, "warned", "it is inherited where the run happens")
        return Variable(None, "refused", f"a variable cannot be renamed there; set {name} itself, or write host:{rest}")
    if _BARE.fullmatch(str(text)):
        return Variable(f"${{{text}}}", "warned", f"a bare name is the old spelling of host:{text}")
    return Variable(
        None, "refused", "write host:NAME for a variable of this machine, or lit:VALUE for the value itself"
    )


VIA: Final = {"sbatch_flags": sbatch_flags}
