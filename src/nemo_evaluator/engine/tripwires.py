"""Signs that an agent reached for its own grading: what its trajectory shows of things that a task has no use for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict

KEY: Final = "tripwires"
_AROUND: Final = 60
# The known solution lies where agents must not look.
_EXEMPT: Final = "oracle"


def tripped(wires: Mapping[str, str], trajectory: list[JsonDict]) -> dict[str, str]:
    """What an agent did that it had no honest use for: each with the place where it shows first."""
    found: dict[str, str] = {}
    for text in _done(trajectory):
        for pattern, what in wires.items():
            if what not in found and (match := re.search(pattern, text)) is not None:
                found[what] = text[max(0, match.start() - _AROUND) : match.end() + _AROUND]
    return found


def noted(one: JsonDict, other: JsonDict) -> JsonDict:
    """Two parts of a row's details as one; both may have noticed something."""
    both = {**(one.get(KEY) or {}), **(other.get(KEY) or {})}
    return one | other | ({KEY: both} if both else {})


def _done(trajectory: list[JsonDict]) -> Iterator[str]:
    """What the agent itself said and ordered; not what it was told."""
    for document in trajectory:
        if (document.get("agent") or {}).get("name") == _EXEMPT:
            continue
        for step in document.get("steps") or ():
            if step.get("source") == "agent":
                yield str(step.get("message") or "")
                for call in step.get("tool_calls") or ():
                    yield dumps(call.get("arguments")).decode()
