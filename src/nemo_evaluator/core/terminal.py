"""Text that comes from elsewhere, on a terminal."""

from __future__ import annotations

from typing import Final

_CONTROLS: Final = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_LINES_AND_DIRECTIONS: Final = (*range(0x2028, 0x202F), *range(0x2066, 0x206A))
_UNSEEN: Final = dict.fromkeys((*_CONTROLS, *_LINES_AND_DIRECTIONS), " ")


def harmless(text: str) -> str:
    """The same text, with blanks for what would move the cursor or turn the reading direction around."""
    return text.translate(_UNSEEN)
