"""Lists of options with ticks and crosses, as signs or as the cells of a table."""

import re
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern

TICKS: Final = "✅✓✔☑"
CROSSES: Final = "❌✗✘✖❎"
# A sign, or a cell of a table.
_TICK: Final = lazy_pattern(rf"[{TICKS}]|\|\s*\**(?:yes|correct|true)\**\s*\|", re.IGNORECASE)
_CROSS: Final = lazy_pattern(
    rf"[{CROSSES}]|\|\s*\**(?:no|incorrect|wrong|false)\**\s*\|", re.IGNORECASE
)
# A line of a list with ticks and crosses: "❌ **A)** ...", "| A | ✅ |".
_MARKED: Final = lazy_pattern(
    r"[^\w\ue000-\uf8ff]*(?:\d+[.)]\W*)?(?:option\s+)?[^\w\ue000-\uf8ff]*([A-Za-z0-9])(?![\w'’])",
    re.IGNORECASE,
)


def ticked_labels(text: str, labels: str) -> set[str] | None:
    """Return the labels that a list ticks.

    Args:
        text: The response.
        labels: The offered labels.

    Returns:
        The ticked labels; None if the response has no list with both ticks and crosses.
    """
    if _TICK.search(text) is None:
        return None
    ticked: set[str] = set()
    crossed: set[str] = set()
    for line in text.split("\n"):
        has_tick = _TICK.search(line) is not None
        has_cross = _CROSS.search(line) is not None
        label = _MARKED.match(line)
        if label is None or label[1] not in labels or has_tick == has_cross:
            continue
        if has_tick:
            ticked.add(label[1])
        else:
            crossed.add(label[1])
    return ticked if crossed else None
